/* Join and end: callers of join queue up as joiners, and the end of the dhaga wakes them.
Twins: Dhaga.wait_for_end and _end. */

static PyObject *
dhaga_wait_for_end(PyObject *self, PyObject *timeout)
{
    PyObject *me, *ticket, *joiners, *value;
    former_park before;
    int failed;

    if (timeout == Py_None && !frozen) {
        me = current();
        ticket = me == NULL ? NULL : new_ticket(me);
        if (ticket == NULL) {
            return NULL;
        }
        joiners = SLOT(self, dhaga_joiners);
        if (me != self && may_wait(me) && SLOT(self, dhaga_done) == Py_False && joiners != NULL &&
            PyList_CheckExact(joiners)) {
            prepare(me, str_join, self, ticket, &before);
            failed = PyList_Append(joiners, ticket); /* it lives until it is appended: no second check */
            drop(&before);
            if (failed) {
                leave(me);
            }
            value = failed ? NULL : park_here(me);
            Py_XDECREF(value);
            return value == NULL ? NULL : Py_NewRef(Py_True);
        }
        Py_DECREF(ticket);
    }
    return call_twin(WAIT_FOR_END, self, &timeout, 1, NULL);
}

static PyObject *
dhaga__end(PyObject *self, PyObject *Py_UNUSED(no))
{
    PyObject *scheduler = SLOT(self, dhaga_scheduler), *joiners = SLOT(self, dhaga_joiners), *live, *ticket, *joiner;
    Py_ssize_t number;

    if (SLOT(self, dhaga_thread_local_refs) != Py_None || scheduler == NULL || !IS_A(scheduler, Scheduler) ||
        joiners == NULL || !PyList_CheckExact(joiners) || PyList_GET_SIZE(joiners) > 1 ||
        (live = SLOT(scheduler, scheduler_live)) == NULL || !PySet_CheckExact(live)) {
        return call_twin(END, self, NULL, 0, NULL);
    }
    put(self, dhaga_done, Py_NewRef(Py_True));
    Py_INCREF(live);
    number = PySet_Discard(live, self);
    Py_DECREF(live);
    if (number < 0) {
        return NULL;
    }
    put(self, dhaga_fn, Py_NewRef(Py_None));
    put(self, dhaga_args, Py_NewRef(Py_None));
    put(self, dhaga_kwargs, Py_NewRef(Py_None));
    joiners = SLOT(self, dhaga_joiners);
    while (joiners != NULL && PyList_CheckExact(joiners) && (number = PyList_GET_SIZE(joiners)) > 0) {
        int failed = 0;
        ticket = Py_NewRef(PyList_GET_ITEM(joiners, number - 1));
        if (!PyList_CheckExact(ticket) || number > 1) { /* another thread has added one meanwhile */
            Py_DECREF(ticket);
            return call_twin(END, self, NULL, 0, NULL);
        }
        if (PyList_SetSlice(joiners, number - 1, number, NULL) == 0 && PyList_GET_SIZE(ticket) > 0) {
            joiner = Py_NewRef(PyList_GET_ITEM(ticket, 0));
            failed = PyList_SetSlice(ticket, 0, 1, NULL) < 0 || resume(joiner, self) < 0; /* of several: which one */
            Py_DECREF(joiner);
        }
        Py_DECREF(ticket);
        if (failed || PyErr_Occurred()) {
            return NULL;
        }
        joiners = SLOT(self, dhaga_joiners);
    }
    Py_RETURN_NONE;
}
