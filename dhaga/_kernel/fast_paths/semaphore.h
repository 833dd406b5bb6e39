/* Semaphore and BoundedSemaphore: a released permit goes to the first waiter.
Twins: acquire, release, __enter__, __exit__ of Semaphore, release of BoundedSemaphore. */

static inline int
is_semaphore(PyObject *self)
{
    return (IS(self, Semaphore) || IS(self, BoundedSemaphore)) && is_wait_queue(SLOT(self, semaphore_waiters)) &&
           SLOT(self, semaphore_value) != NULL && PyLong_CheckExact(SLOT(self, semaphore_value));
}

/* Take a permit, or park until one is handed over. The arguments are those that the twin got. CALLS. */
static PyObject *
take_permit(PyObject *self, function twin, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    PyObject *me, *ticket, *value, *timeout;
    long free;

    if (!frozen && is_semaphore(self) && read_timeout(args, count, names, 1, &timeout)) {
        free = PyLong_AsLong(SLOT(self, semaphore_value));
        if (free > 0) {
            value = PyLong_FromLong(free - 1);
            if (value == NULL) {
                return NULL;
            }
            put(self, semaphore_value, value);
            Py_RETURN_TRUE;
        }
        PyErr_Clear();
        me = current();
        ticket = me == NULL ? NULL : new_ticket(me);
        if (ticket == NULL) {
            return NULL;
        }
        if (is_semaphore(self) && PyLong_AsLong(SLOT(self, semaphore_value)) == 0 && may_wait_for(me, timeout)) {
            return in_time(wait_in(SLOT(self, semaphore_waiters), me, ticket, NULL, timeout));
        }
        Py_DECREF(ticket);
    }
    return PyErr_Occurred() ? NULL : call_twin(twin, self, args, count, names);
}

/* Give one permit back, to the first waiter if there is one. CALLS. */
static PyObject *
give_permit(PyObject *self, function twin)
{
    PyObject *value, *waiters;
    long free, most = LONG_MAX;
    int resumed;

    if (!is_semaphore(self)) {
        return call_twin(twin, self, NULL, 0, NULL);
    }
    free = PyLong_AsLong(SLOT(self, semaphore_value));
    if (IS(self, BoundedSemaphore)) {
        PyObject *initial = SLOT(self, bounded_initial_value);
        most = initial != NULL && PyLong_CheckExact(initial) ? PyLong_AsLong(initial) : -1;
    }
    if (free < 0 || free >= most) { /* too many; or the numbers are those of a program's own */
        PyErr_Clear();
        return call_twin(twin, self, NULL, 0, NULL);
    }
    waiters = SLOT(self, semaphore_waiters);
    if (length(waiters) == 0) { /* one step: a waiter that queues up in between would sleep beside a free permit */
        value = PyLong_FromLong(free + 1);
        if (value == NULL) {
            return NULL;
        }
        put(self, semaphore_value, value);
        Py_RETURN_NONE;
    }
    resumed = resume_first(waiters, Py_True);
    if (resumed <= 0) { /* an error, or all had left */
        return resumed < 0 ? NULL : call_twin(twin, self, NULL, 0, NULL);
    }
    Py_RETURN_NONE;
}

static PyObject *
semaphore_acquire(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    return take_permit(self, SEMAPHORE_ACQUIRE, args, count, names);
}

static PyObject *
semaphore_release(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    if (names == NULL && count == 0 && IS(self, Semaphore)) {
        return give_permit(self, SEMAPHORE_RELEASE);
    }
    return call_twin(SEMAPHORE_RELEASE, self, args, count, names);
}

static PyObject *
bounded_semaphore_release(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    if (names == NULL && count == 0 && IS(self, BoundedSemaphore)) {
        return give_permit(self, BOUNDED_RELEASE);
    }
    return call_twin(BOUNDED_RELEASE, self, args, count, names);
}

static PyObject *
semaphore___enter__(PyObject *self, PyObject *Py_UNUSED(no))
{
    return take_permit(self, SEMAPHORE_ENTER, NULL, 0, NULL);
}

static PyObject *
semaphore___exit__(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    if (names == NULL && count == 3) {
        if (IS(self, Semaphore)) {
            return give_permit(self, SEMAPHORE_RELEASE);
        }
        if (IS(self, BoundedSemaphore)) {
            return give_permit(self, BOUNDED_RELEASE);
        }
    }
    return call_twin(SEMAPHORE_EXIT, self, args, count, names);
}
