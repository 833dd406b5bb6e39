/* The poller: events of epoll make waiters runnable. Twins: Epoll.poll, and has_event of loop.py. */

/* Whether a slot is empty, or contains an empty dictionary. */
static inline int
is_empty_dict(PyObject *object)
{
    return object == NULL || (PyDict_CheckExact(object) && PyDict_GET_SIZE(object) == 0);
}

/* READ and WRITE of fd_watch.py */
#define DIRECTION_READ 1
#define DIRECTION_WRITE 2

#ifdef __linux__

#define BATCH 1024
#define UNUSUAL (EPOLLERR | EPOLLHUP | EPOLLRDHUP | EPOLLPRI)

/* The first key of a dictionary, owned; NULL if it is empty. */
static inline PyObject *
first_key(PyObject *dict)
{
    PyObject *key = NULL, *unused;
    Py_ssize_t position = 0;

    BEGIN_STEP(dict)
    key = PyDict_Next(dict, &position, &key, &unused) ? Py_NewRef(key) : NULL;
    END_STEP()
    return key;
}

/* Remove a key. Returns: 0 if another thread has removed it, -1 on an error. */
static inline int
discard_key(PyObject *dict, PyObject *key)
{
#ifdef Py_GIL_DISABLED
    return PyDict_Pop(dict, key, NULL);
#else
    return PyDict_DelItem(dict, key) < 0 ? -1 : 1;
#endif
}

/* One event of a watched fd. CALLS. */
static int
pass_on(PyObject *poller, PyObject *watcher, uint32_t events, int no_sharers)
{
    PyObject *readers, *writers, *waiter, *ticket, *queue, *result;
    int directions;

    if (IS(watcher, FdWatcher) && no_sharers) {
        readers = SLOT(watcher, watcher_readers);
        writers = SLOT(watcher, watcher_writers);
        if ((events == EPOLLIN || (events == (EPOLLIN | EPOLLOUT) && is_empty_dict(writers))) && readers != NULL &&
            PyDict_CheckExact(readers) && PyDict_GET_SIZE(readers) <= 1) {
            put(watcher, watcher_readable, Py_NewRef(Py_True));
            waiter = first_key(readers);
            if (waiter == NULL) {
                return 0;
            }
            if (is_dhaga(waiter)) {
                BEGIN_STEP(waiter)
                ticket = Py_XNewRef(SLOT(waiter, dhaga_parked));
                queue = Py_XNewRef(SLOT(waiter, dhaga_queue));
                END_STEP()
                if (ticket != NULL && PyList_CheckExact(ticket) && is_deque(queue)) {
                    int failed = discard_key(readers, waiter);
                    if (failed > 0 && (failed = claim(ticket)) > 0) { /* a scheduler that polls is awake: no check */
                        failed = append_to(queue, waiter);
                    }
                    Py_DECREF(queue);
                    Py_DECREF(ticket);
                    Py_DECREF(waiter);
                    return failed;
                }
                Py_XDECREF(ticket);
                Py_XDECREF(queue);
            }
            Py_DECREF(waiter);
            result = PyObject_CallMethod(watcher, "ready", "i", DIRECTION_READ);
            Py_XDECREF(result);
            return result == NULL ? -1 : 0;
        }
    }
    directions = (events & EPOLLIN ? DIRECTION_READ : 0) | (events & EPOLLOUT ? DIRECTION_WRITE : 0);
    if (events & UNUSUAL) {
        directions = DIRECTION_READ | DIRECTION_WRITE;
    }
    result = PyObject_CallMethod(
        poller, "dispatch", "OiO", watcher, directions, events & UNUSUAL ? Py_True : Py_False);
    Py_XDECREF(result);
    return result == NULL ? -1 : 0;
}

