/* The socket, receiving: one system call, which never waits; a reader that finds no bytes parks. Twins: socket.recv and
recv_into.

The interpreter lock is kept during the call: it does not wait, and copies MOST or MOST_INTO bytes at most. The twin,
which releases the lock, handles larger calls. Each call asks the socket for its fd: a closed socket's is -1, never
another file's. */

#define MOST 65536
/* The limit of recv_into, which receives into the caller's buffer: io.DEFAULT_BUFFER_SIZE of Python 3.14, which is the
size of a read by a file object over a socket. */
#define MOST_INTO 131072
/* Reads up to this size are often for a message of known length, which is then received in place. */
#define SMALL 1024

/* The fd; -2 on an error. */
static int
fd_of(PyObject *self)
{
    PyObject *number = PyObject_Vectorcall(plain_fileno, &self, 1, NULL);
    long fd = number == NULL ? -2 : PyLong_AsLong(number);

    Py_XDECREF(number);
    return PyErr_Occurred() ? -2 : (int)fd;
}

/* End the caller's turn if its budget is spent: turn_budget.py. Returns: -1 on an error. CALLS. */
static int
end_turn_if_due(PyObject *me)
{
    PyObject *scheduler = SLOT(me, dhaga_scheduler), *turn_end, *now, *result;
    int due;

    if (!has_plain_timers(scheduler) || SLOT(scheduler, scheduler_turn_ends_at) == NULL) {
        return 0;
    }
    turn_end = Py_NewRef(SLOT(scheduler, scheduler_turn_ends_at));
    now = time_now(scheduler);
    due = now == NULL ? -1 : PyObject_RichCompareBool(now, turn_end, Py_GE);
    Py_XDECREF(now);
    Py_DECREF(turn_end);
    if (due > 0) {
        result = PyObject_CallOneArg(end_turn, me);
        Py_XDECREF(result);
        due = result == NULL ? -1 : 0;
    }
    return due;
}

/* Whether the caller is a dhaga and the timeout a plain number or None. Stores the socket's watcher for the
dhaga's scheduler, owned, in `*watcher`; NULL if there is no watcher yet. */
static int
may_receive(PyObject *self, PyObject *me, PyObject **watcher)
{
    PyObject *cached, *timeout, *watchers, *scheduler;
    int is_plain;

    *watcher = NULL;
    if (!IS_A(me, Dhaga) || !has_plain_timers(scheduler = SLOT(me, dhaga_scheduler)) ||
        SLOT(scheduler, scheduler_turn_ends_at) == NULL || know_late_names() < 0) {
        return 0;
    }
    cached = own_slot(self, socket_watcher);
    if (cached != NULL && IS(cached, FdWatcher) && SLOT(cached, watcher_scheduler) == scheduler) { /* no timeout */
        *watcher = Py_NewRef(cached);
        DISOWN(cached);
        return 1;
    }
    DISOWN(cached);
    BEGIN_STEP(self)
    timeout = OWN(SLOT(self, socket_call_timeout));
    watchers = OWN(SLOT(self, socket_watchers));
    END_STEP()
    is_plain = timeout != NULL && watchers != NULL && PyDict_Check(watchers) &&
               (timeout == Py_None || (PyFloat_CheckExact(timeout) && PyFloat_AS_DOUBLE(timeout) >= 0));
    if (is_plain) {
        *watcher = value_of(watchers, scheduler);
    }
    DISOWN(timeout);
    DISOWN(watchers);
    return is_plain && !PyErr_Occurred() && (*watcher == NULL || IS(*watcher, FdWatcher));
}

static inline int
is_plain_watcher(PyObject *watcher)
{
    return SLOT(watcher, watcher_readable) != NULL && SLOT(watcher, watcher_readers) != NULL &&
           PyDict_CheckExact(SLOT(watcher, watcher_readers)) && SLOT(watcher, watcher_read_reason) != NULL;
}

