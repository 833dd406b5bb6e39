/* TLS: one call into OpenSSL reads decrypted bytes, or encrypts and sends the bytes of a write. Twins: SSLSocket.recv,
read, write.

OpenSSL uses the fd itself and never waits. If OpenSSL cannot finish at once, Python continues: read_again, write_again.
The attributes of an SSLSocket are in a dictionary and not in slots, as in the standard class. */

#define RECORD 16384
#define PIECE 65536

/* Acquire a lock if it is free. Returns: whether it was acquired. */
static int
take_if_free(PyObject *lock, PyObject *me)
{
    if (!IS(lock, Lock) || SLOT(lock, lock_holder) != Py_None || !take_free(lock, me)) {
        return 0;
    }
    Py_INCREF(me);
    return 1;
}

/* Call a method without arguments; an error that is set before is kept. Returns: -1 on an error. CALLS. */
static int
call_in_the_end(PyObject *object, PyObject *name)
{
    PyObject *error = PyErr_Occurred() ? take_error() : NULL, *result = PyObject_CallMethodNoArgs(object, name);

    if (result == NULL) {
        Py_XDECREF(error);
        return -1;
    }
    Py_DECREF(result);
    if (error != NULL) {
        raise_again(error);
        return -1;
    }
    return 0;
}

/* Whether the socket is closed, or its state cannot be read. */
static int
is_closed(PyObject *self)
{
    PyObject *watchers = own_slot(self, socket_watchers);
    PyObject *closed = watchers == NULL ? NULL : PyObject_GetAttr(watchers, str_closed);

    DISOWN(watchers);
    Py_XDECREF(closed);
    return closed != Py_False;
}

/* Call a method of the connection under `openssl_lock`. Returns: BY_TWIN if this lock is held or the socket is closed,
FAILED with the error set, AGAIN with the result. CALLS: callbacks of the context may run. */
static outcome
call_openssl(PyObject *self, PyObject *me, PyObject *connection, PyObject *name, PyObject *const *args,
             Py_ssize_t count, PyObject **result)
{
    PyObject *all[3] = {connection, args[0], count > 1 ? args[1] : NULL};
    PyObject *lock = PyObject_GetAttr(self, str_openssl_lock);

    *result = NULL;
    if (lock == NULL || is_closed(self) || !take_if_free(lock, me)) {
        Py_XDECREF(lock);
        return PyErr_Occurred() ? FAILED : BY_TWIN;
    }
    *result = PyObject_VectorcallMethod(name, all, (size_t)count + 1, NULL);
    if (call_in_the_end(lock, str_release) < 0) {
        Py_CLEAR(*result);
    }
    Py_DECREF(lock);
    return *result == NULL ? FAILED : AGAIN;
}

/* After a call into OpenSSL: handle signals and closes that came meanwhile. Returns: -1 if an error is set now or was
   set before the call. CALLS. */
static int
finish_deferred(PyObject *self)
{
    PyObject *error = PyErr_Occurred() ? take_error() : NULL;
    PyObject *fds = PyObject_GetAttr(self, str_fds_to_close), *writer = PyObject_GetAttr(self, str_reading_writer);
    int failed = fds == NULL || writer == NULL, any = 0;

    if (!failed) {
        any = writer != Py_None || (PyList_Check(fds) && PyList_GET_SIZE(fds) > 0);
    }
    Py_XDECREF(fds);
    Py_XDECREF(writer);
    if (error != NULL) {
        raise_again(error);
    }
    return any ? call_in_the_end(self, str_finish_deferred) : failed || error != NULL ? -1 : 0;
}

/* Let a Python method continue after OpenSSL has set an error. An error that is no OSError stays set. CALLS. */
static PyObject *
go_on_by(PyObject *self, PyObject *name, PyObject *connection, PyObject *first, PyObject *second)
{
    PyObject *error = take_error(), *result;

    if (!PyErr_GivenExceptionMatches(error, PyExc_OSError)) {
        raise_again(error);
        return NULL;
    }
    result = second == NULL ? PyObject_CallMethodObjArgs(self, name, connection, first, error, NULL)
                            : PyObject_CallMethodObjArgs(self, name, connection, first, second, error, NULL);
    Py_DECREF(error);
    return result;
}

/* The connection, owned; NULL if there is none any more, or on an error. */
static PyObject *
connection_of(PyObject *self)
{
    PyObject *connection = PyObject_GetAttr(self, str_sslobj);

    if (connection == Py_None) {
        Py_CLEAR(connection);
    }
    return connection;
}

/* ---- reading */

/* If OpenSSL holds decrypted bytes, end a turn that is due; otherwise park until the fd is readable. CALLS. */
static outcome
wait_for_record(PyObject *me, PyObject *watcher, PyObject *connection)
{
    PyObject *pending;
    int none;

    if (SLOT(watcher, watcher_readable) != Py_True) {
        pending = PyObject_CallMethodNoArgs(connection, str_pending);
        none = pending == NULL ? -1 : !PyObject_IsTrue(pending);
        Py_XDECREF(pending);
        if (none) {
            return none < 0 ? FAILED : park_to_read(me, watcher, NULL);
        }
    }
    return end_turn_if_due(me) < 0 ? FAILED : AGAIN;
}

