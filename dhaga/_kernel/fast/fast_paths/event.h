/* Event: set wakes all. Twins: Event.set and wait. */

static PyObject *
event_set(PyObject *self, PyObject *Py_UNUSED(no))
{
    PyObject *waiters, *spare;

    HOLD(self, event_guard);
    waiters = SLOT(self, event_waiters);
    /* One step: a waiter that queues up in between would sleep although the flag is set. */
    if (STILL(1) && IS(self, Event) && is_wait_queue(waiters) && deque_size(waiters) == 0) {
        put(self, event_flag, Py_NewRef(Py_True));
        Py_RETURN_NONE;
    }
    spare = SLOT(self, event_spare);
    if (STILL(1) && IS(self, Event) && is_wait_queue(waiters) && is_wait_queue(spare) && deque_size(spare) == 0) {
        PyObject *flag, *waiter;
        int failed = 0;
        /* One step: from here on wait() returns at once, or queues up for the next set() if clear() comes first. */
        BEGIN_STEP(self)
        flag = SLOT(self, event_flag);
        SET(self, event_flag, Py_NewRef(Py_True));
        SET(self, event_waiters, spare);
        SET(self, event_spare, Py_NewRef(Py_None));
        END_STEP()
        LET_GO();
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
    LET_GO();
    return call_twin(EVENT_SET, self, NULL, 0, NULL);
}

static PyObject *
event_wait(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    PyObject *me, *ticket, *timeout;

    if (!frozen && IS(self, Event) && read_timeout(args, count, names, 0, &timeout)) {
        if (SLOT(self, event_flag) == Py_True) {
            Py_RETURN_TRUE;
        }
        me = current();
        ticket = me == NULL ? NULL : new_ticket(me);
        if (ticket == NULL) {
            return NULL;
        }
        HOLD(self, event_guard);
        if (STILL(1) && SLOT(self, event_flag) == Py_False && is_wait_queue(SLOT(self, event_waiters)) &&
            may_wait_for(me, timeout)) {
            return in_time(wait_in(SLOT(self, event_waiters), me, ticket, NULL, timeout PASS_GUARD));
        }
        LET_GO();
        Py_DECREF(ticket);
    }
    return PyErr_Occurred() ? NULL : call_twin(EVENT_WAIT, self, args, count, names);
}
