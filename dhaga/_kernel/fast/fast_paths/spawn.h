/* Spawn: a dhaga is made, admitted to its scheduler, and started there: it calls its function and ends.
Twins: Dhaga.set_up_dhaga and run, Scheduler.admit. */

/* Index of the queue for NEW dhagas of priority NORMAL: run_queues.py. */
#define PLACE_OF_NORMAL 1

static PyObject *never; /* 0.0: `parked_since` before the first park */

/* The function to call, borrowed, if it is a Python function; else NULL. */
static inline PyObject *
python_function(PyObject *fn)
{
    if (PyMethod_Check(fn)) {
        fn = PyMethod_GET_FUNCTION(fn);
    }
    return PyFunction_Check(fn) ? fn : NULL;
}

/* Whether a function passes a quick check. If not, the Python twin checks it in full. */
static inline int
is_plain_function(PyObject *fn)
{
    PyObject *python = python_function(fn);

    if (python == NULL) {
        return PyCFunction_Check(fn);
    }
    return !(((PyCodeObject *)PyFunction_GET_CODE(python))->co_flags & (CO_COROUTINE | CO_ASYNC_GENERATOR | CO_GENERATOR));
}

static PyObject *
dhaga_set_up_dhaga(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    PyObject *scheduler, *context, *ident, *parked, *joiners;
    int failed;

    if (names != NULL || count != 8 || SLOT(self, dhaga_scheduler) != NULL || know_late_names() < 0 ||
        !IS_A(args[0], Scheduler) || !is_plain_function(args[1]) || args[7] != normal) {
        PyErr_Clear();
        return call_twin(SET_UP, self, args, count, names);
    }
    scheduler = args[0];
    parked = PyList_New(0);
    joiners = parked == NULL ? NULL : PyList_New(0);
    ident = joiners == NULL ? NULL : PyObject_CallNoArgs(next_ident);
    context = ident == NULL ? NULL : args[6] != Py_None ? Py_NewRef(args[6]) : PyContext_CopyCurrent();
    if (parked == NULL || joiners == NULL || ident == NULL || context == NULL) {
        Py_XDECREF(parked);
        Py_XDECREF(joiners);
        Py_XDECREF(ident);
        Py_XDECREF(context);
        return NULL;
    }
    /* In a new object all slots are empty: nothing is dropped. */
    SET(self, dhaga_queue, Py_XNewRef(SLOT(scheduler, scheduler_run_queue)));
    SET(self, dhaga_scheduler, Py_NewRef(scheduler));
    SET(self, dhaga_priority, Py_NewRef(normal));
    SET(self, dhaga_fn, Py_NewRef(args[1]));
    SET(self, dhaga_args, Py_NewRef(args[2]));
    SET(self, dhaga_kwargs, Py_NewRef(args[3]));
    SET(self, dhaga_ident, ident);
    SET(self, dhaga_own_name, Py_NewRef(args[4]));
    SET(self, dhaga_daemon, Py_NewRef(args[5]));
    SET(self, dhaga_parked, parked);
    SET(self, dhaga_pending, PyTuple_New(0));
    SET(self, dhaga_reason, Py_NewRef(str_nothing));
    SET(self, dhaga_arrival, PyLong_FromLong(0));
    SET(self, dhaga_target, Py_NewRef(Py_None));
    SET(self, dhaga_value, Py_NewRef(Py_None));
    SET(self, dhaga_error, Py_NewRef(Py_None));
    SET(self, dhaga_since, Py_NewRef(never));
    SET(self, dhaga_done, Py_NewRef(Py_False));
    SET(self, dhaga_result_waiters, PyLong_FromLong(0));
    SET(self, dhaga_joiners, joiners);
    SET(self, dhaga_thread_local_refs, Py_NewRef(Py_None));
    failed = PyObject_SetAttr(self, str_gr_context, context);
    Py_DECREF(context);
    if (failed) {
        return NULL;
    }
    Py_RETURN_NONE;
}

/* Whether the caller is a dhaga of this scheduler. With the interpreter lock this makes no difference: a scheduler that
was found awake is awake until the dhaga is in its queue. */
static inline int
is_own(PyObject *scheduler)
{
#ifdef Py_GIL_DISABLED
    PyObject *me = current();

    PyErr_Clear();
    return me != NULL && IS_A(me, Dhaga) && SLOT(me, dhaga_scheduler) == scheduler;
#else
    (void)scheduler;
    return 1;
#endif
}

