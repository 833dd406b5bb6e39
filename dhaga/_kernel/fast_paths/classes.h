/* The classes that the fast paths know, where their slots lie, and what else is static: twins, types, strings. */

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
    dhaga_error, dhaga_since, dhaga_done, dhaga_fn, dhaga_args, dhaga_kwargs, dhaga_joiners, dhaga_thread_local_refs,
    dhaga_priority, dhaga_ident, dhaga_own_name, dhaga_daemon, dhaga_result_waiters;
static const slot dhaga_slots[] = {
    {"scheduler", &dhaga_scheduler}, {"_queue", &dhaga_queue},   {"_pending", &dhaga_pending},
    {"_parked", &dhaga_parked},      {"_target", &dhaga_target}, {"_reason", &dhaga_reason},
    {"_value", &dhaga_value},        {"_error", &dhaga_error},   {"_since", &dhaga_since},
    {"_done", &dhaga_done},          {"_fn", &dhaga_fn},         {"_args", &dhaga_args},
    {"_kwargs", &dhaga_kwargs},      {"_joiners", &dhaga_joiners},
    {"_thread_local_refs", &dhaga_thread_local_refs},
    {"_priority", &dhaga_priority},  {"ident", &dhaga_ident},    {"_own_name", &dhaga_own_name},
    {"daemon", &dhaga_daemon},       {"_result_waiters", &dhaga_result_waiters},
    {NULL, NULL},
};

static Py_ssize_t scheduler_run_queue, scheduler_next_poll_at, scheduler_switches_left, scheduler_around_park,
    scheduler_asleep, scheduler_lap_over, scheduler_hub, scheduler_low, scheduler_poller, scheduler_clock, scheduler_turn_ends_at,
    scheduler_timers, scheduler_live, scheduler_next_on_hub, scheduler_traced, scheduler_closing, scheduler_end_reason,
    scheduler_new_queues;
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
    {"_clock", &scheduler_clock},
    {"_turn_ends_at", &scheduler_turn_ends_at},
    {"_timers", &scheduler_timers},
    {"_live", &scheduler_live},
    {"_next_on_hub", &scheduler_next_on_hub},
    {"_traced", &scheduler_traced},
    {"_closing", &scheduler_closing},
    {"_end_reason", &scheduler_end_reason},
    {"_new_queues", &scheduler_new_queues},
    {NULL, NULL},
};

static Py_ssize_t new_queue_scheduler, new_queue_not_started;
static const slot new_queue_slots[] = {
    {"scheduler", &new_queue_scheduler}, {"not_started", &new_queue_not_started}, {NULL, NULL}};