/* Epoll.poll: wake the waiters whose fds are ready now. CALLS. */
static int
poll_epoll(PyObject *self)
{
    struct epoll_event found[BATCH];
    PyObject *number, *watchers, *sharers, *recheck;
    long fd;
    int count, i, no_sharers, failed = 0;

    number = PyObject_CallMethodNoArgs(SLOT(self, epoll_epoll), str_fileno);
    if (number == NULL) {
        return -1;
    }
    fd = PyLong_AsLong(number);
    Py_DECREF(number);
    if (fd == -1 && PyErr_Occurred()) {
        return -1;
    }
    count = epoll_wait((int)fd, found, BATCH, 0); /* does not wait, so the interpreter lock is kept */
    if (count < 0) {
        if (errno != EINTR) {
            PyErr_SetFromErrno(PyExc_OSError);
            return -1;
        }
        count = 0;
    }
    if (count > 0) {
        if (add(self, epoll_events, count) < 0) {
            PyErr_Clear(); /* the number is only a statistic: an error must not lose events */
        }
        sharers = SLOT(self, epoll_sharers);
        no_sharers = is_empty_dict(sharers);
        watchers = Py_NewRef(SLOT(self, epoll_watchers));
        for (i = 0; i < count && !failed; i++) {
            PyObject *key = PyLong_FromLong(found[i].data.fd), *watcher = NULL;
            if (key != NULL) {
                watcher = value_of(watchers, key);
            }
            Py_XDECREF(key);
            if (watcher != NULL) {
                failed = pass_on(self, watcher, found[i].events, no_sharers);
                Py_DECREF(watcher);
            }
            else if (PyErr_Occurred()) {
                failed = -1;
            }
        }
        Py_XDECREF(watchers);
        if (failed) {
            return -1;
        }
    }
    recheck = SLOT(self, epoll_to_recheck);
    if (recheck != NULL && PyList_Check(recheck) && PyList_GET_SIZE(recheck) > 0) {
        PyObject *left = PyObject_GetAttr(self, str_polls_until_recheck), *result;
        long polls = left == NULL ? -1 : PyLong_AsLong(left) - 1;
        Py_XDECREF(left);
        if (PyErr_Occurred()) {
            return -1;
        }
        left = PyLong_FromLong(polls);
        if (left == NULL || PyObject_SetAttr(self, str_polls_until_recheck, left) < 0) {
            Py_XDECREF(left);
            return -1;
        }
        Py_DECREF(left);
        if (count == 0 || polls == 0) {
            result = PyObject_CallMethodNoArgs(self, str_recheck);
            Py_XDECREF(result);
            return result == NULL ? -1 : 0;
        }
    }
    return 0;
}

#endif

static PyObject *
epoll_poll(PyObject *self, PyObject *Py_UNUSED(no))
{
#ifdef __linux__
    PyObject *epoll = SLOT(self, epoll_epoll);

    if (IS(self, Epoll) && epoll != NULL && Py_IS_TYPE(epoll, epoll_type) && SLOT(self, epoll_events) != NULL &&
        SLOT(self, epoll_watchers) != NULL && PyDict_CheckExact(SLOT(self, epoll_watchers))) {
        if (poll_epoll(self) < 0) {
            return NULL;
        }
        Py_RETURN_NONE;
    }
#endif
    return call_twin(POLL, self, NULL, 0, NULL);
}

/* `if self.poller.watchers: self.poller.poll()`. CALLS. */
static int
poll_if_watched(PyObject *scheduler)
{
    PyObject *poller = Py_XNewRef(SLOT(scheduler, scheduler_poller)), *result;
    int failed = 0;

    if (poller == NULL) {
        PyErr_SetString(PyExc_AttributeError, "poller");
        return -1;
    }
    if (IS(poller, Epoll)) {
        if (!is_empty_dict(SLOT(poller, epoll_watchers))) {
            result = epoll_poll(poller, NULL);
            failed = result == NULL ? -1 : 0;
            Py_XDECREF(result);
        }
    }
    else {
        PyObject *watchers = PyObject_GetAttr(poller, str_watchers);
        int some = watchers == NULL ? -1 : PyObject_IsTrue(watchers);
        Py_XDECREF(watchers);
        failed = some < 0 ? -1 : 0;
        if (some > 0) {
            result = PyObject_CallMethodNoArgs(poller, str_poll);
            failed = result == NULL ? -1 : 0;
            Py_XDECREF(result);
        }
    }
    Py_DECREF(poller);
    return failed;
}

/* Whether a selector would report an event. The check does not wait, so it keeps the interpreter lock. */
static PyObject *
has_event(PyObject *Py_UNUSED(module), PyObject *fd)
{
    struct pollfd look = {-1, POLLIN, 0};

    look.fd = (int)PyLong_AsLong(fd);
    if (look.fd == -1 && PyErr_Occurred()) {
        return NULL;
    }
    if (poll(&look, 1, 0) == 0) {
        Py_RETURN_FALSE;
    }
    Py_RETURN_TRUE; /* also if poll() has failed: the fd is not open, or memory is short */
}
