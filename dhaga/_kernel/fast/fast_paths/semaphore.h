/* Semaphore and BoundedSemaphore: a released permit goes to the first waiter.
Twins: acquire, release, __enter__, __exit__ of Semaphore, release of BoundedSemaphore. */

/* Whether an object is a plain semaphore. Stores the number of its free permits in `*permits`. From: under the
guard. */
static inline int
is_semaphore(PyObject *self, long *permits)
{
    return (IS(self, Semaphore) || IS(self, BoundedSemaphore)) && is_wait_queue(SLOT(self, semaphore_waiters)) &&
           read_number(self, semaphore_value, permits);
}

/* Take one of several free permits. Returns: True. From: under the guard. */
static PyObject *
take_one_of(PyObject *self, long permits)
{
    PyObject *left = PyLong_FromLong(permits - 1);

    if (left == NULL) {
        return NULL;
    }
    put(self, semaphore_value, left);
    Py_RETURN_TRUE;
}

/* Give one permit back, to the first waiter if there is one. CALLS. */
static PyObject *
give_permit(PyObject *self, function which)
{
    PyObject *value, *waiters;
    long permits, most = LONG_MAX;
    int resumed;

    HOLD(self, semaphore_guard);
    if (!STILL(1) || !is_semaphore(self, &permits) || (which == BOUNDED_RELEASE && !read_number(self, bounded_initial_value, &most)) ||
        permits < 0 || permits >= most) { /* released too often; or a program has replaced the counts */
        LET_GO();
        return call_twin(which, self, NULL, 0, NULL);
    }
    waiters = SLOT(self, semaphore_waiters);
    if (deque_size(waiters) == 0) { /* one step: a waiter that queues up in between would miss the free permit */
        value = PyLong_FromLong(permits + 1);
        if (value == NULL) {
            return NULL;
        }
        put(self, semaphore_value, value);
        Py_RETURN_NONE;
    }
    LET_GO();
    resumed = resume_first(waiters, Py_True);
    if (resumed <= 0) { /* an error, or all waiters had left */
        return resumed < 0 ? NULL : call_twin(which, self, NULL, 0, NULL);
    }
    Py_RETURN_NONE;
}

static PyObject *
semaphore_acquire(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    PyObject *me, *ticket, *timeout;
    long permits;

    HOLD(self, semaphore_guard);
    if (!frozen && STILL(1) && is_semaphore(self, &permits) && read_timeout(args, count, names, 1, &timeout)) {
        if (permits > 0) {
            return take_one_of(self, permits);
        }
        me = current();
        ticket = me == NULL ? NULL : new_ticket(me);
        if (ticket == NULL) {
            return NULL;
        }
        if (is_semaphore(self, &permits) && permits == 0 && may_wait_for(me, timeout)) {
            return in_time(wait_in(SLOT(self, semaphore_waiters), me, ticket, NULL, timeout PASS_GUARD));
        }
        LET_GO();
        Py_DECREF(ticket);
    }
    LET_GO();
    return PyErr_Occurred() ? NULL : call_twin(SEMAPHORE_ACQUIRE, self, args, count, names);
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
    long permits;

    HOLD(self, semaphore_guard);
    if (!STILL(1) || !is_semaphore(self, &permits)) {
        LET_GO();
        return call_twin(SEMAPHORE_ENTER, self, NULL, 0, NULL);
    }
    if (permits > 0) {
        return take_one_of(self, permits);
    }
    LET_GO();
    return PyObject_CallMethodNoArgs(self, str_acquire);
}

static PyObject *
semaphore___exit__(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    PyObject *result;

    if (names != NULL || count != 3) {
        return call_twin(SEMAPHORE_EXIT, self, args, count, names);
    }
    result = PyObject_CallMethodNoArgs(self, str_release); /* looked up by name: a program may have replaced it */
    if (result == NULL) {
        return NULL;
    }
    Py_DECREF(result);
    Py_RETURN_NONE;
}
