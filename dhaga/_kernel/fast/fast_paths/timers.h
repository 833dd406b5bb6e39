/* Timers: a park with a deadline has an entry in a heap. If something else ends the park, the entry is emptied.
Twins: Timers.add, discard and fire, Dhaga._expire and park_within, sleep, and the sleep of dhaga/time.py. */

/* The number of discarded entries that cause no rebuild of the heap: COMPACT_ABOVE of timers.py. */
#define TOLERATED 64
/* The number of timers that fire in a row: BATCH of timers.py. */
#define FIRED_AT_ONCE 256
/* The longest sleep of dhaga/time.py. */
#define MAX_SECONDS (9223372036854775808.0 / 1e9)

/* Objects of modules that are imported after this module. */
static PyObject *sleeping, *yielding, *timed_out, *end_turn, *overlong, *get_running_loop, *next_ident, *normal;

/* Timers.add. Returns: the entry. CALLS. */
static PyObject *
add_timer(PyObject *timers, PyObject *deadline, PyObject *expiring)
{
    PyObject *entry, *sequence, *number, *pushed, *args[2] = {deadline, expiring};

    if (IS_A(expiring, Dhaga) && SLOT(expiring, dhaga_priority) != normal) { /* a HIGH dhaga's timer is urgent */
        return call_twin(TIMERS_ADD, timers, args, 2, NULL);
    }
    entry = PyList_New(3);
    if (entry == NULL) {
        return NULL;
    }
    sequence = Py_NewRef(SLOT(timers, timers_sequence));
    PyList_SET_ITEM(entry, 0, Py_NewRef(deadline));
    PyList_SET_ITEM(entry, 1, Py_NewRef(Py_None));
    PyList_SET_ITEM(entry, 2, Py_NewRef(expiring));
    number = PyObject_CallNoArgs(sequence);
    Py_DECREF(sequence);
    if (number == NULL || PyList_SetItem(entry, 1, number) < 0) {
        Py_DECREF(entry);
        return NULL;
    }
    args[0] = SLOT(timers, timers_heap);
    args[1] = entry;
    Py_INCREF(args[0]);
    pushed = PyObject_Vectorcall(heappush, args, 2, NULL);
    Py_DECREF(args[0]);
    if (pushed == NULL) {
        Py_DECREF(entry);
        return NULL;
    }
    Py_DECREF(pushed);
    return entry;
}

static inline int
are_plain_timers(PyObject *timers)
{
    return timers != NULL && IS(timers, Timers) && SLOT(timers, timers_sequence) != NULL &&
           SLOT(timers, timers_discarded) != NULL && PyLong_CheckExact(SLOT(timers, timers_discarded)) &&
           SLOT(timers, timers_heap) != NULL && PyList_CheckExact(SLOT(timers, timers_heap)) &&
           SLOT(timers, timers_urgent) != NULL && PyList_CheckExact(SLOT(timers, timers_urgent));
}

static PyObject *
timers_add(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    if (names != NULL || count != 2 || !are_plain_timers(self)) {
        return call_twin(TIMERS_ADD, self, args, count, names);
    }
    return add_timer(self, args[0], args[1]);
}

static PyObject *
timers_discard(PyObject *self, PyObject *entry)
{
    long discarded;

    if (are_plain_timers(self) && PyList_CheckExact(entry) && PyList_GET_SIZE(entry) == 3) {
        if (PyList_GET_ITEM(entry, 2) == Py_None) {
            Py_RETURN_NONE;
        }
        if (read_number(self, timers_discarded, &discarded) && discarded >= 0 &&
            (discarded < TOLERATED || discarded < PyList_GET_SIZE(SLOT(self, timers_heap)) / 2)) {
            if (add(self, timers_discarded, 1) < 0 || PyList_SetItem(entry, 2, Py_NewRef(Py_None)) < 0) {
                return NULL;
            }
            Py_RETURN_NONE;
        }
    }
    return call_twin(TIMERS_DISCARD, self, &entry, 1, NULL);
}

/* Whether C may add timers of a scheduler: its clock is set, and no program has replaced its Timers. */
static inline int
has_plain_timers(PyObject *scheduler)
{
    return scheduler != NULL && IS_A(scheduler, Scheduler) && SLOT(scheduler, scheduler_clock) != NULL &&
           are_plain_timers(SLOT(scheduler, scheduler_timers));
}

/* Read the scheduler's clock. The caller has checked that the scheduler has a clock. CALLS. */
static PyObject *
time_now(PyObject *scheduler)
{
    PyObject *clock = Py_NewRef(SLOT(scheduler, scheduler_clock)), *now = PyObject_CallNoArgs(clock);

    Py_DECREF(clock);
    return now;
}