/* A short read has emptied the socket: the next receive parks at once, and saves a system call that would fail. This
note is optional: an error here must not lose the bytes that were read. CALLS. */
static void
note_short_read(PyObject *watcher)
{
    PyObject *poller, *list;

    if (SLOT(watcher, watcher_short_read_means_empty) != Py_True) {
        return;
    }
    if (SLOT(watcher, watcher_may_have_more) != Py_False) { /* the poller will check it again */
        poller = SLOT(watcher, watcher_poller);
        list = poller == NULL ? NULL : PyObject_GetAttr(poller, str_to_recheck);
        if (list == NULL || !PyList_CheckExact(list) || PyList_Append(list, watcher) < 0) {
            Py_XDECREF(list);
            PyErr_Clear();
            return;
        }
        Py_DECREF(list);
    }
    put(watcher, watcher_readable, Py_NewRef(Py_False));
}

typedef enum { FAILED = -1, BY_TWIN, AGAIN } outcome;

/* FdWatcher.wait_readable, for at most `left` seconds (NULL: no limit). Returns: AGAIN once the fd may be readable.
CALLS. */
static outcome
park_to_read(PyObject *me, PyObject *watcher, PyObject *left)
{
    PyObject *ticket = new_ticket(me), *value, *result;
    former_park before;
    int failed, late;

    if (ticket == NULL) {
        return FAILED;
    }
    if (!may_wait(me) || !is_plain_watcher(watcher)) {
        Py_DECREF(ticket);
        return BY_TWIN;
    }
    if (SLOT(watcher, watcher_readable) == Py_True) { /* set by another thread, while the ticket was made */
        Py_DECREF(ticket);
        return AGAIN;
    }
    /* The caller is parked first: once it is among the readers, another thread may close the fd and wake the caller. */
    prepare(me, SLOT(watcher, watcher_read_reason), watcher, ticket, &before);
    failed = PyDict_SetItem(SLOT(watcher, watcher_readers), me, Py_None);
    drop(&before);
    if (failed) {
        leave(me);
        return FAILED;
    }
    FENCE();
    if (SLOT(watcher, watcher_watched) != Py_True) {
        result = PyObject_CallMethod(watcher, "start_watching", "Oi", me, DIRECTION_READ);
        if (result == NULL) {
            leave(me);
            return FAILED;
        }
        Py_DECREF(result);
    }
    value = left == NULL ? park_here(me) : park_within(me, left);
    late = left != NULL && value == timed_out;
    Py_XDECREF(value);
    if (late) {
        PyErr_SetString(PyExc_TimeoutError, "timed out");
    }
    return value == NULL || late ? FAILED : AGAIN;
}

/* Park within the socket's timeout, as park_within_timeout() does: its clock starts at the first park. CALLS. */
static outcome
park_in_time(PyObject *self, PyObject *me, PyObject *watcher, double *deadline)
{
    PyObject *timeout = own_slot(self, socket_call_timeout), *scheduler = SLOT(me, dhaga_scheduler), *now, *left;
    int is_forever = timeout == Py_None, is_plain = timeout != NULL && PyFloat_CheckExact(timeout);
    double seconds = is_plain ? PyFloat_AS_DOUBLE(timeout) : 0;
    outcome done;

    DISOWN(timeout);
    if (is_forever) {
        return park_to_read(me, watcher, NULL);
    }
    if (!is_plain || !has_plain_timers(scheduler)) {
        return BY_TWIN;
    }
    now = time_now(scheduler);
    if (now == NULL) {
        return FAILED;
    }
    if (*deadline < 0) {
        *deadline = PyFloat_AsDouble(now) + seconds;
    }
    seconds = *deadline - PyFloat_AsDouble(now);
    left = PyFloat_FromDouble(seconds > 0 ? seconds : 0);
    Py_DECREF(now);
    done = left == NULL || PyErr_Occurred() ? FAILED : park_to_read(me, watcher, left);
    Py_XDECREF(left);
    return done;
}

