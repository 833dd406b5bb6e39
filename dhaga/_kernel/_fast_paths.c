/* The fast paths: compiled twins of the shortest ways through park, wake, yield, lock, event, queue and epoll.

Python is the source of truth. Each function here has its twin of the same name in a Python module, which `twin()` gets
and keeps. A compiled function does the common case alone: the caller is a dhaga, nothing is pending, no listener takes
part. In every other case it has changed nothing yet, and calls its Python twin with the same arguments. So behaviour is
read, typed and stepped through in Python, and what a function here may leave out it leaves out by calling the twin.

How it sees Python objects: the classes stay Python classes with __slots__. Where a slot lies in an object is read once a
class, from its member descriptor (PyMemberDescrObject), and checked: a slot of a class that is not ours, or that is no
plain object slot, makes `twin()` raise, and Python runs. A slot is read and written only in an object whose type was
checked to be that class. A deque is used by its own methods, a list by PyList_*: nothing private of CPython is touched.
(Members of C types would be as quick for Python; greenlet's type is a C++ object that is not made to be extended in C.)

Atomic: between two calls into Python, and before the drop of a reference that may be the last one, no other OS thread
and no signal handler runs. What belongs together stands between two such places. They are marked CALLS.
A reference that is held in C is an owned one across each CALLS. After each CALLS all slots are read anew.

Invariants of Dhaga that are kept here, by their place:
- a wake counts once: who takes the waiter out of its ticket resumes it (take_waiter);
- value before append: once a waiter stands in a run queue, another OS thread may switch to it (resume);
- the scheduler's sleep: the run queue is appended to first, and `_asleep` is looked at then (resume);
- ownership is handed over before the wake (hand_over);
- look and change of a primitive are one step: no CALLS between (each function of lock, event, queue).

One interpreter: the twins, types and offsets are static. Another interpreter that imports this module is refused. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>

#include <greenlet.h>

#ifdef __linux__
#include <errno.h>
#include <sys/epoll.h>
#endif

#if PY_VERSION_HEX < 0x030B0000
#error "the fast paths are for CPython 3.11 and later"
#endif
#ifdef Py_GIL_DISABLED
#error "the fast paths rest on the interpreter lock"
#endif

/* ---- classes and their slots */

typedef struct {
    const char *name;
    Py_ssize_t *offset;
} slot;

typedef struct {
    const char *name;
    const slot *slots;
    PyTypeObject *type; /* owned; NULL until bound */
} class;

#define SLOT(object, offset) (*(PyObject **)((char *)(object) + (offset)))

static Py_ssize_t dhaga_scheduler, dhaga_queue, dhaga_pending, dhaga_parked, dhaga_target, dhaga_reason, dhaga_value,
    dhaga_error, dhaga_since;
static const slot dhaga_slots[] = {
    {"scheduler", &dhaga_scheduler}, {"_queue", &dhaga_queue},   {"_pending", &dhaga_pending},
    {"_parked", &dhaga_parked},      {"_target", &dhaga_target}, {"_reason", &dhaga_reason},
    {"_value", &dhaga_value},        {"_error", &dhaga_error},   {"_since", &dhaga_since},
    {NULL, NULL},
};

static Py_ssize_t scheduler_run_queue, scheduler_next_poll_at, scheduler_switches_left, scheduler_around_park,
    scheduler_asleep, scheduler_lap_over, scheduler_hub, scheduler_low, scheduler_poller;
static const slot scheduler_slots[] = {
    {"_run_queue", &scheduler_run_queue},
    {"_next_poll_at", &scheduler_next_poll_at},
    {"_switches_left", &scheduler_switches_left},
    {"_around_park", &scheduler_around_park},
    {"_asleep", &scheduler_asleep},
    {"_lap_over", &scheduler_lap_over},
    {"_hub", &scheduler_hub},
    {"_low", &scheduler_low},
    {"_poller", &scheduler_poller},
    {NULL, NULL},
};

static Py_ssize_t wait_queue_reason, wait_queue_closed;
static const slot wait_queue_slots[] = {{"reason", &wait_queue_reason}, {"closed", &wait_queue_closed}, {NULL, NULL}};

static Py_ssize_t lock_holder, lock_waiters;
static const slot lock_slots[] = {{"_holder", &lock_holder}, {"_waiters", &lock_waiters}, {NULL, NULL}};

static Py_ssize_t rlock_count;
static const slot rlock_slots[] = {{"_count", &rlock_count}, {NULL, NULL}};

static Py_ssize_t event_flag, event_waiters, event_spare;
static const slot event_slots[] = {
    {"_flag", &event_flag}, {"_waiters", &event_waiters}, {"_spare_queue", &event_spare}, {NULL, NULL}};

static Py_ssize_t mutex_free;
static const slot mutex_slots[] = {{"_free", &mutex_free}, {NULL, NULL}};

static Py_ssize_t queue_maxsize, queue_unfinished, queue_is_shutdown, queue_mutex, queue_getters, queue_putters,
    queue_hands_over, queue_stock;
static const slot queue_slots[] = {
    {"maxsize", &queue_maxsize},
    {"unfinished_tasks", &queue_unfinished},
    {"is_shutdown", &queue_is_shutdown},
    {"mutex", &queue_mutex},
    {"_getters", &queue_getters},
    {"_putters", &queue_putters},
    {"_hands_over", &queue_hands_over},
    {"_stock", &queue_stock},
    {NULL, NULL},
};

static Py_ssize_t epoll_epoll, epoll_watchers, epoll_sharers, epoll_events, epoll_to_recheck;
static const slot epoll_slots[] = {
    {"epoll", &epoll_epoll},   {"watchers", &epoll_watchers},     {"fd_sharers", &epoll_sharers},
    {"events", &epoll_events}, {"to_recheck", &epoll_to_recheck}, {NULL, NULL},
};

static Py_ssize_t watcher_readable, watcher_readers, watcher_writers;
static const slot watcher_slots[] = {
    {"readable", &watcher_readable}, {"readers", &watcher_readers}, {"writers", &watcher_writers}, {NULL, NULL}};

static class Dhaga = {"Dhaga", dhaga_slots, NULL};
static class Scheduler = {"Scheduler", scheduler_slots, NULL};
static class WaitQueue = {"WaitQueue", wait_queue_slots, NULL};
static class OwnedLock = {"OwnedLock", lock_slots, NULL};
static class Lock = {"Lock", NULL, NULL};
static class RLock = {"RLock", rlock_slots, NULL};
static class Event = {"Event", event_slots, NULL};
static class Mutex = {"Mutex", mutex_slots, NULL};
static class Queue = {"Queue", queue_slots, NULL};
static class Epoll = {"Epoll", epoll_slots, NULL};
static class FdWatcher = {"FdWatcher", watcher_slots, NULL};
static class *const classes[] = {&Dhaga, &Scheduler, &WaitQueue, &OwnedLock, &Lock,      &RLock,
                                 &Event, &Mutex,     &Queue,     &Epoll,     &FdWatcher, NULL};

/* Whether the object is of the class itself, whose methods are the ones that the code here stands for. */
#define IS(object, class) ((class).type != NULL && Py_IS_TYPE((object), (class).type))
/* Whether it is of the class or a subclass, which has the same slots. */
#define IS_A(object, class) ((class).type != NULL && PyObject_TypeCheck((object), (class).type))

