/* Wake: a waiter is taken out of its ticket, gets its value, and joins its run queue. Twins: Dhaga.wake_parked, deliver_wake. */

static inline int
is_deque(PyObject *object)
{
    return object != NULL && Py_IS_TYPE(object, deque_type);
}

/* The number of items of a deque, or of a WaitQueue, which has deque's own __len__: it cannot fail. */
static inline Py_ssize_t
deque_size(PyObject *deque)
{
    return PyObject_Size(deque);
}

/* Fetch and clear the current error; NULL if there is none. */
static inline PyObject *
take_error(void)
{
#if PY_VERSION_HEX >= 0x030C0000
    return PyErr_GetRaisedException();
#else
    PyObject *kind, *error, *trace;

    PyErr_Fetch(&kind, &error, &trace);
    if (kind != NULL) {
        PyErr_NormalizeException(&kind, &error, &trace);
    }
    if (trace != NULL) {
        PyException_SetTraceback(error, trace);
    }
    Py_XDECREF(kind);
    Py_XDECREF(trace);
    return error;
#endif
}

/* Takes the reference. */
static inline void
raise_again(PyObject *error)
{
#if PY_VERSION_HEX >= 0x030C0000
    PyErr_SetRaisedException(error);
#else
    PyErr_Restore(Py_NewRef(Py_TYPE(error)), error, PyException_GetTraceback(error));
#endif
}

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

/* Take the first waiter out of its ticket: this claim decides which wake wins. Void tickets are dropped. Sets the
waiter, owned, or NULL if none waits. Returns: -1 on an error. CALLS, if a ticket was void. */
static int
take_waiter(PyObject *queue, PyObject **waiter)
{
    *waiter = NULL;
    while (deque_size(queue) > 0) {
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
            Py_DECREF(ticket); /* the waiter also has it, or it is an empty list */
        }
        else { /* a test's own ticket */
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

/* Make a dhaga runnable after it was taken out of its ticket: Dhaga.deliver_wake. CALLS. */
static int
resume_dhaga(PyObject *waiter, PyObject *value)
{
    PyObject *result, *scheduler, *queue, *former, *hook;
    int failed;

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
        PyErr_SetString(PyExc_AttributeError, "wake_queue");
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

/* The same for any waiter. CALLS. */
static int
resume(PyObject *waiter, PyObject *value)
{
    PyObject *result;

    if (is_dhaga(waiter)) {
        return resume_dhaga(waiter, value);
    }
    result = PyObject_CallMethodOneArg(waiter, str_resume, value); /* main code, an OS thread, a Future */
    Py_XDECREF(result);
    return result == NULL ? -1 : 0;
}

static PyObject *
dhaga_deliver_wake(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    if (names != NULL || count > 1) {
        return call_twin(RESUME, self, args, count, names);
    }
    if (resume_dhaga(self, count ? args[0] : Py_None) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *
dhaga_wake_parked(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
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
    failed = resume_dhaga(self, count ? args[0] : Py_None);
    if (failed) {
        return NULL;
    }
    Py_RETURN_TRUE;
}

/* Take the first waiter of a queue out of its ticket and resume it. Returns: 1 if one waited, 0 if not (void tickets are
gone then), -1 on an error. CALLS. */
static int
resume_first(PyObject *queue, PyObject *value)
{
    PyObject *waiter;
    int failed;

    Py_INCREF(queue);
    failed = take_waiter(queue, &waiter);
    Py_DECREF(queue);
    if (failed || waiter == NULL) {
        return failed;
    }
    failed = resume(waiter, value);
    Py_DECREF(waiter);
    return failed ? -1 : 1;
}
