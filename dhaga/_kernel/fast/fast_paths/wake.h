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

/* Set an error that take_error() has cleared. Takes the reference. */
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

/* Remove and return the last item of a list; NULL if it is empty, or with an error. */
static inline PyObject *
last_of(PyObject *list)
{
    PyObject *item = NULL;
    Py_ssize_t size;

    BEGIN_STEP(list)
    size = PyList_GET_SIZE(list);
    if (size > 0) {
        item = Py_NewRef(PyList_GET_ITEM(list, size - 1));
        if (PyList_SetSlice(list, size - 1, size, NULL) < 0) {
            Py_CLEAR(item);
        }
    }
    END_STEP()
    return item;
}

/* Empty a ticket whose waiter the caller has. Returns: 0 if another wake was faster, -1 on an error. */
static inline int
claim(PyObject *ticket)
{
    int claimed;

    BEGIN_STEP(ticket)
    claimed = PyList_GET_SIZE(ticket) == 0 ? 0 : PyList_SetSlice(ticket, 0, 1, NULL) < 0 ? -1 : 1;
    END_STEP()
    return claimed;
}

/* Remove and return the first ticket of a queue, under its guard; NULL if there is none, or with an error. */
static inline PyObject *
first_ticket(PyObject *queue)
{
    HOLD(queue, wait_queue_guard);
    return deque_size(queue) > 0 ? popleft_of(queue) : NULL;
}

/* Take the first waiter out of its ticket: this claim decides which wake wins. Void tickets are dropped. Stores
the waiter, owned, in `*waiter`; NULL if no waiter waits. Returns: -1 on an error. CALLS, if a ticket was void. */
static int
take_waiter(PyObject *queue, PyObject **waiter)
{
    PyObject *ticket;

    *waiter = NULL;
    while ((ticket = first_ticket(queue)) != NULL) {
        if (PyList_CheckExact(ticket)) {
            *waiter = last_of(ticket);
            Py_DECREF(ticket); /* not the last reference, unless the ticket is an empty list */
            if (*waiter == NULL && PyErr_Occurred()) {
                return -1;
            }
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
    return PyErr_Occurred() ? -1 : 0;
}

/* ---- wake */

/* Make a dhaga runnable after it was taken out of its ticket: Dhaga.deliver_wake. CALLS. */
static int
resume_dhaga(PyObject *waiter, PyObject *value)
{
    PyObject *result, *scheduler, *queue, *former, *hook;
    int failed;

    hook = hook_of(str_on_wake);
    if (hook != NULL) {
        result = PyObject_CallOneArg(hook, waiter);
        Py_DECREF(hook);
        if (result == NULL) {
            return -1;
        }
        Py_DECREF(result);
    }
    BEGIN_STEP(waiter)
    former = SLOT(waiter, dhaga_value);
    SET(waiter, dhaga_value, Py_NewRef(value));
    queue = OWN(SLOT(waiter, dhaga_queue));
    scheduler = Py_XNewRef(SLOT(waiter, dhaga_scheduler));
    END_STEP()
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
    DISOWN(queue);
    FENCE();
    if (!failed && scheduler != NULL && IS_A(scheduler, Scheduler) && SLOT(scheduler, scheduler_asleep) != Py_False) {
        result = PyObject_CallMethodNoArgs(scheduler, str_wake_loop);
        failed = result == NULL ? -1 : 0;
        Py_XDECREF(result);
    }
    Py_XDECREF(scheduler);
    Py_XDECREF(former);
    return failed;
}

/* Make any waiter runnable, as resume_dhaga() does. CALLS. */
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
    PyObject *ticket = own_slot(self, dhaga_parked);
    int claimed, failed;

    if (names != NULL || count > 1 || ticket == NULL || !PyList_CheckExact(ticket)) {
        DISOWN(ticket);
        return call_twin(WAKE, self, args, count, names);
    }
    claimed = claim(ticket); /* self is alive: the caller holds a reference */
    DISOWN(ticket);
    if (claimed <= 0) {
        return claimed < 0 ? NULL : Py_NewRef(Py_False);
    }
    failed = resume_dhaga(self, count ? args[0] : Py_None);
    if (failed) {
        return NULL;
    }
    Py_RETURN_TRUE;
}

/* Take the first waiter of a queue out of its ticket and resume it. Returns: 1 if there was a waiter, 0 if not (void
tickets are then removed), -1 on an error. CALLS. */
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
