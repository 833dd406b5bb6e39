/* Join and end: callers of join queue up as joiners, and the end of the dhaga wakes them.
Twins: Dhaga.wait_for_end and _end. */

/* Without the interpreter lock, the dhaga may have ended since the check, and have missed a joiner. Returns: -1 on an
error. CALLS. */
static inline int
has_just_ended(PyObject *self)
{
#ifdef Py_GIL_DISABLED
    FENCE();
    if (SLOT(self, dhaga_done) != Py_False) {
        PyObject *released = PyObject_CallMethodNoArgs(self, str_release_joiners);
        Py_XDECREF(released);
        return released == NULL ? -1 : 0;
    }
#else
    (void)self;
#endif
    return 0;
}

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
            failed = PyList_Append(joiners, ticket); /* the dhaga cannot end before the append: no second check */
            drop(&before);
            if (failed || has_just_ended(self) < 0) {
                failed = 1;
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

/* If there is one joiner, remove its ticket, and store the ticket, owned, in `*ticket`. Otherwise, and on an error,
store NULL. Returns: the number of joiners; 2 if there are more, or if the ticket is not a list. */
static inline int
only_ticket(PyObject *joiners, PyObject **ticket)
{
    Py_ssize_t size;

    *ticket = NULL;
    BEGIN_STEP(joiners)
    size = PyList_GET_SIZE(joiners);
    if (size == 1) {
        if (!PyList_CheckExact(PyList_GET_ITEM(joiners, 0))) {
            size = 2;
        }
        else {
            *ticket = Py_NewRef(PyList_GET_ITEM(joiners, 0));
            if (PyList_SetSlice(joiners, 0, 1, NULL) < 0) {
                Py_CLEAR(*ticket);
            }
        }
    }
    END_STEP()
    return size > 2 ? 2 : (int)size;
}

static PyObject *
dhaga__end(PyObject *self, PyObject *Py_UNUSED(no))
{
    PyObject *scheduler, *joiners, *live, *ticket, *joiner, *value, *error;
    int number;

    /* CALLS. A finalizer of an argument may park, and a park uses the slots that hold the outcome. The twin may repeat
    this step. */
    value = exchange(self, dhaga_value, Py_NewRef(Py_None));
    error = exchange(self, dhaga_error, Py_NewRef(Py_None));
    put(self, dhaga_fn, Py_NewRef(Py_None));
    put(self, dhaga_args, Py_NewRef(Py_None));
    put(self, dhaga_kwargs, Py_NewRef(Py_None));
    put(self, dhaga_value, value);
    put(self, dhaga_error, error);
    scheduler = SLOT(self, dhaga_scheduler);
    joiners = SLOT(self, dhaga_joiners);
    if (SLOT(self, dhaga_thread_local_refs) != Py_None || scheduler == NULL || !IS_A(scheduler, Scheduler) ||
        joiners == NULL || !PyList_CheckExact(joiners) || PyList_GET_SIZE(joiners) > 1 ||
        (live = SLOT(scheduler, scheduler_live)) == NULL || !PySet_CheckExact(live)) {
        return call_twin(END, self, NULL, 0, NULL);
    }
    put(self, dhaga_done, Py_NewRef(Py_True));
    FENCE();
    Py_INCREF(live);
    number = PySet_Discard(live, self);
    Py_DECREF(live);
    if (number < 0) {
        return NULL;
    }
    joiners = SLOT(self, dhaga_joiners);
    while (joiners != NULL && PyList_CheckExact(joiners) && (number = only_ticket(joiners, &ticket)) != 0) {
        int failed = 0;
        if (number > 1) { /* another thread has added a joiner meanwhile */
            return call_twin(END, self, NULL, 0, NULL);
        }
        joiner = ticket == NULL ? NULL : last_of(ticket);
        if (joiner != NULL) {
            failed = resume(joiner, self) < 0; /* the value: which dhaga has ended */
            Py_DECREF(joiner);
        }
        Py_XDECREF(ticket);
        if (failed || PyErr_Occurred()) {
            return NULL;
        }
        joiners = SLOT(self, dhaga_joiners);
    }
    Py_RETURN_NONE;
}