/* A receive: at most `size` bytes as a bytes object, or as many as the buffer holds. */
typedef struct {
    PyObject *buffer;
    Py_ssize_t size;
    Py_ssize_t got;  /* number of received bytes; -1 as long as none have come, 0 at the end of the stream */
    PyObject *bytes; /* made if there is no buffer */
} reception;

/* Receive at most `size` bytes from the socket. Returns: -1 with an error; "no bytes yet" is no error. */
static Py_ssize_t
take_bytes(int fd, void *to, Py_ssize_t size, outcome *done)
{
    Py_ssize_t got = recv(fd, to, (size_t)size, MSG_DONTWAIT);

    *done = got >= 0 || errno == EAGAIN || errno == EINTR ? AGAIN : FAILED;
    if (*done == FAILED) {
        PyErr_SetFromErrno(PyExc_OSError);
    }
    return got;
}

/* Receive bytes. The memory is allocated before the bytes leave the socket, so that a lack of memory loses no bytes.
`kept`: a buffer of MOST bytes to which nothing else refers. The bytes are copied from this buffer: allocating 4 KB or
more at each call, and shrinking it, makes a round trip of small messages 10 % longer. A bulk transfer pays 5 % for the
copy. */
static inline outcome
receive_through(PyObject **kept, int fd, reception *wanted)
{
    PyObject **room = wanted->size > SMALL ? kept : &wanted->bytes, *exact;
    outcome done;

    if (*room == NULL && (*room = PyBytes_FromStringAndSize(NULL, wanted->size > SMALL ? MOST : wanted->size)) == NULL) {
        return FAILED;
    }
    wanted->got = take_bytes(fd, PyBytes_AS_STRING(*room), wanted->size, &done);
    if (wanted->got < 0) {
        Py_CLEAR(wanted->bytes);
        return done;
    }
    if (wanted->bytes != NULL && wanted->got == wanted->size) {
        return done;
    }
    exact = PyBytes_FromStringAndSize(PyBytes_AS_STRING(*room), wanted->got);
    if (exact == NULL) { /* return the larger object itself, cut to the size */
        PyErr_Clear();
        exact = *room;
        *room = NULL;
        Py_SET_SIZE(exact, wanted->got);
        PyBytes_AS_STRING(exact)[wanted->got] = 0;
    }
    Py_XSETREF(wanted->bytes, exact);
    return done;
}

/* Receive bytes through the buffer that the process keeps. Without the interpreter lock, a thread that finds the buffer
in use makes another one. */
static outcome
receive_bytes(int fd, reception *wanted)
{
    static PyObject *kept;
#ifdef Py_GIL_DISABLED
    PyObject *mine = wanted->size > SMALL ? __atomic_exchange_n(&kept, NULL, __ATOMIC_ACQ_REL) : NULL;
    outcome done = receive_through(&mine, fd, wanted);

    if (mine != NULL) {
        mine = __atomic_exchange_n(&kept, mine, __ATOMIC_ACQ_REL);
        Py_XDECREF(mine);
    }
    return done;
#else
    return receive_through(&kept, fd, wanted);
#endif
}

/* Receive into the caller's buffer. CALLS, if the buffer's class is written in Python. */
static outcome
receive_into(int fd, reception *wanted)
{
    Py_buffer view;
    outcome done;

    if (PyObject_GetBuffer(wanted->buffer, &view, PyBUF_WRITABLE) < 0) {
        return FAILED;
    }
    wanted->size = view.len;
    wanted->got = take_bytes(fd, view.buf, view.len, &done);
    PyBuffer_Release(&view);
    return done;
}

/* Whether calls never wait (timeout 0). redis-py checks for stale data this way before each command: here in 1.0 µs, by
the twin in 1.6 µs. */
static inline int
never_waits(PyObject *self)
{
    PyObject *timeout = own_slot(self, socket_call_timeout);
    int never = timeout != NULL && PyFloat_CheckExact(timeout) && PyFloat_AS_DOUBLE(timeout) == 0;

    DISOWN(timeout);
    return never;
}