/* note_pending_bytes(): let the next read park without a try if the fd is empty. Returns: -1 on an error. */
static int
note_pending_bytes(PyObject *self, PyObject *watcher, PyObject *data)
{
    Py_ssize_t size = PyBytes_CheckExact(data) ? PyBytes_GET_SIZE(data) : PyLong_AsSsize_t(data);
    int fd, bytes = 0;

    if (size < RECORD && SLOT(watcher, watcher_short_read_means_empty) == Py_True) {
        fd = fd_of(self);
        if (fd == -2) {
            return -1;
        }
        if (ioctl(fd, FIONREAD, &bytes) == 0) { /* fails if the fd was closed meanwhile */
            put(watcher, watcher_readable, Py_NewRef(bytes ? Py_True : Py_False));
        }
    }
    return PyErr_Occurred() ? -1 : 0;
}

/* Read a number of bytes, or into a buffer. The caller has checked that at least one byte is requested. CALLS. */
static PyObject *
read_record(PyObject *self, PyObject *const *args, Py_ssize_t count, function which)
{
    PyObject *me = current(), *watcher = NULL, *connection = me == NULL ? NULL : connection_of(self), *data = NULL;
    outcome done = BY_TWIN;

    if (connection != NULL && may_receive(self, me, &watcher) && watcher != NULL &&
        watcher == SLOT(self, socket_watcher)) {
        done = wait_for_record(me, watcher, connection);
        if (done == AGAIN) {
            done = call_openssl(self, me, connection, str_read, args, count, &data);
            if (done == FAILED) {
                data = go_on_by(self, str_read_again, connection, args[0], count > 1 ? args[1] : Py_None);
            }
            else if (done == AGAIN && note_pending_bytes(self, watcher, data) < 0) {
                Py_CLEAR(data);
            }
            if (done != BY_TWIN && finish_deferred(self) < 0) {
                Py_CLEAR(data);
            }
        }
    }
    Py_XDECREF(watcher);
    Py_XDECREF(connection);
    if (done == BY_TWIN && !PyErr_Occurred()) {
        return call_twin(which, self, args, count, NULL);
    }
    return data;
}

static inline int
is_some(PyObject *size)
{
    return PyLong_CheckExact(size) && PyObject_RichCompareBool(size, Py_False, Py_GT) == 1;
}

static PyObject *
sslsocket_recv(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    if (names != NULL || count != 1 || frozen || !IS(self, SSLSocket) || !IS_A(self, Socket) || !is_some(args[0])) {
        return call_twin(TLS_RECV, self, args, count, names);
    }
    return read_record(self, args, count, TLS_RECV);
}

static PyObject *
sslsocket_read(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    if (names != NULL || count < 1 || count > 2 || frozen || !IS(self, SSLSocket) || !IS_A(self, Socket) ||
        !is_some(args[0]) ||
        (count == 2 && !(PyByteArray_CheckExact(args[1]) && PyByteArray_GET_SIZE(args[1]) > 0) &&
         !(PyMemoryView_Check(args[1]) && PyMemoryView_GET_BUFFER(args[1])->len > 0))) {
        return call_twin(TLS_READ, self, args, count, names);
    }
    return read_record(self, args, count, TLS_READ);
}

/* ---- writing */

/* Write bytes under `write_lock`, if it is free and no rest of an interrupted write must be sent first. CALLS. */
static outcome
write_at_once(PyObject *self, PyObject *me, PyObject *connection, PyObject *data, PyObject **written)
{
    PyObject *lock = PyObject_GetAttr(self, str_write_lock);
    PyObject *pending = lock == NULL ? NULL : PyObject_GetAttr(self, str_pending_piece);
    int is_free = pending != NULL && PyBytes_CheckExact(pending) && PyBytes_GET_SIZE(pending) == 0 &&
                  take_if_free(lock, me);
    outcome done = BY_TWIN;

    *written = NULL;
    if (is_free) {
        done = call_openssl(self, me, connection, str_write, &data, 1, written);
        if (done == FAILED) {
            *written = go_on_by(self, str_write_again, connection, data, NULL);
        }
        if (call_in_the_end(lock, str_release) < 0) {
            Py_CLEAR(*written);
        }
        if (done != BY_TWIN && finish_deferred(self) < 0) {
            Py_CLEAR(*written);
        }
    }
    Py_XDECREF(lock);
    Py_XDECREF(pending);
    return done;
}

static PyObject *
sslsocket_write(PyObject *self, PyObject *data)
{
    PyObject *me, *connection, *number, *written = NULL;
    outcome done = BY_TWIN;
    long sends = 0;

    if (!frozen && IS(self, SSLSocket) && IS_A(self, Socket) && PyBytes_CheckExact(data) &&
        PyBytes_GET_SIZE(data) <= PIECE) {
        sends = sends_left(self);
        PyErr_Clear();
    }
    if (sends > 1) { /* else the turn's clock must be checked */
        number = PyLong_FromLong(sends - 1);
        me = number == NULL ? NULL : current();
        connection = me == NULL ? NULL : connection_of(self);
        if (connection != NULL) {
            done = write_at_once(self, me, connection, data, &written);
            Py_DECREF(connection);
        }
        if (done == BY_TWIN || number == NULL) {
            Py_XDECREF(number);
        }
        else {
            put(self, socket_sends_until_check, number);
        }
    }
    return done == BY_TWIN && !PyErr_Occurred() ? call_twin(TLS_WRITE, self, &data, 1, NULL) : written;
}