static int
know_late_names(void)
{
    if (sleeping == NULL) {
        sleeping = imported("dhaga._kernel.wait.waiter", "SLEEPING", NULL);
    }
    if (yielding == NULL) {
        yielding = imported("dhaga._kernel.wait.waiter", "YIELDING", NULL);
    }
    if (timed_out == NULL) {
        timed_out = imported("dhaga._kernel.wait.waiter", "TIMED_OUT", NULL);
    }
    if (end_turn == NULL) {
        end_turn = imported("dhaga._kernel.run.turn_budget", "end_turn", NULL);
    }
    if (overlong == NULL) { /* the schedulers in an overlong turn */
        overlong = imported("dhaga._kernel.run.preemption", "overlong", NULL);
    }
    if (get_running_loop == NULL) { /* of asyncio, because _asyncio must not be imported first */
        get_running_loop = imported("asyncio", "_get_running_loop", NULL);
    }
    if (next_ident == NULL) {
        next_ident = imported("dhaga._kernel.run.microthread", "next_ident", NULL);
    }
    if (normal == NULL) {
        normal = imported("dhaga._kernel.run.run_queues", "NORMAL", NULL);
    }
    return sleeping == NULL || yielding == NULL || timed_out == NULL || end_turn == NULL || overlong == NULL ||
                   get_running_loop == NULL || next_ident == NULL || normal == NULL
               ? -1
               : 0;
}

/* Park a prepared waiter for at most `seconds` seconds. Returns: the value of the wake, or of the timer. CALLS. */
static PyObject *
park_within(PyObject *me, PyObject *seconds)
{
    PyObject *scheduler = SLOT(me, dhaga_scheduler), *timers, *now, *deadline, *entry, *value, *discarded, *error;

    timers = Py_NewRef(SLOT(scheduler, scheduler_timers));
    now = time_now(scheduler);
    deadline = now == NULL ? NULL : PyNumber_Add(now, seconds);
    Py_XDECREF(now);
    entry = deadline == NULL ? NULL : add_timer(timers, deadline, me);
    Py_XDECREF(deadline);
    if (entry == NULL) {
        Py_DECREF(timers);
        leave(me);
        return NULL;
    }
    value = park_here(me);
    if (PyList_GET_ITEM(entry, 2) != Py_None) { /* the timer has not fired */
        error = take_error();
        discarded = timers_discard(timers, entry);
        if (discarded == NULL && forget_want_of_memory()) { /* empty the entry, without counting it as discarded */
            discarded = Py_NewRef(Py_None);
            (void)PyList_SetItem(entry, 2, Py_NewRef(Py_None));
        }
        if (discarded == NULL) {
            Py_CLEAR(value);
            Py_XDECREF(error);
        }
        else if (error != NULL) {
            raise_again(error);
        }
        Py_XDECREF(discarded);
    }
    Py_DECREF(entry);
    Py_DECREF(timers);
    return value;
}

static PyObject *
dhaga_park_within(PyObject *self, PyObject *timeout)
{
    PyObject *scheduler = SLOT(self, dhaga_scheduler);

    if (switches_plainly(scheduler)) {
        if (timeout == Py_None) {
            return park(scheduler, self);
        }
        if (has_plain_timers(scheduler)) {
            return park_within(self, timeout);
        }
    }
    return call_twin(PARK_UNTIL, self, &timeout, 1, NULL);
}

/* ---- firing */

/* Waiter._expire: wake a sleeper. Every other park is undone by the twin. CALLS. */
static PyObject *
dhaga__expire(PyObject *self, PyObject *no)
{
    PyObject *ticket = own_slot(self, dhaga_parked);
    int claimed;

    if (sleeping == NULL || SLOT(self, dhaga_target) != sleeping || ticket == NULL || !PyList_CheckExact(ticket)) {
        DISOWN(ticket);
        return call_twin(EXPIRE, self, NULL, 0, no);
    }
    claimed = claim(ticket); /* self is alive: the caller holds a reference */
    DISOWN(ticket);
    if (claimed < 0 || (claimed > 0 && resume(self, Py_None) < 0)) {
        return NULL;
    }
    Py_RETURN_NONE;
}

/* Returns: -1 with an error, if the heap holds a foreign object. */
static int
is_entry(PyObject *entry)
{
    if (PyList_CheckExact(entry) && PyList_GET_SIZE(entry) == 3) {
        return 0;
    }
    PyErr_SetString(PyExc_TypeError, "a timer's entry is not a list of three");
    return -1;
}

/* Remove the first heap entry if it is due. Stores the object that expires, owned, in `*expiring`: None if the entry
was discarded, NULL if no entry is due. Returns: -1 on an error. CALLS. */
static int
take_due(PyObject *timers, PyObject *now, PyObject **expiring)
{
    PyObject *heap = SLOT(timers, timers_heap), *entry, *deadline;
    int later;

    *expiring = NULL;
    if (PyList_GET_SIZE(heap) == 0) {
        return 0;
    }
    entry = PyList_GET_ITEM(heap, 0);
    if (is_entry(entry) < 0) {
        return -1;
    }
    deadline = Py_NewRef(PyList_GET_ITEM(entry, 0));
    later = PyObject_RichCompareBool(deadline, now, Py_GT);
    Py_DECREF(deadline);
    if (later) {
        return later < 0 ? -1 : 0;
    }
    heap = Py_NewRef(SLOT(timers, timers_heap));
    entry = PyObject_CallOneArg(heappop, heap);
    Py_DECREF(heap);
    if (entry == NULL || is_entry(entry) < 0) {
        Py_XDECREF(entry);
        return -1;
    }
    *expiring = Py_NewRef(PyList_GET_ITEM(entry, 2));
    if (PyList_SetItem(entry, 2, Py_NewRef(Py_None)) < 0) {
        Py_CLEAR(*expiring);
    }
    Py_DECREF(entry);
    return *expiring == NULL ? -1 : 0;
}