/* ---- the rest of what is static */

typedef enum { SLEEP, PARK, PREPARE, PARK_UNTIL, RESUME, WAKE, POLL, WAIT, WAKE_FIRST, HAND_OVER_WAIT,
    LOCK_ACQUIRE, LOCK_RELEASE, LOCK_ENTER, RLOCK_ACQUIRE, RLOCK_RELEASE, RLOCK_ENTER, EVENT_SET, EVENT_WAIT,
    QUEUE_PUT, QUEUE_GET, FUNCTIONS } function;

static PyObject *python_twin[FUNCTIONS]; /* owned */

static PyObject *hooks; /* the dictionary of the module of hooks, owned */
static int frozen;      /* interpreter exit: getcurrent() fails from now on; the Python twins know what to do */

static PyTypeObject *deque_type, *epoll_type;
static PyObject *deque_append, *deque_popleft;
static PyObject *str_on_wake, *str_switch, *str_append, *str_pop, *str_popleft, *str_wake_loop, *str_lap_is_over,
    *str_throw_error, *str_resume, *str_poll, *str_watchers, *str_ready, *str_dispatch, *str_recheck, *str_fileno,
    *str_polls_until_recheck, *str_hand_over_if_free, *str_unlock, *str_use_room;

static const struct {
    PyObject **string;
    const char *text;
} strings[] = {
    {&str_on_wake, "on_wake"},
    {&str_switch, "switch"},
    {&str_append, "append"},
    {&str_pop, "pop"},
    {&str_popleft, "popleft"},
    {&str_wake_loop, "_wake_loop"},
    {&str_lap_is_over, "_lap_is_over"},
    {&str_throw_error, "_throw_error"},
    {&str_resume, "_resume"},
    {&str_poll, "poll"},
    {&str_watchers, "watchers"},
    {&str_ready, "ready"},
    {&str_dispatch, "dispatch"},
    {&str_recheck, "recheck"},
    {&str_fileno, "fileno"},
    {&str_polls_until_recheck, "polls_until_recheck"},
    {&str_hand_over_if_free, "_hand_over_if_free"},
    {&str_unlock, "_unlock"},
    {&str_use_room, "_use_room"},
    {NULL, NULL},
};

/* Put a new reference into a slot. CALLS: the former content may be freed, so this comes last in a step. */
static inline void
put(PyObject *object, Py_ssize_t offset, PyObject *value)
{
    PyObject *former = SLOT(object, offset);
    SLOT(object, offset) = value;
    Py_XDECREF(former);
}

/* Add to the number in a slot. Returns: -1 on an error. */
static int
add(PyObject *object, Py_ssize_t offset, long count)
{
    PyObject *former = SLOT(object, offset), *more, *sum;

    if (former == NULL || !PyLong_CheckExact(former)) {
        PyErr_SetString(PyExc_TypeError, "a count that is no int");
        return -1;
    }
    more = PyLong_FromLong(count);
    sum = more == NULL ? NULL : PyNumber_Add(former, more);
    Py_XDECREF(more);
    if (sum == NULL) {
        return -1;
    }
    put(object, offset, sum);
    return 0;
}

/* Call a Python twin with the arguments that the compiled function got. CALLS. */
static PyObject *
call_twin(function which, PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    PyObject *small[8], **all = small, *result;
    Py_ssize_t given = count + (names == NULL ? 0 : PyTuple_GET_SIZE(names)), i;

    if (given > 7) {
        all = PyMem_New(PyObject *, (size_t)given + 1);
        if (all == NULL) {
            return PyErr_NoMemory();
        }
    }
    all[0] = self;
    for (i = 0; i < given; i++) {
        all[i + 1] = args[i];
    }
    result = PyObject_Vectorcall(python_twin[which], all, (size_t)count + 1, names);
    if (all != small) {
        PyMem_Free(all);
    }
    return result;
}

/* ---- deques, tickets */

static inline int
is_deque(PyObject *object)
{
    return object != NULL && Py_IS_TYPE(object, deque_type);
}

/* Length of a deque, or of a subclass that does not replace __len__. */
#define length(deque) PyObject_Size(deque)

/* Append to a deque or WaitQueue by deque's own method. Returns: -1 on an error. */
static inline int
append_to(PyObject *deque, PyObject *item)
{
    PyObject *args[2] = {deque, item};
    PyObject *result = PyObject_Vectorcall(deque_append, args, 2, NULL);
    if (result == NULL) {
        return -1;
    }
    Py_DECREF(result);
    return 0;
}

static inline PyObject *
popleft_of(PyObject *deque)
{
    return PyObject_Vectorcall(deque_popleft, &deque, 1, NULL);
}

/* Take the first waiter out of its ticket, which is the claim that decides which wake wins. Void tickets are dropped.
Sets the waiter, owned, or NULL if none waits. Returns: -1 on an error. CALLS, if a ticket was void. */
static int
take_waiter(PyObject *queue, PyObject **waiter)
{
    *waiter = NULL;
    while (length(queue) > 0) {
        PyObject *ticket = popleft_of(queue);
        if (ticket == NULL) {
            return -1;
        }
        if (PyList_CheckExact(ticket)) {
            Py_ssize_t size = PyList_GET_SIZE(ticket);
            if (size > 0) {
                *waiter = Py_NewRef(PyList_GET_ITEM(ticket, size - 1));
                if (PyList_SetSlice(ticket, size - 1, size, NULL) < 0) {
                    Py_CLEAR(*waiter);
                    Py_DECREF(ticket);
                    return -1;
                }
            }
            Py_DECREF(ticket); /* the waiter has it, too, or it is an empty list */
        }
        else { /* a ticket of a test's own, or the end mark of drop_void() */
            *waiter = PyObject_CallMethodNoArgs(ticket, str_pop);
            Py_DECREF(ticket);
            if (*waiter == NULL) {
                if (!PyErr_ExceptionMatches(PyExc_IndexError)) {
                    return -1;
                }
                PyErr_Clear();
            }
        }
        if (*waiter != NULL) {
            return 0;
        }
    }
    return 0;
}

/* ---- wake */

/* Make a waiter runnable that was taken out of its ticket: Waiter._resume. CALLS. */
static int
resume(PyObject *waiter, PyObject *value)
{
    PyObject *result, *scheduler, *queue, *former, *hook;
    int failed;

    if (!IS_A(waiter, Dhaga)) { /* main code, an OS thread, a Future */
        result = PyObject_CallMethodOneArg(waiter, str_resume, value);
        Py_XDECREF(result);
        return result == NULL ? -1 : 0;
    }
    hook = PyDict_GetItemWithError(hooks, str_on_wake);
    if (hook != NULL && hook != Py_None) {
        Py_INCREF(hook);
        result = PyObject_CallOneArg(hook, waiter);
        Py_DECREF(hook);
        if (result == NULL) {
            return -1;
        }
        Py_DECREF(result);
    }
    former = SLOT(waiter, dhaga_value);
    SLOT(waiter, dhaga_value) = Py_NewRef(value);
    queue = SLOT(waiter, dhaga_queue);
    scheduler = Py_XNewRef(SLOT(waiter, dhaga_scheduler));
    if (is_deque(queue)) {
        failed = append_to(queue, waiter);
    }
    else if (queue == NULL) {
        PyErr_SetString(PyExc_AttributeError, "_queue");
        failed = -1;
    }
    else { /* the queue of another priority, or of a test */
        Py_INCREF(queue);
        result = PyObject_CallMethodOneArg(queue, str_append, waiter);
        Py_DECREF(queue);
        failed = result == NULL ? -1 : 0;
        Py_XDECREF(result);
    }
    if (!failed && scheduler != NULL && IS_A(scheduler, Scheduler) && SLOT(scheduler, scheduler_asleep) != Py_False) {
        result = PyObject_CallMethodNoArgs(scheduler, str_wake_loop);
        failed = result == NULL ? -1 : 0;
        Py_XDECREF(result);
    }
    Py_XDECREF(scheduler);
    Py_XDECREF(former);
    return failed;
}

