/* Park: mark a dhaga as waiting, and switch to the next runnable entry.
Twins: Scheduler._park, Dhaga.prepare_park. */

static PyObject *
to_hub(PyObject *scheduler)
{
    put(scheduler, scheduler_lap_over, Py_NewRef(Py_True));
    return Py_XNewRef(SLOT(scheduler, scheduler_hub));
}

/* Scheduler._pick_next, where the run queue is a plain deque. CALLS. */
static PyObject *
pick_next(PyObject *scheduler, long left)
{
    PyObject *ready, *result;

    if (left <= 0) {
        int over;
        result = PyObject_CallMethodNoArgs(scheduler, str_lap_is_over);
        over = result == NULL ? -1 : PyObject_IsTrue(result);
        Py_XDECREF(result);
        if (over) {
            return over < 0 ? NULL : to_hub(scheduler);
        }
    }
    ready = SLOT(scheduler, scheduler_run_queue);
    if (!is_deque(ready) || deque_size(ready) == 0) {
        if (poll_if_watched(scheduler) < 0) {
            return NULL;
        }
        ready = SLOT(scheduler, scheduler_run_queue);
        if (!is_deque(ready)) {
            PyErr_SetString(PyExc_AttributeError, "run_queue");
            return NULL;
        }
        if (deque_size(ready) == 0) {
            const Py_ssize_t offsets[] = {scheduler_new_work, scheduler_preempted, scheduler_low};
            for (int i = 0; i < 3; i++) {
                PyObject *later = Py_XNewRef(SLOT(scheduler, offsets[i]));
                Py_ssize_t size = later == NULL ? 0 : PyObject_Size(later); /* a class in Python */
                result = size > 0 ? PyObject_CallMethodNoArgs(later, str_popleft) : NULL;
                Py_XDECREF(later);
                if (size != 0) {
                    return result;
                }
            }
            return to_hub(scheduler);
        }
    }
    return popleft_of(ready);
}

/* Whether C may make a switch of this scheduler: there is no hook around parks and no trace function, and the run queue
is a plain deque. */
static inline int
switches_plainly(PyObject *scheduler)
{
    return scheduler != NULL && IS_A(scheduler, Scheduler) && SLOT(scheduler, scheduler_around_park) == Py_None &&
           SLOT(scheduler, scheduler_traced) == Py_False &&
           is_deque(SLOT(scheduler, scheduler_run_queue)) && SLOT(scheduler, scheduler_switches_left) != NULL &&
           PyLong_CheckExact(SLOT(scheduler, scheduler_switches_left));
}

/* Clear the error if it is a MemoryError: the caller has begun a step that must be finished. */
static int
forget_want_of_memory(void)
{
    if (!PyErr_ExceptionMatches(PyExc_MemoryError)) {
        return 0;
    }
    PyErr_Clear();
    return 1;
}

/* Count the switch and switch to the next entry, until another greenlet switches back. The caller may be in a queue
already, so this function continues without memory, and fails only if greenlet fails. CALLS. */
static int
switch_away(PyObject *scheduler)
{
    PyObject *ready = SLOT(scheduler, scheduler_run_queue), *entry, *result, *number;
    long left = PyLong_AsLong(SLOT(scheduler, scheduler_switches_left)) - 1;

    number = left < -1 && PyErr_Occurred() ? NULL : PyLong_FromLong(left);
    if (number != NULL) {
        put(scheduler, scheduler_switches_left, number);
    }
    else if (!forget_want_of_memory()) { /* without memory, the switch is not counted */
        return -1;
    }
    entry = left != 0 && deque_size(ready) > 0 ? popleft_of(ready) : pick_next(scheduler, left);
    if (entry == NULL && forget_want_of_memory()) { /* without memory, the hub picks the next entry */
        entry = to_hub(scheduler);
    }
    if (entry == NULL) {
        if (!PyErr_Occurred()) {
            PyErr_SetString(PyExc_AttributeError, "hub");
        }
        return -1;
    }
    if (IS(entry, NewQueue) && SLOT(entry, new_queue_scheduler) == scheduler) { /* NewQueue.switch */
        put(scheduler, scheduler_next_on_hub, entry);
        entry = Py_XNewRef(SLOT(scheduler, scheduler_hub));
        if (entry == NULL) {
            PyErr_SetString(PyExc_AttributeError, "hub");
            return -1;
        }
    }
    if (IS(entry, Dhaga) || Py_IS_TYPE(entry, &PyGreenlet_Type)) {
        result = PyGreenlet_Switch((PyGreenlet *)entry, NULL, NULL);
    }
    else { /* main code, or a call for the hub */
        result = PyObject_CallMethodNoArgs(entry, str_switch);
    }
    Py_DECREF(entry);
    if (result == NULL) {
        return -1;
    }
    Py_DECREF(result);
    return 0;
}

/* Scheduler._park for a dhaga, if switches_plainly() is true. CALLS. */
static PyObject *
park(PyObject *scheduler, PyObject *me)
{
    PyObject *value, *error, *target;

    put(me, dhaga_since, Py_XNewRef(SLOT(scheduler, scheduler_next_poll_at)));
    Py_INCREF(scheduler);
    if (switch_away(scheduler) < 0) {
        Py_DECREF(scheduler);
        return NULL;
    }
    Py_DECREF(scheduler);
    /* A waiter must not keep the targets and values of earlier parks alive. The target is dropped when the value is safe:
    a finalizer that this calls may park. */
    target = exchange(me, dhaga_target, Py_NewRef(Py_None));
    error = SLOT(me, dhaga_error);
    if (error != NULL && error != Py_None) {
        PyObject *never = PyObject_CallMethodNoArgs(me, str_throw_error);
        Py_XDECREF(never);
        if (never == NULL) {
            Py_XDECREF(target);
            return NULL;
        }
    }
    value = exchange(me, dhaga_value, Py_NewRef(Py_None));
    if (value == NULL) {
        PyErr_SetString(PyExc_AttributeError, "_value");
    }
    Py_XDECREF(target);
    return value;
}

