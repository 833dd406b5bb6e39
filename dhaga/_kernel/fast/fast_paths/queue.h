/* Queue: an item goes to the first getter, else into the stock. Twins: Queue.put and get. */

/* Whether the queue keeps its items in a plain deque and is neither locked nor shut down. */
static inline int
is_plain_queue(PyObject *self)
{
    PyObject *mutex = SLOT(self, queue_mutex);
    return is_deque(SLOT(self, queue_stock)) && SLOT(self, queue_hands_over) == Py_True && mutex != NULL &&
           IS(mutex, Mutex) && SLOT(mutex, mutex_free) == Py_True && SLOT(self, queue_maxsize) != NULL &&
           SLOT(self, queue_unfinished) != NULL && PyLong_CheckExact(SLOT(self, queue_unfinished)) && SLOT(self, queue_is_shutdown) == Py_False &&
           is_wait_queue(SLOT(self, queue_getters)) && is_wait_queue(SLOT(self, queue_putters));
}

/* The queue's mutex stays free: instead, the mutex's guard is held for the whole step. */
#ifdef Py_GIL_DISABLED
#define HOLD_QUEUE(self) __attribute__((cleanup(let_go))) guard *held = hold(guard_of_mutex(self))

static PyObject *
guard_of_mutex(PyObject *self)
{
    PyObject *mutex = IS(self, Queue) ? SLOT(self, queue_mutex) : NULL;
    return mutex != NULL && IS(mutex, Mutex) ? SLOT(mutex, mutex_guard) : NULL;
}
#else
#define HOLD_QUEUE(self)
#endif

/* Note that an item may be on its way to a getter. From: after the wake, because qsize() searches the woken waiters.
CALLS. */
static inline void
note_hand_over(PyObject *self, Py_ssize_t offset)
{
    Py_XDECREF(exchange(self, offset, Py_NewRef(Py_True)));
}

/* The result of a get. Steals the value's reference; raises Empty instead of TIMED_OUT. CALLS. */
static inline PyObject *
item_in_time(PyObject *me, PyObject *value)
{
    if (value != NULL && value == timed_out) {
        Py_CLEAR(value);
        PyErr_SetNone(empty);
    }
    return value;
}

/* Whether there is room for another item in the stock. */
static inline int
has_room(PyObject *self, PyObject *stock)
{
    PyObject *maxsize = own_slot(self, queue_maxsize);
    Py_ssize_t most = 1;
    int usual = maxsize != NULL && PyLong_CheckExact(maxsize);

    if (usual) {
        most = PyLong_AsSsize_t(maxsize);
        if (most == -1 && PyErr_Occurred()) {
            PyErr_Clear();
            usual = 0;
        }
    }
    DISOWN(maxsize);
    return usual && (most <= 0 || deque_size(stock) < most);
}

/* Append an item to the stock. Returns: 0 if there is no room, -1 on an error. */
static inline int
store(PyObject *self, PyObject *item)
{
    PyObject *stock = own_slot(self, queue_stock), *error;
    int stored = has_room(self, stock);

    if (stored && add(self, queue_unfinished, 1) < 0) { /* first, because it may fail without memory */
        stored = -1;
    }
    else if (stored && append_to(stock, item) < 0) {
        error = take_error();
        (void)add(self, queue_unfinished, -1);
        PyErr_Clear();
        raise_again(error);
        stored = -1;
    }
    DISOWN(stock);
    return stored;
}

static PyObject *
queue_put(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    PyObject *getters, *waiter;
    int failed, stored;

    HOLD_QUEUE(self);
    if (names != NULL || count != 1 || !STILL(1) || !IS(self, Queue) || !is_plain_queue(self)) {
        LET_GO();
        return call_twin(QUEUE_PUT, self, args, count, names);
    }
    getters = SLOT(self, queue_getters);
    if (deque_size(getters) > 0) {
        Py_INCREF(getters);
        failed = take_waiter(getters, &waiter);
        Py_DECREF(getters);
        if (failed) {
            return NULL;
        }
        if (waiter == NULL) { /* all getters had left; their void tickets are removed now */
            LET_GO();
            return call_twin(QUEUE_PUT, self, args, count, names);
        }
        /* The count grows before the wake, because a getter in another OS thread may call task_done() at once. */
        if (add(self, queue_unfinished, 1) < 0) {
            PyErr_WriteUnraisable(self); /* the getter was taken out of its ticket, so it must get its item */
        }
        LET_GO();
        failed = resume(waiter, args[0]);
        Py_DECREF(waiter);
        if (failed) {
            return NULL;
        }
        note_hand_over(self, queue_handed_over);
        Py_RETURN_NONE;
    }
    stored = store(self, args[0]);
    LET_GO();
    return stored < 0 ? NULL : stored ? Py_NewRef(Py_None) : call_twin(QUEUE_PUT, self, args, count, names);
}

static PyObject *
queue_get(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    PyObject *stock, *item, *me, *ticket, *timeout;

    if (!frozen && IS(self, Queue) && read_timeout(args, count, names, 1, &timeout)) {
        stock = own_slot(self, queue_stock);
        if (is_deque(stock) && is_wait_queue(SLOT(self, queue_putters)) && deque_size(stock) > 0) {
            item = popleft_of(stock);
            DISOWN(stock);
            if (LOST_RACE(item)) {
                return call_twin(QUEUE_GET, self, args, count, names);
            }
            FENCE();
            if (item != NULL && deque_size(SLOT(self, queue_putters)) > 0) {
                PyObject *result = PyObject_CallMethodNoArgs(self, str_use_room);
                if (result == NULL && !forget_want_of_memory()) { /* the next get() serves the putters */
                    Py_CLEAR(item);
                }
                Py_XDECREF(result);
            }
            return item;
        }
        DISOWN(stock);
        me = current();
        ticket = me == NULL ? NULL : new_ticket(me);
        if (ticket == NULL) {
            return NULL;
        }
        HOLD_QUEUE(self);
        if (STILL(1) && is_plain_queue(self) && deque_size(SLOT(self, queue_stock)) == 0 && deque_size(SLOT(self, queue_putters)) == 0 &&
            may_wait_for(me, timeout)) {
            return item_in_time(me, wait_in(SLOT(self, queue_getters), me, ticket, NULL, timeout PASS_GUARD));
        }
        LET_GO();
        Py_DECREF(ticket);
    }
    return PyErr_Occurred() ? NULL : call_twin(QUEUE_GET, self, args, count, names);
}
