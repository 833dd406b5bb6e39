/* The timer of a server connection. C arms it for a wait of the connection's own dhaga, if the entry in the heap fires
early enough. Twin: IdleTimer.arm. */

/* Whether the timer's entry fires at the deadline or earlier. */
static int
fires_in_time(PyObject *timer, double deadline)
{
    PyObject *first;

    if (timer == NULL || !PyList_CheckExact(timer) || PyList_GET_SIZE(timer) != 3) {
        return 0;
    }
    first = PyList_GET_ITEM(timer, 0);
    return PyFloat_CheckExact(first) && PyFloat_AS_DOUBLE(first) <= deadline;
}

/* The time in `seconds` seconds, by the scheduler's clock. Returns: NULL without an error if the clock returns no
float. CALLS. */
static PyObject *
time_in(PyObject *scheduler, double seconds)
{
    PyObject *now = time_now(scheduler), *time = NULL;

    if (now != NULL && PyFloat_CheckExact(now)) {
        time = PyFloat_FromDouble(PyFloat_AS_DOUBLE(now) + seconds);
    }
    Py_XDECREF(now);
    return time;
}

static PyObject *
idle_timer_arm(PyObject *self, PyObject *seconds)
{
    PyObject *me = SLOT(self, idle_timer_me), *deadline = NULL;

    if (!frozen && IS(self, IdleTimer) && me != NULL && IS_A(me, Dhaga) && PyFloat_CheckExact(seconds) &&
        me == current() && has_plain_timers(SLOT(me, dhaga_scheduler))) {
        deadline = time_in(SLOT(me, dhaga_scheduler), PyFloat_AS_DOUBLE(seconds));
        if (deadline == NULL && PyErr_Occurred()) {
            return NULL;
        }
    }
    if (deadline == NULL || !fires_in_time(SLOT(self, idle_timer_timer), PyFloat_AS_DOUBLE(deadline))) {
        Py_XDECREF(deadline);
        return call_twin(IDLE_TIMER_ARM, self, &seconds, 1, NULL);
    }
    put(self, idle_timer_waiter, Py_NewRef(me));
    put(self, idle_timer_deadline, deadline);
    Py_RETURN_NONE;
}