static Py_ssize_t timers_heap, timers_sequence, timers_discarded, timers_fired;
static const slot timers_slots[] = {
    {"heap", &timers_heap},   {"sequence", &timers_sequence}, {"discarded", &timers_discarded},
    {"fired", &timers_fired}, {NULL, NULL},
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

static Py_ssize_t semaphore_value, semaphore_waiters;
static const slot semaphore_slots[] = {
    {"_value", &semaphore_value}, {"_waiters", &semaphore_waiters}, {NULL, NULL}};

static Py_ssize_t bounded_initial_value;
static const slot bounded_slots[] = {{"_initial_value", &bounded_initial_value}, {NULL, NULL}};

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

static Py_ssize_t simple_queue_items, simple_queue_getters;
static const slot simple_queue_slots[] = {
    {"_items", &simple_queue_items}, {"_getters", &simple_queue_getters}, {NULL, NULL}};

static Py_ssize_t epoll_epoll, epoll_watchers, epoll_sharers, epoll_events, epoll_to_recheck;
static const slot epoll_slots[] = {
    {"epoll", &epoll_epoll},   {"watchers", &epoll_watchers},     {"fd_sharers", &epoll_sharers},
    {"events", &epoll_events}, {"to_recheck", &epoll_to_recheck}, {NULL, NULL},
};

static Py_ssize_t watcher_readable, watcher_readers, watcher_writers, watcher_scheduler, watcher_poller,
    watcher_read_reason, watcher_watched, watcher_short_read_means_empty, watcher_may_have_more;
static const slot watcher_slots[] = {
    {"readable", &watcher_readable},
    {"readers", &watcher_readers},
    {"writers", &watcher_writers},
    {"scheduler", &watcher_scheduler},
    {"poller", &watcher_poller},
    {"read_reason", &watcher_read_reason},
    {"watched", &watcher_watched},
    {"short_read_means_empty", &watcher_short_read_means_empty},
    {"may_have_more", &watcher_may_have_more},
    {NULL, NULL},
};

static Py_ssize_t socket_watcher, socket_watchers, socket_call_timeout, socket_sends_until_check;
static const slot socket_slots[] = {
    {"watcher", &socket_watcher},
    {"watchers", &socket_watchers},
    {"call_timeout", &socket_call_timeout},
    {"sends_until_check", &socket_sends_until_check},
    {NULL, NULL},
};

static class Dhaga = {"Dhaga", dhaga_slots, NULL};
static class Scheduler = {"Scheduler", scheduler_slots, NULL};
static class NewQueue = {"NewQueue", new_queue_slots, NULL};
static class Timers = {"Timers", timers_slots, NULL};
static class WaitQueue = {"WaitQueue", wait_queue_slots, NULL};
static class OwnedLock = {"OwnedLock", lock_slots, NULL};
static class Lock = {"Lock", NULL, NULL};
static class RLock = {"RLock", rlock_slots, NULL};
static class Event = {"Event", event_slots, NULL};
static class Semaphore = {"Semaphore", semaphore_slots, NULL};
static class BoundedSemaphore = {"BoundedSemaphore", bounded_slots, NULL};
static class Mutex = {"Mutex", mutex_slots, NULL};
static class Queue = {"Queue", queue_slots, NULL};
static class SimpleQueue = {"SimpleQueue", simple_queue_slots, NULL};
static class Epoll = {"Epoll", epoll_slots, NULL};
static class FdWatcher = {"FdWatcher", watcher_slots, NULL};
static class Socket = {"socket", socket_slots, NULL};
static class SSLSocket = {"SSLSocket", NULL, NULL};
static class *const classes[] = {
    &Dhaga,     &Scheduler, &NewQueue, &Timers, &WaitQueue, &OwnedLock,   &Lock,  &RLock,     &Event,
    &Semaphore, &BoundedSemaphore, &Mutex,  &Queue,     &SimpleQueue, &Epoll, &FdWatcher, &Socket, &SSLSocket,
    NULL};

/* Whether the object is of the class itself, whose methods are the ones that the code here stands for. */
#define IS(object, class) ((class).type != NULL && Py_IS_TYPE((object), (class).type))
/* Whether it is of the class or a subclass, which has the same slots. */
#define IS_A(object, class) ((class).type != NULL && PyObject_TypeCheck((object), (class).type))

typedef enum {
    SLEEP,
    PARK,
    PREPARE,
    PARK_UNTIL,
    RESUME,
    WAKE,
    WAIT_FOR_END,
    END,
    SET_UP,
    RUN,
    ADMIT,
    TIMERS_ADD,
    TIMERS_DISCARD,
    FIRE,
    EXPIRE,
    POLL,
    WAIT,
    WAKE_FIRST,
    HAND_OVER_WAIT,
    LOCK_ACQUIRE,
    LOCK_RELEASE,
    LOCK_ENTER,
    RLOCK_ACQUIRE,
    RLOCK_RELEASE,
    RLOCK_ENTER,
    EVENT_SET,
    EVENT_WAIT,
    SEMAPHORE_ACQUIRE,
    SEMAPHORE_RELEASE,
    SEMAPHORE_ENTER,
    SEMAPHORE_EXIT,
    BOUNDED_RELEASE,
    QUEUE_PUT,
    QUEUE_GET,
    SIMPLE_QUEUE_PUT,
    SIMPLE_QUEUE_GET,
    SOCKET_RECV,
    SOCKET_RECV_INTO,
    SOCKET_SEND,
    SOCKET_SENDALL,
    TLS_RECV,
    TLS_READ,
    TLS_WRITE,
    FUNCTIONS
} function;

static PyObject *python_twin[FUNCTIONS]; /* owned */

static PyObject *hooks; /* the dictionary of the module of hooks, owned */
static int frozen;      /* interpreter exit: getcurrent() fails from now on; the Python twins know what to do */

static PyTypeObject *deque_type, *epoll_type;
static PyObject *deque_append, *deque_popleft, *heappush, *heappop, *plain_fileno, *empty;
static PyObject *str_on_wake, *str_switch, *str_append, *str_pop, *str_popleft, *str_wake_loop, *str_lap_is_over,
    *str_throw_error, *str_resume, *str_poll, *str_watchers, *str_ready, *str_dispatch, *str_recheck, *str_fileno,
    *str_polls_until_recheck, *str_hand_over_if_free, *str_unlock, *str_use_room,
    *str_to_recheck, *str_sleep, *str_join, *str_fd_watcher, *str_timeout, *str_on_spawn, *str_gr_context, *str_end,
    *str_fail, *str_closed, *str_openssl_lock, *str_write_lock, *str_release, *str_fds_to_close, *str_reading_writer,
    *str_finish_deferred, *str_sslobj, *str_pending, *str_pending_piece, *str_read, *str_read_again, *str_write,
    *str_write_again, *str_expire;

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
    {&str_to_recheck, "to_recheck"},
    {&str_sleep, "sleep"},
    {&str_join, "join"},
    {&str_fd_watcher, "fd_watcher"},
    {&str_timeout, "timeout"},
    {&str_on_spawn, "on_spawn"},
    {&str_gr_context, "gr_context"},
    {&str_end, "_end"},
    {&str_fail, "_fail"},
    {&str_closed, "closed"},
    {&str_openssl_lock, "openssl_lock"},
    {&str_write_lock, "write_lock"},
    {&str_release, "release"},
    {&str_fds_to_close, "fds_to_close"},
    {&str_reading_writer, "reading_writer"},
    {&str_finish_deferred, "finish_deferred"},
    {&str_sslobj, "_sslobj"},
    {&str_pending, "pending"},
    {&str_pending_piece, "pending_piece"},
    {&str_read, "read"},
    {&str_read_again, "read_again"},
    {&str_write, "write"},
    {&str_write_again, "write_again"},
    {&str_expire, "_expire"},
    {NULL, NULL},
};