static PyObject *
dhaga__resume(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    if (names != NULL || count > 1) {
        return call_twin(RESUME, self, args, count, names);
    }
    if (resume(self, count ? args[0] : Py_None) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *
dhaga__wake(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    PyObject *ticket = SLOT(self, dhaga_parked);
    int failed;

    if (names != NULL || count > 1 || ticket == NULL || !PyList_CheckExact(ticket)) {
        return call_twin(WAKE, self, args, count, names);
    }
    if (PyList_GET_SIZE(ticket) == 0) {
        Py_RETURN_FALSE;
    }
    if (PyList_SetSlice(ticket, 0, 1, NULL) < 0) { /* self is alive: the caller has it */
        return NULL;
    }
    failed = resume(self, count ? args[0] : Py_None);
    if (failed) {
        return NULL;
    }
    Py_RETURN_TRUE;
}

/* ---- epoll */

/* Whether something is taken for false; a slot that is empty is. */
static inline int
is_empty_dict(PyObject *object)
{
    return object == NULL || (PyDict_CheckExact(object) && PyDict_GET_SIZE(object) == 0);
}

/* READ and WRITE of fd_watch.py */
#define DIRECTION_READ 1
#define DIRECTION_WRITE 2

#ifdef __linux__

#define BATCH 1024
#define UNUSUAL (EPOLLERR | EPOLLHUP | EPOLLRDHUP | EPOLLPRI)

/* One event of a watched fd. CALLS. */
static int
pass_on(PyObject *poller, PyObject *watcher, uint32_t events, int no_sharers)
{
    PyObject *readers, *writers, *waiter, *unused, *ticket, *queue, *result;
    Py_ssize_t position = 0;
    int directions;

    if (IS(watcher, FdWatcher) && no_sharers) {
        readers = SLOT(watcher, watcher_readers);
        writers = SLOT(watcher, watcher_writers);
        if ((events == EPOLLIN || (events == (EPOLLIN | EPOLLOUT) && is_empty_dict(writers))) && readers != NULL &&
            PyDict_CheckExact(readers) && PyDict_GET_SIZE(readers) <= 1) {
            put(watcher, watcher_readable, Py_NewRef(Py_True));
            if (!PyDict_Next(readers, &position, &waiter, &unused)) {
                return 0;
            }
            if (IS_A(waiter, Dhaga)) {
                ticket = SLOT(waiter, dhaga_parked);
                queue = SLOT(waiter, dhaga_queue);
                if (ticket != NULL && PyList_CheckExact(ticket) && is_deque(queue)) {
                    int failed = 0;
                    Py_INCREF(waiter);
                    Py_INCREF(ticket);
                    Py_INCREF(queue);
                    if (PyDict_DelItem(readers, waiter) < 0) {
                        failed = -1;
                    }
                    else if (PyList_GET_SIZE(ticket) > 0) { /* no look at _asleep: who polls is awake */
                        failed = PyList_SetSlice(ticket, 0, 1, NULL) < 0 ? -1 : append_to(queue, waiter);
                    }
                    Py_DECREF(queue);
                    Py_DECREF(ticket);
                    Py_DECREF(waiter);
                    return failed;
                }
            }
            result = PyObject_CallMethod(watcher, "ready", "i", DIRECTION_READ);
            Py_XDECREF(result);
            return result == NULL ? -1 : 0;
        }
    }
    directions = (events & EPOLLIN ? DIRECTION_READ : 0) | (events & EPOLLOUT ? DIRECTION_WRITE : 0);
    if (events & UNUSUAL) {
        directions = DIRECTION_READ | DIRECTION_WRITE;
    }
    result = PyObject_CallMethod(
        poller, "dispatch", "OiO", watcher, directions, events & UNUSUAL ? Py_True : Py_False);
    Py_XDECREF(result);
    return result == NULL ? -1 : 0;
}

/* Epoll.poll: wake the waiters whose fds are ready by now. CALLS. */
static int
poll_epoll(PyObject *self)
{
    struct epoll_event found[BATCH];
    PyObject *number, *watchers, *sharers, *recheck;
    long fd;
    int count, i, no_sharers, failed = 0;

    number = PyObject_CallMethodNoArgs(SLOT(self, epoll_epoll), str_fileno);
    if (number == NULL) {
        return -1;
    }
    fd = PyLong_AsLong(number);
    Py_DECREF(number);
    if (fd == -1 && PyErr_Occurred()) {
        return -1;
    }
    count = epoll_wait((int)fd, found, BATCH, 0); /* does not wait, so the interpreter lock is kept */
    if (count < 0) {
        if (errno != EINTR) {
            PyErr_SetFromErrno(PyExc_OSError);
            return -1;
        }
        count = 0;
    }
    if (count > 0) {
        if (add(self, epoll_events, count) < 0) {
            return -1;
        }
        sharers = SLOT(self, epoll_sharers);
        no_sharers = is_empty_dict(sharers);
        watchers = Py_XNewRef(SLOT(self, epoll_watchers));
        for (i = 0; i < count && !failed; i++) {
            PyObject *key = PyLong_FromLong(found[i].data.fd), *watcher = NULL;
            if (key != NULL && watchers != NULL) {
                watcher = Py_XNewRef(PyDict_GetItemWithError(watchers, key));
            }
            Py_XDECREF(key);
            if (watcher != NULL) {
                failed = pass_on(self, watcher, found[i].events, no_sharers);
                Py_DECREF(watcher);
            }
            else if (PyErr_Occurred()) {
                failed = -1;
            }
        }
        Py_XDECREF(watchers);
        if (failed) {
            return -1;
        }
    }
    recheck = SLOT(self, epoll_to_recheck);
    if (recheck != NULL && PyList_Check(recheck) && PyList_GET_SIZE(recheck) > 0) {
        PyObject *left = PyObject_GetAttr(self, str_polls_until_recheck), *result;
        long polls = left == NULL ? -1 : PyLong_AsLong(left) - 1;
        Py_XDECREF(left);
        if (PyErr_Occurred()) {
            return -1;
        }
        left = PyLong_FromLong(polls);
        if (left == NULL || PyObject_SetAttr(self, str_polls_until_recheck, left) < 0) {
            Py_XDECREF(left);
            return -1;
        }
        Py_DECREF(left);
        if (count == 0 || polls == 0) {
            result = PyObject_CallMethodNoArgs(self, str_recheck);
            Py_XDECREF(result);
            return result == NULL ? -1 : 0;
        }
    }
    return 0;
}

#endif

static PyObject *
epoll_poll(PyObject *self, PyObject *Py_UNUSED(no))
{
#ifdef __linux__
    PyObject *epoll = SLOT(self, epoll_epoll);

    if (IS(self, Epoll) && epoll != NULL && Py_IS_TYPE(epoll, epoll_type) && SLOT(self, epoll_events) != NULL) {
        if (poll_epoll(self) < 0) {
            return NULL;
        }
        Py_RETURN_NONE;
    }
#endif
    return call_twin(POLL, self, NULL, 0, NULL);
}

/* `if self._poller.watchers: self._poller.poll()`. CALLS. */
static int
poll_if_watched(PyObject *scheduler)
{
    PyObject *poller = Py_XNewRef(SLOT(scheduler, scheduler_poller)), *result;
    int failed = 0;

    if (poller == NULL) {
        PyErr_SetString(PyExc_AttributeError, "_poller");
        return -1;
    }
    if (IS(poller, Epoll)) {
        if (!is_empty_dict(SLOT(poller, epoll_watchers))) {
            result = epoll_poll(poller, NULL);
            failed = result == NULL ? -1 : 0;
            Py_XDECREF(result);
        }
    }
    else {
        PyObject *watchers = PyObject_GetAttr(poller, str_watchers);
        int some = watchers == NULL ? -1 : PyObject_IsTrue(watchers);
        Py_XDECREF(watchers);
        failed = some < 0 ? -1 : 0;
        if (some > 0) {
            result = PyObject_CallMethodNoArgs(poller, str_poll);
            failed = result == NULL ? -1 : 0;
            Py_XDECREF(result);
        }
    }
    Py_DECREF(poller);
    return failed;
}

/* ---- park */

static PyObject *
to_hub(PyObject *scheduler)
{
    put(scheduler, scheduler_lap_over, Py_NewRef(Py_True));
    return Py_XNewRef(SLOT(scheduler, scheduler_hub));
}

/* Scheduler._pick_next, where the run queue is a plain deque. CALLS. */
static PyObject *
pick_next(PyObject *scheduler, long left)
{
    PyObject *ready, *low, *result;

    if (left <= 0) {
        int over;
        result = PyObject_CallMethodNoArgs(scheduler, str_lap_is_over);
        over = result == NULL ? -1 : PyObject_IsTrue(result);
        Py_XDECREF(result);
        if (over) {
            return over < 0 ? NULL : to_hub(scheduler);
        }
    }
    ready = SLOT(scheduler, scheduler_run_queue);
    if (length(ready) == 0) {
        if (poll_if_watched(scheduler) < 0) {
            return NULL;
        }
        ready = SLOT(scheduler, scheduler_run_queue);
        if (length(ready) == 0) {
            low = SLOT(scheduler, scheduler_low);
            if (low != NULL && length(low) > 0) {
                return PyObject_CallMethodNoArgs(low, str_popleft);
            }
            return to_hub(scheduler);
        }
    }
    return popleft_of(ready);
}

/* Whether a switch of this scheduler may be made here: no listener, and a run queue that is a plain deque. */
static inline int
switches_plainly(PyObject *scheduler)
{
    return scheduler != NULL && IS_A(scheduler, Scheduler) && SLOT(scheduler, scheduler_around_park) == Py_None &&
           is_deque(SLOT(scheduler, scheduler_run_queue)) && SLOT(scheduler, scheduler_switches_left) != NULL &&
           PyLong_CheckExact(SLOT(scheduler, scheduler_switches_left));
}

/* Count the switch and switch to the next entry, until another greenlet switches back. CALLS. */
static int
switch_away(PyObject *scheduler)
{
    PyObject *ready = SLOT(scheduler, scheduler_run_queue), *entry, *result, *number;
    long left = PyLong_AsLong(SLOT(scheduler, scheduler_switches_left)) - 1;

    number = PyLong_FromLong(left);
    if (number == NULL) {
        return -1;
    }
    put(scheduler, scheduler_switches_left, number);
    entry = left != 0 && length(ready) > 0 ? popleft_of(ready) : pick_next(scheduler, left);
    if (entry == NULL) {
        if (!PyErr_Occurred()) {
            PyErr_SetString(PyExc_AttributeError, "_hub");
        }
        return -1;
    }
    if (IS(entry, Dhaga) || Py_IS_TYPE(entry, &PyGreenlet_Type)) {
        result = PyGreenlet_Switch((PyGreenlet *)entry, NULL, NULL);
    }
    else { /* main code, new dhagas, a call for the hub */
        result = PyObject_CallMethodNoArgs(entry, str_switch);
    }
    Py_DECREF(entry);
    if (result == NULL) {
        return -1;
    }
    Py_DECREF(result);
    return 0;
}

/* Scheduler._park for a dhaga, where switches_plainly(). CALLS. */
static PyObject *
park(PyObject *scheduler, PyObject *me)
{
    PyObject *value, *error;

    put(me, dhaga_since, Py_XNewRef(SLOT(scheduler, scheduler_next_poll_at)));
    Py_INCREF(scheduler);
    if (switch_away(scheduler) < 0) {
        Py_DECREF(scheduler);
        return NULL;
    }
    Py_DECREF(scheduler);
    error = SLOT(me, dhaga_error);
    if (error != NULL && error != Py_None) {
        PyObject *never = PyObject_CallMethodNoArgs(me, str_throw_error);
        Py_XDECREF(never);
        if (never == NULL) {
            return NULL;
        }
    }
    /* A parked dhaga must not keep alive what it once received. */
    value = SLOT(me, dhaga_value);
    SLOT(me, dhaga_value) = Py_NewRef(Py_None);
    if (value == NULL) {
        PyErr_SetString(PyExc_AttributeError, "_value");
    }
    return value;
}

static PyObject *
scheduler__park(PyObject *self, PyObject *me)
{
    if (!IS_A(me, Dhaga) || !switches_plainly(self)) {
        return call_twin(PARK, self, &me, 1, NULL);
    }
    return park(self, me);
}

/* Whether a dhaga of NORMAL priority neither waits already nor has anything to be raised. One that a test watches has a
queue of its own, and its subclass a property in the place of a slot. */
static inline int
nothing_pending(PyObject *me)
{
    PyObject *pending = SLOT(me, dhaga_pending), *parked = SLOT(me, dhaga_parked);
    return is_deque(SLOT(me, dhaga_queue)) && pending != NULL &&
           ((PyTuple_CheckExact(pending) && PyTuple_GET_SIZE(pending) == 0) ||
            (PyList_CheckExact(pending) && PyList_GET_SIZE(pending) == 0)) &&
           parked != NULL && PyList_CheckExact(parked) && PyList_GET_SIZE(parked) == 0;
}

/* Whether the caller may wait by the fast path: a dhaga that neither waits already nor has something to be raised. */
static inline int
may_wait(PyObject *me)
{
    return IS_A(me, Dhaga) && nothing_pending(me) && switches_plainly(SLOT(me, dhaga_scheduler));
}

/* The ticket of a park. CALLS: before 3.12 an allocation may collect garbage. So it is made before the looks. */
static inline PyObject *
new_ticket(PyObject *me)
{
    PyObject *ticket = PyList_New(1);
    if (ticket != NULL) {
        PyList_SET_ITEM(ticket, 0, Py_NewRef(me));
    }
    return ticket;
}

/* What a waiter's slots held before: dropped once all is done that must be one step. */
typedef struct {
    PyObject *target, *reason, *ticket;
} former;

static inline void
drop(former *all)
{
    Py_XDECREF(all->ticket);
    Py_XDECREF(all->reason);
    Py_XDECREF(all->target);
}

/* Waiter._prepare: mark a waiter that may_wait() as parked. Takes the ticket's reference. */
static inline void
prepare(PyObject *me, PyObject *reason, PyObject *target, PyObject *ticket, former *before)
{
    before->target = SLOT(me, dhaga_target);
    before->reason = SLOT(me, dhaga_reason);
    before->ticket = SLOT(me, dhaga_parked);
    SLOT(me, dhaga_target) = Py_NewRef(target);
    SLOT(me, dhaga_reason) = Py_NewRef(reason);
    SLOT(me, dhaga_parked) = ticket;
}

static PyObject *
dhaga__prepare(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    if (names == NULL && (count == 1 || count == 2)) {
        PyObject *ticket = new_ticket(self);
        former before;
        if (ticket == NULL) {
            return NULL;
        }
        if (nothing_pending(self)) {
            prepare(self, args[0], count == 2 ? args[1] : Py_None, ticket, &before);
            drop(&before);
            Py_RETURN_NONE;
        }
        Py_DECREF(ticket);
    }
    return call_twin(PREPARE, self, args, count, names);
}

static PyObject *
dhaga__park_until(PyObject *self, PyObject *timeout)
{
    PyObject *scheduler = SLOT(self, dhaga_scheduler);

    if (timeout != Py_None || !switches_plainly(scheduler)) {
        return call_twin(PARK_UNTIL, self, &timeout, 1, NULL);
    }
    return park(scheduler, self);
}

static PyObject *
sleep_(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    PyObject *me;
    int failed;

    if (names == NULL && !frozen && (count == 0 || (count == 1 && PyLong_CheckExact(args[0])))) {
        long seconds = count ? PyLong_AsLong(args[0]) : 0;
        if (seconds == -1 && PyErr_Occurred()) {
            PyErr_Clear();
        }
        if (seconds == 0) {
            me = (PyObject *)PyGreenlet_GetCurrent();
            if (me == NULL) {
                return NULL;
            }
            if (may_wait(me)) {
                PyObject *scheduler = Py_NewRef(SLOT(me, dhaga_scheduler)), *queue = SLOT(me, dhaga_queue);
                failed = append_to(queue, me) < 0 || switch_away(scheduler) < 0;
                Py_DECREF(scheduler);
                Py_DECREF(me);
                if (failed) {
                    return NULL;
                }
                Py_RETURN_NONE;
            }
            Py_DECREF(me);
        }
    }
    return PyObject_Vectorcall(python_twin[SLEEP], args, (size_t)count, names);
}

/* ---- wait queues */

static inline int
is_wait_queue(PyObject *object)
{
    return object != NULL && IS(object, WaitQueue) && SLOT(object, wait_queue_reason) != NULL;
}

/* Scheduler._park for the caller, who is a dhaga and stands in a queue. CALLS. */
static PyObject *
park_here(PyObject *me)
{
    PyObject *scheduler = SLOT(me, dhaga_scheduler);

    if (switches_plainly(scheduler)) {
        return park(scheduler, me);
    }
    return PyObject_CallMethod(scheduler, "_park", "O", me);
}

/* Queue up in a WaitQueue and park. Takes the ticket's reference; the caller has looked at what is to be had. CALLS. */
static PyObject *
wait_in(PyObject *queue, PyObject *me, PyObject *ticket, PyObject *serve)
{
    former before;
    PyObject *served;
    int failed;

    Py_INCREF(queue);
    prepare(me, SLOT(queue, wait_queue_reason), queue, ticket, &before);
    failed = append_to(queue, ticket);
    drop(&before);
    Py_DECREF(queue);
    if (failed) {
        return NULL;
    }
    if (serve != NULL) {
        served = PyObject_CallNoArgs(serve);
        if (served == NULL) {
            return NULL;
        }
        Py_DECREF(served);
    }
    return park_here(me);
}

static PyObject *
wait_queue_wait(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    if (names == NULL && !frozen && (count == 2 || (count == 3 && args[2] == Py_None))) {
        int serves = PyObject_IsTrue(args[0]);
        PyObject *me, *ticket, *value;
        if (serves < 0) {
            return NULL;
        }
        me = (PyObject *)PyGreenlet_GetCurrent();
        if (me == NULL) {
            return NULL;
        }
        ticket = new_ticket(me);
        if (ticket != NULL && may_wait(me) && is_wait_queue(self) && SLOT(self, wait_queue_closed) == Py_False) {
            value = wait_in(self, me, ticket, serves ? args[1] : NULL);
            Py_DECREF(me);
            return value;
        }
        Py_XDECREF(ticket);
        Py_DECREF(me);
        if (ticket == NULL) {
            return NULL;
        }
    }
    return call_twin(WAIT, self, args, count, names);
}

static PyObject *
wait_queue_wake_first(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    PyObject *waiter;

    if (names != NULL || count > 1 || !IS(self, WaitQueue)) {
        return call_twin(WAKE_FIRST, self, args, count, names);
    }
    if (take_waiter(self, &waiter) < 0) {
        return NULL;
    }
    if (waiter == NULL) {
        Py_RETURN_NONE;
    }
    if (resume(waiter, count ? args[0] : Py_True) < 0) {
        Py_DECREF(waiter);
        return NULL;
    }
    return waiter;
}

/* ---- locks */

/* Whether a class has the methods that the functions here stand for, rather than a subclass's own. */
static inline int
is_lock(PyObject *self)
{
    return IS(self, Lock) || IS(self, RLock);
}

/* Park until the lock is handed over, which is held by another. CALLS. */
static PyObject *
wait_for_lock(PyObject *self, PyObject *me)
{
    PyObject *ticket = new_ticket(me), *waiters, *value, *args[2] = {me, Py_None};

    if (ticket == NULL) {
        return NULL;
    }
    waiters = SLOT(self, lock_waiters);
    if (is_lock(self) && is_wait_queue(waiters) && SLOT(self, lock_holder) != Py_None && may_wait(me)) {
        value = wait_in(waiters, me, ticket, NULL); /* held until it is queued: no second look */
        if (value == NULL) {
            return NULL;
        }
        Py_DECREF(value);
        Py_RETURN_TRUE;
    }
    Py_DECREF(ticket);
    return call_twin(HAND_OVER_WAIT, self, args, 2, NULL);
}

static PyObject *
ownedlock__wait_for_hand_over(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    if (names != NULL || count != 2 || args[1] != Py_None) {
        return call_twin(HAND_OVER_WAIT, self, args, count, names);
    }
    return wait_for_lock(self, args[0]);
}

/* OwnedLock._hand_over. Returns: 1 if there was a waiter, -1 on an error. CALLS. */
static int
hand_over(PyObject *self, PyObject *waiters)
{
    PyObject *waiter, *former;
    int failed;

    if (take_waiter(waiters, &waiter) < 0) {
        return -1;
    }
    if (waiter == NULL) {
        return 0;
    }
    /* Owner before wake: a waiter in another OS thread may run, and release, as soon as it is woken. */
    former = SLOT(self, lock_holder);
    SLOT(self, lock_holder) = Py_NewRef(waiter);
    failed = resume(waiter, Py_True);
    Py_XDECREF(former);
    Py_DECREF(waiter);
    return failed ? -1 : 1;
}

/* Free the lock, or hand it to the first waiter. The caller has checked that it is held, and by whom. CALLS. */
static PyObject *
release(PyObject *self, function twin)
{
    PyObject *waiters = SLOT(self, lock_waiters), *result;
    int handed;

    if (!is_lock(self) || !is_wait_queue(waiters)) {
        return call_twin(twin, self, NULL, 0, NULL);
    }
    if (length(waiters) == 0) { /* one step: a waiter that queues up in between would not be woken */
        put(self, lock_holder, Py_NewRef(Py_None));
        Py_RETURN_NONE;
    }
    Py_INCREF(waiters);
    handed = hand_over(self, waiters);
    Py_DECREF(waiters);
    if (handed < 0) {
        return NULL;
    }
    if (handed == 0) {
        result = PyObject_CallMethodNoArgs(self, str_unlock);
        if (result == NULL) {
            return NULL;
        }
        Py_DECREF(result);
    }
    Py_RETURN_NONE;
}

static PyObject *
take_lock(PyObject *self)
{
    PyObject *me = (PyObject *)PyGreenlet_GetCurrent(), *result;

    if (me == NULL) {
        return NULL;
    }
    if (SLOT(self, lock_holder) == Py_None) {
        SLOT(self, lock_holder) = me; /* its reference goes with it, and None needs no drop that could call */
        Py_DECREF(Py_None);
        Py_RETURN_TRUE;
    }
    result = wait_for_lock(self, me);
    Py_DECREF(me);
    return result;
}

static PyObject *
lock_acquire(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    if (names == NULL && !frozen && (count == 0 || (count == 1 && args[0] == Py_True))) {
        return take_lock(self);
    }
    return call_twin(LOCK_ACQUIRE, self, args, count, names);
}

static PyObject *
lock___enter__(PyObject *self, PyObject *Py_UNUSED(no))
{
    if (frozen) {
        return call_twin(LOCK_ENTER, self, NULL, 0, NULL);
    }
    return take_lock(self);
}

static PyObject *
lock_release(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    PyObject *holder = SLOT(self, lock_holder);

    if (names != NULL || (count != 0 && count != 3) || holder == NULL || holder == Py_None) {
        return call_twin(LOCK_RELEASE, self, args, count, names);
    }
    return release(self, LOCK_RELEASE);
}

/* The caller, borrowed: who runs is alive. NULL on an error. */
static PyObject *
current(void)
{
    PyObject *me = (PyObject *)PyGreenlet_GetCurrent();
    Py_XDECREF(me);
    return me;
}

static PyObject *
rlock___enter__(PyObject *self, PyObject *Py_UNUSED(no))
{
    PyObject *me, *count;
    long times;

    if (frozen) {
        return call_twin(RLOCK_ENTER, self, NULL, 0, NULL);
    }
    me = current();
    if (me == NULL) {
        return NULL;
    }
    if (SLOT(self, lock_holder) == Py_None) {
        count = PyLong_FromLong(1);
        SLOT(self, lock_holder) = Py_NewRef(me);
        Py_DECREF(Py_None);
        put(self, rlock_count, count);
        Py_RETURN_TRUE;
    }
    count = SLOT(self, rlock_count);
    if (SLOT(self, lock_holder) == me && count != NULL && PyLong_CheckExact(count)) {
        times = PyLong_AsLong(count);
        count = times == -1 ? NULL : PyLong_FromLong(times + 1);
        if (count == NULL) {
            return PyErr_Occurred() ? NULL : call_twin(RLOCK_ENTER, self, NULL, 0, NULL);
        }
        put(self, rlock_count, count);
        Py_RETURN_TRUE;
    }
    return call_twin(RLOCK_ENTER, self, NULL, 0, NULL);
}

static PyObject *
rlock_acquire(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    if (count == 0 && names == NULL && !frozen) {
        PyObject *holder = SLOT(self, lock_holder), *me = current();
        if (me == NULL) {
            return NULL;
        }
        if (holder == Py_None || holder == me) {
            return rlock___enter__(self, NULL);
        }
    }
    return call_twin(RLOCK_ACQUIRE, self, args, count, names);
}

static PyObject *
rlock_release(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    PyObject *me, *times;
    long left;

    if (names == NULL && !frozen && (count == 0 || count == 3)) {
        me = current();
        if (me == NULL) {
            return NULL;
        }
        times = SLOT(self, rlock_count);
        if (SLOT(self, lock_holder) == me && times != NULL && PyLong_CheckExact(times)) {
            left = PyLong_AsLong(times);
            if (left == 1) { /* the count stays 1: each new holder sets its own */
                return release(self, RLOCK_RELEASE);
            }
            if (left > 1 && IS(self, RLock)) {
                times = PyLong_FromLong(left - 1);
                if (times == NULL) {
                    return NULL;
                }
                put(self, rlock_count, times);
                Py_RETURN_NONE;
            }
        }
    }
    return call_twin(RLOCK_RELEASE, self, args, count, names);
}

/* ---- events */

static PyObject *
event_set(PyObject *self, PyObject *Py_UNUSED(no))
{
    PyObject *waiters = SLOT(self, event_waiters), *spare;

    /* One step: a waiter that queues up in between would sleep beside a set flag. */
    if (IS(self, Event) && is_wait_queue(waiters) && length(waiters) == 0) {
        put(self, event_flag, Py_NewRef(Py_True));
        Py_RETURN_NONE;
    }
    spare = SLOT(self, event_spare);
    if (IS(self, Event) && is_wait_queue(waiters) && is_wait_queue(spare) && length(spare) == 0) {
        PyObject *flag = SLOT(self, event_flag), *waiter;
        int failed = 0;
        /* One step: from here on wait() returns at once, or queues up for the next set() if clear() comes first. */
        SLOT(self, event_flag) = Py_NewRef(Py_True);
        SLOT(self, event_waiters) = spare;
        SLOT(self, event_spare) = Py_NewRef(Py_None);
        Py_XDECREF(flag);
        while (!failed && !(failed = take_waiter(waiters, &waiter)) && waiter != NULL) {
            failed = resume(waiter, Py_True);
            Py_DECREF(waiter);
        }
        put(self, event_spare, waiters);
        if (failed) {
            return NULL;
        }
        Py_RETURN_NONE;
    }
    return call_twin(EVENT_SET, self, NULL, 0, NULL);
}

static PyObject *
event_wait(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    if (names == NULL && (count == 0 || (count == 1 && args[0] == Py_None)) && !frozen && IS(self, Event)) {
        PyObject *me, *ticket, *value;
        if (SLOT(self, event_flag) == Py_True) {
            Py_RETURN_TRUE;
        }
        me = (PyObject *)PyGreenlet_GetCurrent();
        if (me == NULL) {
            return NULL;
        }
        ticket = new_ticket(me);
        if (ticket != NULL && SLOT(self, event_flag) == Py_False && is_wait_queue(SLOT(self, event_waiters)) &&
            may_wait(me)) {
            value = wait_in(SLOT(self, event_waiters), me, ticket, NULL);
            Py_DECREF(me);
            if (value == NULL) {
                return NULL;
            }
            Py_DECREF(value);
            Py_RETURN_TRUE;
        }
        Py_XDECREF(ticket);
        Py_DECREF(me);
        if (ticket == NULL) {
            return NULL;
        }
    }
    return call_twin(EVENT_WAIT, self, args, count, names);
}

/* ---- queues */

/* Whether the queue is one whose items are a plain deque, and neither locked nor shut down. */
static inline int
is_plain_queue(PyObject *self)
{
    PyObject *mutex = SLOT(self, queue_mutex);
    return is_deque(SLOT(self, queue_stock)) && SLOT(self, queue_hands_over) == Py_True && mutex != NULL &&
           IS(mutex, Mutex) && SLOT(mutex, mutex_free) == Py_True && SLOT(self, queue_maxsize) != NULL &&
           SLOT(self, queue_unfinished) != NULL && PyLong_CheckExact(SLOT(self, queue_unfinished)) && SLOT(self, queue_is_shutdown) == Py_False &&
           is_wait_queue(SLOT(self, queue_getters)) && is_wait_queue(SLOT(self, queue_putters));
}

static PyObject *
queue_put(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    PyObject *getters, *getter, *stock, *maxsize;
    int failed;

    if (names != NULL || count != 1 || !IS(self, Queue) || !is_plain_queue(self)) {
        return call_twin(QUEUE_PUT, self, args, count, names);
    }
    getters = SLOT(self, queue_getters);
    if (length(getters) > 0) {
        Py_INCREF(getters);
        failed = take_waiter(getters, &getter);
        Py_DECREF(getters);
        if (failed) {
            return NULL;
        }
        if (getter == NULL) { /* all had left; void tickets are gone now */
            return call_twin(QUEUE_PUT, self, args, count, names);
        }
        /* Counted before the wake: the getter may be in another OS thread, and call task_done() at once. */
        if (add(self, queue_unfinished, 1) < 0) {
            PyErr_WriteUnraisable(self); /* the getter is out of its ticket: it gets its item whatever happens */
        }
        failed = resume(getter, args[0]);
        Py_DECREF(getter);
        if (failed) {
            return NULL;
        }
        Py_RETURN_NONE;
    }
    stock = SLOT(self, queue_stock);
    maxsize = SLOT(self, queue_maxsize);
    if (PyLong_CheckExact(maxsize)) {
        Py_ssize_t most = PyLong_AsSsize_t(maxsize);
        if (most == -1 && PyErr_Occurred()) {
            PyErr_Clear();
        }
        else if (most <= 0 || length(stock) < most) {
            if (append_to(stock, args[0]) < 0 || add(self, queue_unfinished, 1) < 0) {
                return NULL;
            }
            Py_RETURN_NONE;
        }
    }
    return call_twin(QUEUE_PUT, self, args, count, names);
}

static PyObject *
queue_get(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    PyObject *stock, *item, *me, *ticket;

    if (names != NULL || count != 0 || frozen || !IS(self, Queue)) {
        return call_twin(QUEUE_GET, self, args, count, names);
    }
    stock = SLOT(self, queue_stock);
    if (is_deque(stock) && length(stock) > 0) {
        item = popleft_of(stock);
        if (item != NULL && SLOT(self, queue_putters) != NULL && length(SLOT(self, queue_putters)) > 0) {
            PyObject *result = PyObject_CallMethodNoArgs(self, str_use_room);
            if (result == NULL) {
                Py_CLEAR(item);
            }
            Py_XDECREF(result);
        }
        return item;
    }
    me = (PyObject *)PyGreenlet_GetCurrent();
    if (me == NULL) {
        return NULL;
    }
    ticket = new_ticket(me);
    if (ticket != NULL && is_plain_queue(self) && length(SLOT(self, queue_stock)) == 0 &&
        length(SLOT(self, queue_putters)) == 0 && may_wait(me)) {
        item = wait_in(SLOT(self, queue_getters), me, ticket, NULL);
        Py_DECREF(me);
        return item;
    }
    Py_XDECREF(ticket);
    Py_DECREF(me);
    if (ticket == NULL) {
        return NULL;
    }
    return call_twin(QUEUE_GET, self, NULL, 0, NULL);
}

/* ---- the module */

#define FAST METH_FASTCALL | METH_KEYWORDS
#define AS_FAST(function) ((PyCFunction)(void (*)(void))(function))

/* Each compiled function: the class and the name of its Python twin. A module's function has no class. */
static struct {
    class *owner;
    PyMethodDef method;
} compiled[FUNCTIONS] = {
    [SLEEP] = {NULL, {"sleep", AS_FAST(sleep_), FAST, NULL}},
    [PARK] = {&Scheduler, {"_park", scheduler__park, METH_O, NULL}},
    [PREPARE] = {&Dhaga, {"_prepare", AS_FAST(dhaga__prepare), FAST, NULL}},
    [PARK_UNTIL] = {&Dhaga, {"_park_until", dhaga__park_until, METH_O, NULL}},
    [RESUME] = {&Dhaga, {"_resume", AS_FAST(dhaga__resume), FAST, NULL}},
    [WAKE] = {&Dhaga, {"_wake", AS_FAST(dhaga__wake), FAST, NULL}},
    [POLL] = {&Epoll, {"poll", epoll_poll, METH_NOARGS, NULL}},
    [WAIT] = {&WaitQueue, {"wait", AS_FAST(wait_queue_wait), FAST, NULL}},
    [WAKE_FIRST] = {&WaitQueue, {"wake_first", AS_FAST(wait_queue_wake_first), FAST, NULL}},
    [HAND_OVER_WAIT] = {&OwnedLock, {"_wait_for_hand_over", AS_FAST(ownedlock__wait_for_hand_over), FAST, NULL}},
    [LOCK_ACQUIRE] = {&Lock, {"acquire", AS_FAST(lock_acquire), FAST, NULL}},
    [LOCK_RELEASE] = {&Lock, {"release", AS_FAST(lock_release), FAST, NULL}},
    [LOCK_ENTER] = {&Lock, {"__enter__", lock___enter__, METH_NOARGS, NULL}},
    [RLOCK_ACQUIRE] = {&RLock, {"acquire", AS_FAST(rlock_acquire), FAST, NULL}},
    [RLOCK_RELEASE] = {&RLock, {"release", AS_FAST(rlock_release), FAST, NULL}},
    [RLOCK_ENTER] = {&RLock, {"__enter__", rlock___enter__, METH_NOARGS, NULL}},
    [EVENT_SET] = {&Event, {"set", event_set, METH_NOARGS, NULL}},
    [EVENT_WAIT] = {&Event, {"wait", AS_FAST(event_wait), FAST, NULL}},
    [QUEUE_PUT] = {&Queue, {"put", AS_FAST(queue_put), FAST, NULL}},
    [QUEUE_GET] = {&Queue, {"get", AS_FAST(queue_get), FAST, NULL}},
};

/* Find where the slots of a class lie, once. */
static int
bind(class *bound, PyTypeObject *type)
{
    const slot *each;

    if (bound->type == type) {
        return 0;
    }
    if (bound->type != NULL) {
        PyErr_Format(PyExc_TypeError, "there is a %s already", bound->name);
        return -1;
    }
    for (each = bound->slots; each != NULL && each->name != NULL; each++) {
        PyObject *found = PyObject_GetAttrString((PyObject *)type, each->name);
        PyMemberDef *member;
        if (found == NULL) {
            return -1;
        }
        if (!Py_IS_TYPE(found, &PyMemberDescr_Type) || !PyType_IsSubtype(type, ((PyDescrObject *)found)->d_type) ||
            (member = ((PyMemberDescrObject *)found)->d_member)->type != T_OBJECT_EX || member->flags != 0) {
            PyErr_Format(PyExc_TypeError, "%s.%s is no plain slot", bound->name, each->name);
            Py_DECREF(found);
            return -1;
        }
        *each->offset = member->offset;
        Py_DECREF(found);
    }
    bound->type = (PyTypeObject *)Py_NewRef(type);
    return 0;
}

PyDoc_STRVAR(layout_doc, "layout(class)\n--\n\nTake note of where the slots of one of Dhaga's classes lie.");

static PyObject *
layout(PyObject *Py_UNUSED(module), PyObject *type)
{
    class *const *each;

    if (PyType_Check(type)) {
        for (each = classes; *each != NULL; each++) {
            if (strcmp((*each)->name, ((PyTypeObject *)type)->tp_name) == 0) {
                if (bind(*each, (PyTypeObject *)type) < 0) {
                    return NULL;
                }
                Py_RETURN_NONE;
            }
        }
    }
    PyErr_Format(PyExc_TypeError, "%R is no class that the fast paths know", type);
    return NULL;
}

PyDoc_STRVAR(twin_doc,
             "twin(owner, name, function, doc)\n--\n\n"
             "Return the compiled twin of a Python function, which it calls wherever it has no fast path.\n\n"
             "owner: the function's class, or the name of its module. Raises: TypeError if there is none.");

static PyObject *
twin(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count)
{
    const char *name, *doc;
    char *kept;
    int i;

    if (count != 4 || !PyUnicode_Check(args[1]) || !PyCallable_Check(args[2]) || !PyUnicode_Check(args[3])) {
        PyErr_SetString(PyExc_TypeError, "twin() takes a class or a module's name, a name, a function and its doc");
        return NULL;
    }
    name = PyUnicode_AsUTF8(args[1]);
    doc = PyUnicode_AsUTF8(args[3]);
    if (name == NULL || doc == NULL) {
        return NULL;
    }
    for (i = 0; i < FUNCTIONS; i++) {
        class *owner = compiled[i].owner;
        if (strcmp(compiled[i].method.ml_name, name) != 0 || (owner == NULL) == PyType_Check(args[0]) ||
            (owner != NULL && strcmp(owner->name, ((PyTypeObject *)args[0])->tp_name) != 0)) {
            continue;
        }
        if (owner != NULL && bind(owner, (PyTypeObject *)args[0]) < 0) {
            return NULL;
        }
        if (python_twin[i] == NULL) {
            kept = PyMem_Malloc(strlen(doc) + 1); /* for as long as the process lives */
            if (kept == NULL) {
                return PyErr_NoMemory();
            }
            compiled[i].method.ml_doc = strcpy(kept, doc);
            python_twin[i] = Py_NewRef(args[2]);
        }
        else if (python_twin[i] != args[2]) {
            break;
        }
        return owner == NULL ? PyCFunction_NewEx(&compiled[i].method, NULL, args[0])
                             : PyDescr_NewMethod(owner->type, &compiled[i].method);
    }
    PyErr_Format(PyExc_TypeError, "there is no compiled twin of %R, or it is another function's", args[2]);
    return NULL;
}

PyDoc_STRVAR(freeze_doc, "freeze()\n--\n\nCall the Python twins from now on, as getcurrent() is about to fail.");

static PyObject *
freeze(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(no))
{
    frozen = 1;
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"layout", layout, METH_O, layout_doc},
    {"twin", AS_FAST(twin), METH_FASTCALL, twin_doc},
    {"freeze", freeze, METH_NOARGS, freeze_doc},
    {NULL, NULL, 0, NULL},
};

static int
start(PyObject *module)
{
    PyObject *collections, *hooks_module, *select_module;
    size_t i;

    if (PyModule_AddIntConstant(module, "READ", DIRECTION_READ) < 0 ||
        PyModule_AddIntConstant(module, "WRITE", DIRECTION_WRITE) < 0) {
        return -1;
    }
    if (PyInterpreterState_Get() != PyInterpreterState_Main() || hooks != NULL) {
        PyErr_SetString(PyExc_ImportError, "the fast paths run in the main interpreter alone, and once");
        return -1;
    }
    PyGreenlet_Import();
    if (_PyGreenlet_API == NULL) {
        return -1;
    }
    for (i = 0; strings[i].string != NULL; i++) {
        *strings[i].string = PyUnicode_InternFromString(strings[i].text);
        if (*strings[i].string == NULL) {
            return -1;
        }
    }
    collections = PyImport_ImportModule("collections");
    if (collections == NULL) {
        return -1;
    }
    deque_type = (PyTypeObject *)PyObject_GetAttrString(collections, "deque");
    Py_DECREF(collections);
    if (deque_type == NULL) {
        return -1;
    }
#ifdef __linux__
    select_module = PyImport_ImportModule("select");
    if (select_module == NULL) {
        return -1;
    }
    epoll_type = (PyTypeObject *)PyObject_GetAttrString(select_module, "epoll");
    Py_DECREF(select_module);
    if (epoll_type == NULL) {
        return -1;
    }
#endif
    deque_append = PyObject_GetAttrString((PyObject *)deque_type, "append");
    deque_popleft = PyObject_GetAttrString((PyObject *)deque_type, "popleft");
    if (deque_append == NULL || deque_popleft == NULL) {
        return -1;
    }
    hooks_module = PyImport_ImportModule("dhaga._kernel.hooks");
    if (hooks_module == NULL) {
        return -1;
    }
    hooks = Py_NewRef(PyModule_GetDict(hooks_module));
    Py_DECREF(hooks_module);
    return 0;
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, start},
#if PY_VERSION_HEX >= 0x030C0000
    {Py_mod_multiple_interpreters, Py_MOD_MULTIPLE_INTERPRETERS_NOT_SUPPORTED},
#endif
    {0, NULL},
};

PyDoc_STRVAR(module_doc, "Compiled twins of the shortest ways through the kernel and the primitives.");

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_fast_paths",
    .m_doc = module_doc,
    .m_size = 0,
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC
PyInit__fast_paths(void)
{
    return PyModuleDef_Init(&definition);
}
