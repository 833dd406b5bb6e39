/* Lock and RLock: a release hands the lock to the first waiter. Twins: acquire, release, __enter__ of both. */

/* Whether an object is a Lock or an RLock (not of a subclass), and no program has replaced a method. */
static inline int
is_lock(PyObject *self)
{
    return IS(self, Lock) || IS(self, RLock);
}

/* Park until the lock is handed over by another holder: at most `timeout` seconds (NULL: no limit). CALLS. */
static PyObject *
wait_for_lock(PyObject *self, PyObject *me, PyObject *timeout)
{
    PyObject *waiters, *given = timeout == NULL ? Py_None : timeout, *ticket = new_ticket(me);

    if (ticket == NULL) {
        return NULL;
    }
    waiters = SLOT(self, lock_waiters);
    HOLD(self, lock_guard);
    if (is_lock(self) && is_wait_queue(waiters) && SLOT(self, lock_holder) != Py_None && may_wait_for(me, timeout)) {
        PyObject *arrival = own_slot(waiters, wait_queue_epoch);
        put(me, dhaga_arrival, Py_XNewRef(arrival));
        DISOWN(arrival);
        /* The lock is held until the ticket is queued: no second check. */
        return in_time(wait_in(waiters, me, ticket, NULL, timeout PASS_GUARD));
    }
    LET_GO();
    Py_DECREF(ticket);
    return call_twin(HAND_OVER_WAIT, self, &given, 1, NULL);
}

static PyObject *
ownedlock__wait_for_hand_over(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    PyObject *timeout, *me;

    if (names != NULL || count != 1 || frozen || !read_timeout(args, 1, NULL, 0, &timeout) ||
        (me = current()) == NULL) {
        return PyErr_Occurred() ? NULL : call_twin(HAND_OVER_WAIT, self, args, count, names);
    }
    return wait_for_lock(self, me, timeout);
}

/* OwnedLock._hand_over. Returns: 1 if there was a waiter, -1 on an error. CALLS. */
static int
hand_over(PyObject *self, PyObject *waiters)
{
    PyObject *waiter, *former;
    int failed;

    if (take_waiter(waiters, &waiter) < 0) {
        return -1;
    }
    if (waiter == NULL) {
        return 0;
    }
    /* Owner before wake: a waiter in another OS thread may run, and release, as soon as it is woken. */
    former = exchange(self, lock_holder, Py_NewRef(waiter));
    failed = resume(waiter, self);
    Py_XDECREF(former);
    Py_DECREF(waiter);
    return failed ? -1 : 1;
}

/* Free the lock, or hand it to the first waiter. The caller has checked that it is held, and by whom. CALLS. */
static PyObject *
release(PyObject *self, function which)
{
    PyObject *waiters = SLOT(self, lock_waiters), *result;
    int handed;

    if (!is_lock(self) || !is_wait_queue(waiters)) {
        return call_twin(which, self, NULL, 0, NULL);
    }
    HOLD(self, lock_guard);
    if (deque_size(waiters) == 0) { /* one step: a waiter that queues up in between would not be woken */
        if (!STILL(SLOT(self, lock_holder) != Py_None)) {
            LET_GO();
            return call_twin(which, self, NULL, 0, NULL);
        }
        result = exchange(self, lock_holder, Py_NewRef(Py_None));
        LET_GO();
        Py_XDECREF(result);
        Py_RETURN_NONE;
    }
    LET_GO();
    Py_INCREF(waiters);
    handed = hand_over(self, waiters);
    Py_DECREF(waiters);
    if (handed < 0) {
        return NULL;
    }
    if (handed == 0) {
        result = PyObject_CallMethodNoArgs(self, str_unlock);
        if (result == NULL) {
            return NULL;
        }
        Py_DECREF(result);
    }
    Py_RETURN_NONE;
}