static PyObject *
timers_fire(PyObject *self, PyObject *now)
{
    PyObject *expiring, *result;
    int i;

    for (i = 0; i < FIRED_AT_ONCE; i++) {
        if (!are_plain_timers(self) || SLOT(self, timers_fired) == NULL ||
            PyList_GET_SIZE(SLOT(self, timers_urgent)) > 0) {
            return call_twin(FIRE, self, &now, 1, NULL);
        }
        if (take_due(self, now, &expiring) < 0) {
            return NULL;
        }
        if (expiring == NULL) {
            Py_RETURN_FALSE;
        }
        if (add(self, expiring == Py_None ? timers_discarded : timers_fired, expiring == Py_None ? -1 : 1) < 0) {
            Py_DECREF(expiring);
            return NULL;
        }
        result = expiring == Py_None  ? Py_NewRef(Py_None)
                 : IS(expiring, Dhaga) ? dhaga__expire(expiring, NULL)
                                       : PyObject_CallMethodNoArgs(expiring, str_expire);
        Py_DECREF(expiring);
        if (result == NULL) {
            return NULL;
        }
        Py_DECREF(result);
    }
    Py_RETURN_TRUE;
}

/* ---- sleep */

/* sleep(0): once around the run queue. CALLS. */
static PyObject *
yield_(PyObject *me)
{
    PyObject *scheduler = Py_NewRef(SLOT(me, dhaga_scheduler)), *queue = SLOT(me, dhaga_queue);
    int failed;

    put(me, dhaga_target, Py_NewRef(yielding));
    failed = append_to(queue, me) < 0 || switch_away(scheduler) < 0;
    put(me, dhaga_target, Py_NewRef(Py_None));
    Py_DECREF(scheduler);
    if (failed) {
        return NULL;
    }
    Py_RETURN_NONE;
}

/* timed_sleep() of sleep.py. Takes the ticket's reference. CALLS. */
static PyObject *
sleep_for(PyObject *me, PyObject *seconds, PyObject *ticket)
{
    former_park before;
    PyObject *value;

    prepare(me, str_sleep, sleeping, ticket, &before);
    drop(&before);
    value = park_within(me, seconds);
    if (value == NULL) {
        return NULL;
    }
    Py_DECREF(value);
    Py_RETURN_NONE;
}

/* Whether no loop runs here. If one runs, the twin decides whether a park may stop it. 0 also with an error. CALLS. */
static int
no_running_loop(void)
{
    PyObject *loop = PyObject_CallNoArgs(get_running_loop);

    Py_XDECREF(loop);
    return loop == Py_None;
}

static PyObject *
sleep_(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    PyObject *me, *ticket;
    double seconds = -1;

    if (names == NULL && !frozen && (count == 0 || count == 1)) {
        if (count == 0) {
            seconds = 0;
        }
        else if (PyLong_CheckExact(args[0])) {
            seconds = (double)PyLong_AsLong(args[0]);
        }
        else if (PyFloat_CheckExact(args[0])) {
            seconds = PyFloat_AS_DOUBLE(args[0]);
        }
        if (seconds == -1) { /* also an int that is too large */
            PyErr_Clear();
        }
        me = seconds < 0 ? NULL : current();
        if (me == NULL && PyErr_Occurred()) {
            return NULL;
        }
        if (me != NULL && seconds == 0 && (yielding != NULL || know_late_names() == 0) && may_wait(me)) {
            return yield_(me);
        }
        if (me != NULL && seconds > 0 && know_late_names() == 0 && no_running_loop()) {
            ticket = new_ticket(me);
            if (ticket == NULL) {
                return NULL;
            }
            if (may_wait(me) && has_plain_timers(SLOT(me, dhaga_scheduler))) {
                return sleep_for(me, args[0], ticket);
            }
            Py_DECREF(ticket);
        }
        if (PyErr_Occurred()) {
            return NULL;
        }
    }
    return PyObject_Vectorcall(python_twin[SLEEP], args, (size_t)count, names);
}

/* sleep() of dhaga/time.py, which refuses the same arguments as the standard function. CALLS. */
static PyObject *
time_sleep(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    double seconds = -1;

    if (names == NULL && !frozen && count == 1) {
        if (PyLong_CheckExact(args[0])) {
            seconds = (double)PyLong_AsLong(args[0]);
            if (seconds == -1) { /* also an int that is too large */
                PyErr_Clear();
            }
        }
        else if (PyFloat_CheckExact(args[0])) {
            seconds = PyFloat_AS_DOUBLE(args[0]);
        }
        if (seconds >= 0 && seconds < MAX_SECONDS) {
            return sleep_(module, args, count, names);
        }
    }
    return PyObject_Vectorcall(python_twin[TIME_SLEEP], args, (size_t)count, names);
}
