/* Event: set wakes all. Twins: Event.set and wait. */

static PyObject *
event_set(PyObject *self, PyObject *Py_UNUSED(no))
{
    PyObject *waiters = SLOT(self, event_waiters), *spare;

    /* One step: a waiter that queues up in between would sleep beside a set flag. */
    if (IS(self, Event) && is_wait_queue(waiters) && deque_size(waiters) == 0) {
        put(self, event_flag, Py_NewRef(Py_True));
        Py_RETURN_NONE;
    }
    spare = SLOT(self, event_spare);
    if (IS(self, Event) && is_wait_queue(waiters) && is_wait_queue(spare) && deque_size(spare) == 0) {
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
        if (SLOT(self, event_flag) == Py_False && is_wait_queue(SLOT(self, event_waiters)) &&
            may_wait_for(me, timeout)) {
            return in_time(wait_in(SLOT(self, event_waiters), me, ticket, NULL, timeout));
        }
        Py_DECREF(ticket);
    }
    return PyErr_Occurred() ? NULL : call_twin(EVENT_WAIT, self, args, count, names);
}