/* Acquire a lock that was just free. Returns: 0 if another thread was faster; 1 if the lock now owns `me`. */
static inline int
take_free(PyObject *self, PyObject *me)
{
    HOLD(self, lock_guard);

    if (STILL(SLOT(self, lock_holder) == Py_None)) {
        SET(self, lock_holder, me);
        Py_DECREF(Py_None); /* never the last reference, so this calls nothing */
        return 1;
    }
    return 0;
}

static PyObject *
take_lock(PyObject *self, PyObject *timeout)
{
    PyObject *me = (PyObject *)PyGreenlet_GetCurrent(), *result;

    if (me == NULL) {
        return NULL;
    }
    if (SLOT(self, lock_holder) == Py_None && take_free(self, me)) {
        Py_RETURN_TRUE;
    }
    result = wait_for_lock(self, me, timeout);
    Py_DECREF(me);
    return result;
}

static PyObject *
lock_acquire(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    PyObject *timeout;

    if (!frozen && read_timeout(args, count, names, 1, &timeout)) {
        return take_lock(self, timeout);
    }
    return PyErr_Occurred() ? NULL : call_twin(LOCK_ACQUIRE, self, args, count, names);
}

static PyObject *
lock___enter__(PyObject *self, PyObject *Py_UNUSED(no))
{
    if (frozen) {
        return call_twin(LOCK_ENTER, self, NULL, 0, NULL);
    }
    return take_lock(self, NULL);
}

static PyObject *
lock_release(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    PyObject *holder = SLOT(self, lock_holder);

    if (names != NULL || (count != 0 && count != 3) || holder == NULL || holder == Py_None) {
        return call_twin(LOCK_RELEASE, self, args, count, names);
    }
    return release(self, LOCK_RELEASE);
}

static PyObject *
rlock___enter__(PyObject *self, PyObject *Py_UNUSED(no))
{
    PyObject *me;

    if (frozen) {
        return call_twin(RLOCK_ENTER, self, NULL, 0, NULL);
    }
    if (SLOT(self, lock_holder) != Py_None) {
        return PyObject_CallMethodNoArgs(self, str_acquire); /* looked up by name: a subclass may override it */
    }
    me = (PyObject *)PyGreenlet_GetCurrent();
    if (me == NULL) {
        return NULL;
    }
    if (!take_free(self, me)) {
        Py_DECREF(me);
        return PyObject_CallMethodNoArgs(self, str_acquire);
    }
    put(self, rlock_count, PyLong_FromLong(1)); /* a small int, which never fails */
    Py_RETURN_TRUE;
}

static PyObject *
rlock_acquire(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    PyObject *holder = SLOT(self, lock_holder), *me;
    long times;

    if (count == 0 && names == NULL && !frozen) {
        if (holder == Py_None) {
            return rlock___enter__(self, NULL);
        }
        me = current();
        if (me == NULL) {
            return NULL;
        }
        if (holder == me && read_number(self, rlock_count, &times)) {
            return add(self, rlock_count, 1) < 0 ? NULL : Py_NewRef(Py_True);
        }
    }
    return call_twin(RLOCK_ACQUIRE, self, args, count, names);
}

static PyObject *
rlock_release(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    PyObject *me, *times;
    long left;

    if (names == NULL && !frozen && (count == 0 || count == 3)) {
        me = current();
        if (me == NULL) {
            return NULL;
        }
        times = SLOT(self, rlock_count);
        if (SLOT(self, lock_holder) == me && times != NULL && PyLong_CheckExact(times)) {
            left = PyLong_AsLong(times);
            if (left == 1) { /* the count stays 1: each new holder sets its own */
                return release(self, RLOCK_RELEASE);
            }
            if (left > 1 && IS(self, RLock)) {
                times = PyLong_FromLong(left - 1);
                if (times == NULL) {
                    return NULL;
                }
                put(self, rlock_count, times);
                Py_RETURN_NONE;
            }
        }
    }
    return call_twin(RLOCK_RELEASE, self, args, count, names);
}
