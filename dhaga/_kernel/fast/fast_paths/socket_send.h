/* The socket, sending: one system call, as in socket.h. Twins: socket.send and sendall. */

/* How many sends there are until the next look at the turn's clock; 0 if the slot does not say. */
static inline long
sends_left(PyObject *self)
{
    PyObject *left = own_slot(self, socket_sends_until_check);
    long sends = left != NULL && PyLong_CheckExact(left) ? PyLong_AsLong(left) : 0;

    DISOWN(left);
    return sends;
}

/* Send what fits. Sets the number of bytes; -1: none, and the twin decides. Returns: -1 on an error. */
static int
send_now(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names, Py_ssize_t *sent)
{
    PyObject *number;
    long sends;
    int fd;

    *sent = -1;
    if (names != NULL || count != 1 || !IS(self, Socket) || !PyBytes_CheckExact(args[0]) ||
        PyBytes_GET_SIZE(args[0]) > MOST) {
        return 0;
    }
    sends = sends_left(self);
    if (sends <= 1) { /* time to look at the turn's clock */
        PyErr_Clear();
        return 0;
    }
    fd = fd_of(self);
    number = PyLong_FromLong(sends - 1);
    if (fd == -2 || number == NULL) {
        Py_XDECREF(number);
        return -1;
    }
    *sent = send(fd, PyBytes_AS_STRING(args[0]), (size_t)PyBytes_GET_SIZE(args[0]), MSG_DONTWAIT);
    if (*sent < 0) {
        if (errno != EAGAIN && errno != EINTR) {
            PyErr_SetFromErrno(PyExc_OSError);
        }
        Py_DECREF(number);
        return PyErr_Occurred() ? -1 : 0;
    }
    put(self, socket_sends_until_check, number);
    return 0;
}

static PyObject *
socket_send(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    Py_ssize_t sent;

    if (send_now(self, args, count, names, &sent) < 0) {
        return NULL;
    }
    return sent < 0 ? call_twin(SOCKET_SEND, self, args, count, names) : PyLong_FromSsize_t(sent);
}

static PyObject *
socket_sendall(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    PyObject *view, *result;
    Py_ssize_t sent;

    if (send_now(self, args, count, names, &sent) < 0) {
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
