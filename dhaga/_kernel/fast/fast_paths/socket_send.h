/* The socket, sending: one system call, as in socket.h. Twins: socket.send and sendall. */

/* The number of sends until the next check of the turn's clock; 0 if the slot contains no number. */
static inline long
sends_left(PyObject *self)
{
    PyObject *left = own_slot(self, socket_sends_until_check);
    long sends = left != NULL && PyLong_CheckExact(left) ? PyLong_AsLong(left) : 0;

    DISOWN(left);
    return sends;
}

/* Whether the bytes are few enough to be sent here. */
static inline int
may_send(PyObject *self, PyObject *data)
{
    return IS(self, Socket) && PyBytes_CheckExact(data) && PyBytes_GET_SIZE(data) <= MOST;
}

/* Send as many bytes as fit, with one system call. Stores the number of sent bytes in `*sent`; -1 if the twin must
decide. Returns: -1 on an error. */
static int
send_what_fits(PyObject *self, PyObject *data, Py_ssize_t *sent)
{
    int fd = fd_of(self);

    *sent = -1;
    if (fd == -2) {
        return -1;
    }
    *sent = send(fd, PyBytes_AS_STRING(data), (size_t)PyBytes_GET_SIZE(data), MSG_DONTWAIT);
    if (*sent < 0 && errno != EAGAIN && errno != EINTR) {
        PyErr_SetFromErrno(PyExc_OSError);
        return -1;
    }
    return 0;
}

/* Call send_what_fits(), and count the send. */
static int
send_and_count(PyObject *self, PyObject *data, Py_ssize_t *sent)
{
    long sends = sends_left(self);
    PyObject *number;

    *sent = -1;
    if (sends <= 1) { /* the turn's clock must be checked */
        PyErr_Clear();
        return 0;
    }
    number = PyLong_FromLong(sends - 1);
    if (number == NULL || send_what_fits(self, data, sent) < 0) {
        Py_XDECREF(number);
        return -1;
    }
    if (*sent < 0) {
        Py_DECREF(number);
    }
    else {
        put(self, socket_sends_until_check, number);
    }
    return 0;
}

/* Whether these are the flags of a caller that does not wait. */
static inline int
says_dontwait(PyObject *flags)
{
    int says = PyLong_Check(flags) && PyLong_AsLong(flags) == MSG_DONTWAIT;

    PyErr_Clear(); /* the flags are too large for a long */
    return says;
}

static PyObject *
socket_send(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    Py_ssize_t sent = -1;
    int failed = 0;

    if (names == NULL && (count == 1 || count == 2) && may_send(self, args[0])) {
        if (count == 1) {
            failed = send_and_count(self, args[0], &sent);
            if (sent >= 0 && sent < PyBytes_GET_SIZE(args[0])) {
                return PyObject_CallMethod(self, "send_whole_", "Oni", args[0], sent, 0);
            }
        }
        /* The turn continues. A broadcast sends to each client in this way: a send takes 2.3 µs instead of 4.5 µs. */
        else if (says_dontwait(args[1])) {
            failed = send_what_fits(self, args[0], &sent);
        }
    }
    if (failed) {
        return NULL;
    }
    return sent < 0 ? call_twin(SOCKET_SEND, self, args, count, names) : PyLong_FromSsize_t(sent);
}

static PyObject *
socket_sendall(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    PyObject *view, *result;
    Py_ssize_t sent = -1;

    if (names == NULL && count == 1 && may_send(self, args[0]) && send_and_count(self, args[0], &sent) < 0) {
        return NULL;
    }
    if (sent < 0) {
        return call_twin(SOCKET_SENDALL, self, args, count, names);
    }
    if (sent < PyBytes_GET_SIZE(args[0])) {
        view = PyMemoryView_FromObject(args[0]);
        result = view == NULL ? NULL : PyObject_CallMethod(self, "send_rest", "Oni", view, sent, 0);
        Py_XDECREF(view);
        if (result == NULL) {
            return NULL;
        }
        Py_DECREF(result);
    }
    Py_RETURN_NONE;
}
