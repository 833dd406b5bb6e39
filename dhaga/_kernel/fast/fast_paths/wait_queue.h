/* Wait queues: a waiter's ticket joins the queue of a lock, an event, … Twins: WaitQueue.wait and wake_first. */

static inline int
is_wait_queue(PyObject *object)
{
    return object != NULL && IS(object, WaitQueue) && SLOT(object, wait_queue_reason) != NULL &&
           IS_GUARDED(object, wait_queue_guard);
}

/* Read the arguments (block, timeout), or only (timeout), of a call that waits; the timeout is at `position`. Stores
the timeout, borrowed, in `*timeout`; NULL if there is no timeout. Returns: whether the fast path handles these
arguments: `block` is True, and the timeout is a usual number of seconds. */
static int
read_timeout(PyObject *const *args, Py_ssize_t count, PyObject *names, Py_ssize_t position, PyObject **timeout)
{
    PyObject *given = count > position ? args[position] : NULL;
    double seconds;

    *timeout = NULL;
    if (count > position + 1 || (position == 1 && count > 0 && args[0] != Py_True)) {
        return 0;
    }
    if (names != NULL) {
        if (given != NULL || PyTuple_GET_SIZE(names) != 1 || PyTuple_GET_ITEM(names, 0) != str_timeout) {
            return 0;
        }
        given = args[count];
    }
    if (given == NULL || given == Py_None) {
        return 1;
    }
    if (PyFloat_CheckExact(given)) {
        seconds = PyFloat_AS_DOUBLE(given);
    }
    else if (PyLong_CheckExact(given)) {
        seconds = (double)PyLong_AsLong(given);
        PyErr_Clear();
    }
    else {
        return 0;
    }
    *timeout = given;
    return seconds > 0 && seconds < 1e9 && know_late_names() == 0;
}

/* Whether the caller may wait here, with this timeout (NULL: none). */
static inline int
may_wait_for(PyObject *me, PyObject *timeout)
{
    return may_wait(me) && (timeout == NULL || has_plain_timers(SLOT(me, dhaga_scheduler)));
}

/* Append a ticket to a WaitQueue, under its guard. Returns: -1 on an error. */
static inline int
queue_up(PyObject *queue, PyObject *ticket)
{
    HOLD(queue, wait_queue_guard);
    return append_to(queue, ticket);
}

/* Queue up in a WaitQueue and park. Steals the ticket's reference; the caller has checked the primitive's state, under
the guard that it passes, and has called may_wait_for(). Returns: the value of the wake; TIMED_OUT. CALLS. */
static PyObject *
wait_in(PyObject *queue, PyObject *me, PyObject *ticket, PyObject *serve, PyObject *timeout AND_GUARD)
{
    former_park before;
    PyObject *served;
    int failed;

    Py_INCREF(queue);
    prepare(me, SLOT(queue, wait_queue_reason), queue, ticket, &before);
    failed = queue_up(queue, ticket);
    LET_GO_PASSED();
    drop(&before);
    Py_DECREF(queue);
    if (failed) {
        leave(me);
        return NULL;
    }
    if (serve != NULL) {
        served = PyObject_CallNoArgs(serve);
        if (served == NULL) {
            if (leave(me)) {
                return NULL;
            }
            /* A waker was faster, and its value must not be lost: the error stays pending until the next park. */
            served = keep_error(me);
            if (served == NULL) {
                return NULL;
            }
        }
        Py_DECREF(served);
    }
    return timeout == NULL ? park_here(me) : park_within(me, timeout);
}

/* The result of a wait with a timeout: True or False. Takes the value's reference. */
static inline PyObject *
in_time(PyObject *value)
{
    int late = value == timed_out;

    Py_XDECREF(value);
    return value == NULL ? NULL : Py_NewRef(late ? Py_False : Py_True);
}

static PyObject *
wait_queue_wait(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    PyObject *me, *ticket, *timeout;

    if (!frozen && count >= 2 && read_timeout(args + 2, count - 2, names, 0, &timeout)) {
        int serves = PyObject_IsTrue(args[0]);
        if (serves < 0) {
            return NULL;
        }
        me = current();
        ticket = me == NULL ? NULL : new_ticket(me);
        if (ticket == NULL) {
            return NULL;
        }
        HOLD(self, wait_queue_guard);
        if (may_wait_for(me, timeout) && is_wait_queue(self) && SLOT(self, wait_queue_closed) == Py_False) {
            return wait_in(self, me, ticket, serves ? args[1] : NULL, timeout PASS_GUARD);
        }
        LET_GO();
        Py_DECREF(ticket);
    }
    return PyErr_Occurred() ? NULL : call_twin(WAIT, self, args, count, names);
}

static PyObject *
wait_queue_wake_first(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    PyObject *waiter;

    if (names != NULL || count > 1 || !IS(self, WaitQueue) || !IS_GUARDED(self, wait_queue_guard)) {
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