static PyObject *
scheduler__park(PyObject *self, PyObject *me)
{
    if (!IS_A(me, Dhaga) || !switches_plainly(self)) {
        return call_twin(PARK, self, &me, 1, NULL);
    }
    return park(self, me);
}

/* Whether a dhaga of NORMAL priority is in no wait already, and has no pending error. A dhaga that was woken, and has not
run since, still has its target: see is_woken() of inner_waiter.py. (A dhaga that a test watches has its own queue, and
its subclass has a property instead of a slot.) */
static inline int
nothing_pending(PyObject *me)
{
    PyObject *pending = SLOT(me, dhaga_pending), *parked = SLOT(me, dhaga_parked);
    return is_deque(SLOT(me, dhaga_queue)) && SLOT(me, dhaga_target) == Py_None && pending != NULL &&
           ((PyTuple_CheckExact(pending) && PyTuple_GET_SIZE(pending) == 0) ||
            (PyList_Check(pending) && PyList_GET_SIZE(pending) == 0)) &&
           parked != NULL && PyList_CheckExact(parked) && PyList_GET_SIZE(parked) == 0;
}

/* The caller, borrowed: a running dhaga is alive. NULL on an error. */
static PyObject *
current(void)
{
    PyObject *me = (PyObject *)PyGreenlet_GetCurrent();
    Py_XDECREF(me);
    return me;
}

/* Whether the caller may wait on the fast path: a dhaga that is not parked already and has no pending error. */
static inline int
may_wait(PyObject *me)
{
    return IS_A(me, Dhaga) && nothing_pending(me) && switches_plainly(SLOT(me, dhaga_scheduler));
}

/* The ticket of a park. CALLS: before 3.12 an allocation may collect garbage. So callers make the ticket before their
checks. */
static inline PyObject *
new_ticket(PyObject *me)
{
    PyObject *ticket = PyList_New(1);
    if (ticket != NULL) {
        PyList_SET_ITEM(ticket, 0, Py_NewRef(me));
    }
    return ticket;
}

/* The former contents of a waiter's slots, which are dropped once the atomic step is done. */
typedef struct {
    PyObject *target, *reason, *ticket;
} former_park;

static inline void
drop(former_park *all)
{
    Py_XDECREF(all->ticket);
    Py_XDECREF(all->reason);
    Py_XDECREF(all->target);
}

/* Waiter.prepare_park: mark a waiter that may_wait() as parked. Takes the ticket's reference. */
static inline void
prepare(PyObject *me, PyObject *reason, PyObject *target, PyObject *ticket, former_park *before)
{
    BEGIN_STEP(me)
    before->target = SLOT(me, dhaga_target);
    before->reason = SLOT(me, dhaga_reason);
    before->ticket = SLOT(me, dhaga_parked);
    SET(me, dhaga_target, Py_NewRef(target));
    SET(me, dhaga_reason, Py_NewRef(reason));
    SET(me, dhaga_parked, ticket); /* last: from now on other threads may use the target */
    END_STEP()
}

static PyObject *
dhaga_prepare_park(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    if (names == NULL && (count == 1 || count == 2)) {
        PyObject *ticket = new_ticket(self);
        former_park before;
        if (ticket == NULL) {
            return NULL;
        }
        if (nothing_pending(self)) {
            prepare(self, args[0], count == 2 ? args[1] : Py_None, ticket, &before);
            drop(&before);
            Py_RETURN_NONE;
        }
        Py_DECREF(ticket);
    }
    return call_twin(PREPARE, self, args, count, names);
}

/* Remove the caller from its wait target, because its park has failed before the switch: no waker may hand anything to
the caller. The current error stays set. Returns: 0 if a waker was faster. CALLS. */
static int
leave(PyObject *me)
{
    PyObject *error = take_error(), *ticket = Py_XNewRef(SLOT(me, dhaga_parked)), *undone;
    int left = ticket != NULL && PyList_CheckExact(ticket) ? claim(ticket) : 0;

    if (left) {
        PyErr_Clear();
        undone = PyObject_CallMethodNoArgs(me, str_undo_park); /* may fail: wakers skip the empty ticket */
        Py_XDECREF(undone);
        PyErr_Clear();
    }
    Py_XDECREF(ticket);
    raise_again(error);
    return left != 0;
}

/* Keep the current error pending until the caller's next park. Returns: NULL if that fails. CALLS. */
static PyObject *
keep_error(PyObject *me)
{
    PyObject *error = take_error();
    PyObject *kept = PyObject_CallMethodOneArg(me, str_cancel_with, error);

    Py_DECREF(error);
    return kept;
}

/* Scheduler._park for the caller, which is a dhaga in a queue. CALLS. */
static PyObject *
park_here(PyObject *me)
{
    PyObject *scheduler = SLOT(me, dhaga_scheduler);

    if (switches_plainly(scheduler)) {
        return park(scheduler, me);
    }
    return PyObject_CallMethod(scheduler, "_park", "O", me);
}
