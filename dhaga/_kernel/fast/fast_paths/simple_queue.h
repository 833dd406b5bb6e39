/* SimpleQueue: an item goes to the first getter, or is stored until a getter comes. Twins: SimpleQueue.put and get. */

static PyObject *
simple_queue_put(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    PyObject *getters = SLOT(self, simple_queue_getters), *items = SLOT(self, simple_queue_items);
    int resumed;

    if (names == NULL && count == 1 && is_deque(items) && getters != NULL && is_wait_queue(getters)) {
        HOLD(self, simple_queue_guard);
        if (STILL(1) && deque_size(getters) == 0) { /* one step: a getter that joins in between would miss the item */
            if (append_to(items, args[0]) < 0) {
                return NULL;
            }
            Py_RETURN_NONE;
        }
        LET_GO();
        resumed = resume_first(getters, args[0]);
        if (resumed < 0) {
            return NULL;
        }
        if (resumed) {
            note_hand_over(self, simple_queue_handed_over);
            Py_RETURN_NONE;
        }
    }
    return call_twin(SIMPLE_QUEUE_PUT, self, args, count, names);
}

static PyObject *
simple_queue_get(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    PyObject *items = SLOT(self, simple_queue_items), *getters, *item, *me, *ticket, *timeout;

    if (!frozen && is_deque(items) && read_timeout(args, count, names, 1, &timeout)) {
        if (deque_size(items) > 0) {
            item = popleft_of(items);
            if (!LOST_RACE(item)) {
                return item;
            }
        }
        me = current();
        ticket = me == NULL ? NULL : new_ticket(me);
        if (ticket == NULL) {
            return NULL;
        }
        items = SLOT(self, simple_queue_items);
        getters = SLOT(self, simple_queue_getters);
        HOLD(self, simple_queue_guard);
        if (STILL(1) && is_deque(items) && deque_size(items) == 0 && is_wait_queue(getters) &&
            may_wait_for(me, timeout)) {
            return item_in_time(me, wait_in(getters, me, ticket, NULL, timeout PASS_GUARD));
        }
        LET_GO();
        Py_DECREF(ticket);
    }
    return PyErr_Occurred() ? NULL : call_twin(SIMPLE_QUEUE_GET, self, args, count, names);
}