/* Receive as soon as there is something: read_when_ready(). Returns: AGAIN once it was received. CALLS. */
static outcome
receive(PyObject *self, reception *wanted)
{
    PyObject *me = current(), *watcher = NULL;
    outcome done = AGAIN;
    double deadline = -1;
    int fd, at_once = never_waits(self);

    if (me == NULL || !may_receive(self, me, &watcher)) {
        Py_XDECREF(watcher);
        return PyErr_Occurred() ? FAILED : BY_TWIN;
    }
    if (!at_once && (watcher == NULL || SLOT(watcher, watcher_readable) == Py_True) && end_turn_if_due(me) < 0) {
        done = FAILED;
    }
    for (wanted->got = -1; wanted->got < 0 && done == AGAIN;) {
        if (!at_once && watcher != NULL && SLOT(watcher, watcher_readable) != Py_True) {
            done = park_in_time(self, me, watcher, &deadline);
            continue;
        }
        fd = fd_of(self);
        done = fd == -2                 ? FAILED
               : wanted->buffer == NULL ? receive_bytes(fd, wanted)
                                        : receive_into(fd, wanted);
        if (done == AGAIN && wanted->got < 0 && ((at_once && PyObject_Size(overlong) > 0) || !may_wait(me))) {
            done = BY_TWIN; /* the twin receives: it may have to end the turn, or a simulation may answer */
        }
        else if (done == AGAIN && wanted->got < 0 && at_once) {
            errno = EAGAIN;
            PyErr_SetFromErrno(PyExc_OSError);
            done = FAILED;
        }
        else if (done == AGAIN && wanted->got < 0) {
            if (watcher == NULL) {
                watcher = PyObject_CallMethodOneArg(self, str_fd_watcher, me);
                done = watcher == NULL ? FAILED : IS(watcher, FdWatcher) ? AGAIN : BY_TWIN;
            }
            if (done == AGAIN) {
                put(watcher, watcher_readable, Py_NewRef(Py_False));
            }
        }
        else if (done == AGAIN && watcher != NULL && wanted->got < wanted->size) {
            note_short_read(watcher);
        }
    }
    Py_XDECREF(watcher);
    if (done != AGAIN) {
        Py_CLEAR(wanted->bytes);
    }
    return done;
}

static PyObject *
socket_recv(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    reception wanted = {0};

    if (names == NULL && count == 1 && !frozen && IS(self, Socket) && PyLong_CheckExact(args[0])) {
        wanted.size = PyLong_AsSsize_t(args[0]);
        if (wanted.size == -1) {
            PyErr_Clear();
        }
        if (wanted.size > 0 && wanted.size <= MOST) {
            outcome done = receive(self, &wanted);
            if (done != BY_TWIN) {
                return done == FAILED ? NULL : wanted.bytes;
            }
        }
    }
    return call_twin(SOCKET_RECV, self, args, count, names);
}

static PyObject *
socket_recv_into(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    if (names == NULL && count == 1 && !frozen && IS(self, Socket)) {
        reception wanted = {.buffer = args[0], .size = -1};
        if (PyByteArray_CheckExact(args[0])) {
            wanted.size = PyByteArray_GET_SIZE(args[0]);
        }
        else if (PyMemoryView_Check(args[0]) && !PyMemoryView_GET_BUFFER(args[0])->readonly) {
            wanted.size = PyMemoryView_GET_BUFFER(args[0])->len;
        }
        if (wanted.size > 0 && wanted.size <= MOST_INTO) {
            outcome done = receive(self, &wanted);
            if (done != BY_TWIN) {
                return done == FAILED ? NULL : PyLong_FromSsize_t(wanted.got);
            }
        }
    }
    return call_twin(SOCKET_RECV_INTO, self, args, count, names);
}