static PyObject *
scheduler_admit(PyObject *self, PyObject *dhaga)
{
    PyObject *live = SLOT(self, scheduler_live), *new_queues, *new_queue, *queue, *not_started;
    int failed;

    if (!IS_A(dhaga, Dhaga) || live == NULL || !PySet_CheckExact(live) || !is_own(self) ||
        SLOT(self, scheduler_closing) != Py_False || SLOT(self, scheduler_asleep) != Py_False ||
        SLOT(self, scheduler_end_reason) != Py_None || normal == NULL || SLOT(dhaga, dhaga_priority) != normal ||
        !is_deque(SLOT(dhaga, dhaga_queue)) || (new_queues = SLOT(self, scheduler_new_queues)) == NULL ||
        !PyList_CheckExact(new_queues) || PyList_GET_SIZE(new_queues) <= PLACE_OF_NORMAL) {
        return call_twin(ADMIT, self, &dhaga, 1, NULL);
    }
    new_queue = PyList_GET_ITEM(new_queues, PLACE_OF_NORMAL);
    if (PyDict_GetItemWithError(hooks, str_on_spawn) != Py_None || !IS(new_queue, NewQueue) ||
        !is_deque(SLOT(new_queue, new_queue_not_started))) {
        return call_twin(ADMIT, self, &dhaga, 1, NULL);
    }
    queue = Py_NewRef(SLOT(dhaga, dhaga_queue));
    not_started = Py_NewRef(SLOT(new_queue, new_queue_not_started));
    Py_INCREF(new_queue);
    /* One step: greenlet hashes and compares by identity, so no Python code runs. */
    failed = PySet_Add(live, dhaga) < 0 || append_to(not_started, dhaga) < 0;
    if (!failed && append_to(queue, new_queue) < 0) {
        PyObject *error = take_error(), *last = PyObject_CallMethodNoArgs(not_started, str_pop);
        Py_XDECREF(last);
        raise_again(error);
        failed = 1;
    }
    if (failed) {
        PyObject *error = take_error();
        if (PySet_Discard(live, dhaga) < 0) {
            PyErr_Clear();
        }
        raise_again(error);
    }
    Py_DECREF(new_queue);
    Py_DECREF(not_started);
    Py_DECREF(queue);
    if (failed) {
        return NULL;
    }
    Py_RETURN_NONE;
}

/* Dhaga._end, or a subclass's own. CALLS. */
static int
end(PyObject *self)
{
    PyObject *result = IS(self, Dhaga) ? dhaga__end(self, NULL) : PyObject_CallMethodNoArgs(self, str_end);

    Py_XDECREF(result);
    return result == NULL ? -1 : 0;
}

/* Call Dhaga._fail with the current error, which meanwhile counts as handled. CALLS. Returns: -1 on another error. */
static int
fail(PyObject *self)
{
    PyObject *error = take_error(), *trace = PyException_GetTraceback(error), *handled = PyErr_GetHandledException();
    PyObject *result;

    PyErr_SetHandledException(error);
    result = PyObject_CallMethodObjArgs(self, str_fail, error, trace == NULL ? Py_None : trace, NULL);
    PyErr_SetHandledException(handled);
    Py_XDECREF(handled);
    Py_XDECREF(trace);
    Py_DECREF(error);
    Py_XDECREF(result);
    return result == NULL ? -1 : 0;
}

static PyObject *
dhaga_run(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    PyObject *fn = SLOT(self, dhaga_fn), *given = SLOT(self, dhaga_args), *pending = SLOT(self, dhaga_pending), *value;
    PyObject *error = NULL;

    /* C calls only Python functions here, so that each suspended dhaga has a frame: one without counts as running. */
    if (fn == NULL || python_function(fn) == NULL || given == NULL || !PyTuple_CheckExact(given) ||
        SLOT(self, dhaga_kwargs) != Py_None || pending == NULL || !PyTuple_CheckExact(pending) ||
        PyTuple_GET_SIZE(pending) > 0) {
        return call_twin(RUN, self, args, count, names);
    }
    Py_INCREF(fn);
    Py_INCREF(given);
    value = PyObject_Vectorcall(fn, &PyTuple_GET_ITEM(given, 0), (size_t)PyTuple_GET_SIZE(given), NULL);
    Py_DECREF(given);
    Py_DECREF(fn);
    if (value != NULL) {
        put(self, dhaga_value, value);
    }
    else if (fail(self) < 0) {
        error = take_error();
    }
    if (end(self) < 0) { /* an error of end() replaces the function's error */
        Py_XDECREF(error);
        return NULL;
    }
    if (error != NULL) {
        raise_again(error);
        return NULL;
    }
    Py_RETURN_NONE;
}