/* An attribute of a module, or of a class in it. */
static PyObject *
imported(const char *module, const char *name, const char *attribute)
{
    PyObject *from = PyImport_ImportModule(module), *found = NULL, *outer;

    if (from != NULL) {
        found = PyObject_GetAttrString(from, name);
        Py_DECREF(from);
    }
    if (found != NULL && attribute != NULL) {
        outer = found;
        found = PyObject_GetAttrString(outer, attribute);
        Py_DECREF(outer);
    }
    return found;
}

/* Put a new reference into a slot. CALLS: the former content may be freed, so this comes last in a step. */
static inline void
put(PyObject *object, Py_ssize_t offset, PyObject *value)
{
    PyObject *former = SLOT(object, offset);
    SLOT(object, offset) = value;
    Py_XDECREF(former);
}

/* Add to the number in a slot, which is not negative. Returns: -1 on an error. */
static int
add(PyObject *object, Py_ssize_t offset, long count)
{
    PyObject *former = SLOT(object, offset), *sum;
    int too_large = 1;
    long number = former != NULL && PyLong_CheckExact(former) ? PyLong_AsLongAndOverflow(former, &too_large) : 0;

    if (too_large || (count > 0 && number > LONG_MAX - count)) {
        PyErr_SetString(PyExc_OverflowError, "a count that is no int, or too large");
        return -1;
    }
    sum = PyLong_FromLong(number + count);
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
