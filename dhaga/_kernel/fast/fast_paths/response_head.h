/* The head of a response: `start` for a status and fields that equal those in ServerFields.known_start, and `head` for
the responses that is_ordinary_head() accepts. No code of the app runs here, and nothing parks. Twins: Response.start
and head. */

/* Whether two objects are equal and of exactly the type str: a subclass may have its own comparison. */
static inline int
is_same_text(PyObject *one, PyObject *other)
{
    return PyUnicode_CheckExact(one) && PyUnicode_CheckExact(other) &&
           (one == other ||
            (PyUnicode_GET_LENGTH(one) == PyUnicode_GET_LENGTH(other) && PyUnicode_KIND(one) == PyUnicode_KIND(other) &&
             memcmp(PyUnicode_DATA(one), PyUnicode_DATA(other),
                    (size_t)PyUnicode_GET_LENGTH(one) * PyUnicode_KIND(one)) == 0));
}

/* Whether two objects are lists of equal pairs of str. */
static int
are_same_fields(PyObject *one, PyObject *other)
{
    Py_ssize_t i;
    int same = PyList_CheckExact(one) && PyList_CheckExact(other);

    BEGIN_STEP(one)
    same = same && PyList_GET_SIZE(one) == PyList_GET_SIZE(other);
    for (i = 0; same && i < PyList_GET_SIZE(one); i++) {
        PyObject *here = PyList_GET_ITEM(one, i), *there = PyList_GET_ITEM(other, i);
        same = PyTuple_CheckExact(here) && PyTuple_CheckExact(there) && PyTuple_GET_SIZE(here) == 2 &&
               PyTuple_GET_SIZE(there) == 2 && is_same_text(PyTuple_GET_ITEM(here, 0), PyTuple_GET_ITEM(there, 0)) &&
               is_same_text(PyTuple_GET_ITEM(here, 1), PyTuple_GET_ITEM(there, 1));
    }
    END_STEP()
    return same;
}

/* The ServerFields of a connection, borrowed, because the connection keeps a reference. Returns: NULL if the sink is no
ServerConnection. */
static PyObject *
server_fields_of(PyObject *sink)
{
    PyObject *fields;

    if (sink == NULL || !IS(sink, ServerConnection)) {
        return NULL;
    }
    fields = SLOT(sink, connection_server_fields);
    return fields != NULL && IS(fields, ServerFields) ? fields : NULL;
}

/* If the status and fields equal those of `known`, set the attributes of the response. Returns: the method write; NULL
without an error if the status or the fields differ. */
static PyObject *
known_start(PyObject *self, PyObject *known, PyObject *status, PyObject *fields)
{
    PyObject *write, *nothing;

    if (known == NULL || !PyTuple_CheckExact(known) || PyTuple_GET_SIZE(known) != 4 ||
        !is_same_text(status, PyTuple_GET_ITEM(known, 0)) || !are_same_fields(fields, PyTuple_GET_ITEM(known, 1))) {
        return NULL;
    }
    write = PyObject_GetAttr(self, str_write);
    nothing = PyTuple_New(0);
    if (write == NULL || nothing == NULL) {
        Py_XDECREF(write);
        Py_XDECREF(nothing);
        return NULL;
    }
    put(self, response_lines, Py_NewRef(PyTuple_GET_ITEM(known, 2)));
    put(self, response_length, Py_NewRef(PyTuple_GET_ITEM(known, 3)));
    put(self, response_app_fields, nothing);
    put(self, response_status, Py_NewRef(status));
    return write;
}

static PyObject *
response_start(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    PyObject *sink, *fields, *known, *write = NULL;

    if (names == NULL && count == 2 && IS(self, Response) && SLOT(self, response_status) == str_nothing &&
        SLOT(self, response_sent) == Py_False) {
        sink = new_ref_to_slot(self, response_sink);
        fields = server_fields_of(sink);
        known = fields == NULL ? NULL : new_ref_to_slot(fields, fields_known_start);
        write = known_start(self, known, args[0], args[1]);
        Py_XDECREF(known);
        Py_XDECREF(sink);
    }
    return write != NULL || PyErr_Occurred() ? write : call_twin(RESPONSE_START, self, args, count, names);
}

/* Whether keeps_alive() of timed_transfers.py would return True. Returns: -1 on an error. */
static int
stays_open(PyObject *sink)
{
    PyObject *parser = SLOT(sink, connection_parser), *server = SLOT(sink, connection_server), *stopping;

    if (parser == NULL || !IS(parser, RequestParser) || SLOT(parser, parser_persistent) != Py_True ||
        SLOT(parser, parser_expects_continue) != Py_False || SLOT(parser, parser_error) != Py_None ||
        SLOT(sink, connection_closing) != Py_False || server == NULL) {
        return 0;
    }
    stopping = PyObject_GetAttr(server, str_stopping);
    Py_XDECREF(stopping);
    return stopping == NULL ? -1 : stopping == Py_False;
}

/* Whether the Date line was made in the current second. Returns: -1 on an error. */
static int
is_same_second(PyObject *fields)
{
    PyObject *clock = PyObject_GetAttr(time_module, str_time), *now, *until;
    int same = -1;

    now = clock == NULL ? NULL : PyObject_CallNoArgs(clock);
    Py_XDECREF(clock);
    if (now == NULL) {
        return -1;
    }
    until = own_slot(fields, fields_until);
    same = until != NULL && PyFloat_CheckExact(until) && PyFloat_CheckExact(now) &&
           PyFloat_AS_DOUBLE(now) < PyFloat_AS_DOUBLE(until) &&
           PyFloat_AS_DOUBLE(now) >= PyFloat_AS_DOUBLE(until) - 1;
    DISOWN(until);
    Py_DECREF(now);
    return same;
}

static inline int
is_latin(PyObject *text)
{
    return text != NULL && PyUnicode_CheckExact(text) && PyUnicode_KIND(text) == PyUnicode_1BYTE_KIND;
}

/* Whether a response with this status may have a body. */
static inline int
has_body(PyObject *status)
{
    const char *digits;

    if (!is_latin(status) || PyUnicode_GET_LENGTH(status) < 3) {
        return 0;
    }
    digits = PyUnicode_DATA(status);
    return memcmp(digits, "204", 3) != 0 && memcmp(digits, "205", 3) != 0 && memcmp(digits, "304", 3) != 0;
}

/* Whether C makes this head: the version is HTTP/1.1, the status allows a body, the app sets none of Date, Server and
Set-Cookie, the connection stays open, and the Date line is current. Returns: -1 on an error. */
static int
is_ordinary_head(PyObject *self, PyObject *sink)
{
    PyObject *version = SLOT(self, response_version), *fields = SLOT(self, response_app_fields);
    PyObject *server_fields = server_fields_of(sink);
    int ordinary;

    if (!IS(self, Response) || server_fields == NULL || version == NULL || !is_same_text(version, str_HTTP_1_1) ||
        !has_body(SLOT(self, response_status)) || fields == NULL ||
        !(PyTuple_CheckExact(fields) || PyList_CheckExact(fields)) || Py_SIZE(fields) != 0) {
        return 0;
    }
    ordinary = stays_open(sink);
    return ordinary > 0 ? is_same_second(server_fields) : ordinary;
}

/* Join the app's lines, the server's lines, the line of the framing, and an empty line. */
static PyObject *
joined_lines(PyObject *lines, PyObject *more, const char *framing)
{
    Py_ssize_t first, second, third = (Py_ssize_t)strlen(framing);
    PyObject *head;
    char *at;

    first = PyUnicode_GET_LENGTH(lines);
    second = PyUnicode_GET_LENGTH(more);
    head = PyBytes_FromStringAndSize(NULL, first + second + third + 2);
    if (head != NULL) {
        at = PyBytes_AS_STRING(head);
        memcpy(at, PyUnicode_DATA(lines), (size_t)first);
        memcpy(at + first, PyUnicode_DATA(more), (size_t)second);
        memcpy(at + first + second, framing, (size_t)third);
        memcpy(at + first + second + third, "\r\n", 2);
    }
    return head;
}

/* Make a head, and set the framing. `length`: the body's Content-Length, or -1 if the length is unknown. `number`: the
length as a Python object. Returns: NULL without an error if the Python twin must make the head. */
static PyObject *
ordinary_head(PyObject *self, PyObject *sink, PyObject *number, long length, int whole)
{
    PyObject *lines = new_ref_to_slot(self, response_lines), *more, *head = NULL;
    int chunked = length < 0 && SLOT(self, response_bodiless) == Py_False;
    char framing[64] = "";

    more = new_ref_to_slot(server_fields_of(sink), fields_both_fields);
    if (is_latin(lines) && is_latin(more)) {
        if (whole && length >= 0) {
            PyOS_snprintf(framing, sizeof framing, "Content-Length: %ld\r\n", length);
        }
        head = joined_lines(lines, more, chunked ? "Transfer-Encoding: chunked\r\n" : framing);
    }
    Py_XDECREF(lines);
    Py_XDECREF(more);
    if (head != NULL && chunked) {
        put(self, response_chunked, Py_NewRef(Py_True));
    }
    else if (head != NULL && length >= 0) {
        put(self, response_remaining, Py_NewRef(number));
    }
    return head;
}

/* Read the arguments of Response.head into `length` (-1 for None) and `whole`. Returns: 0 for unusual arguments. */
static int
read_length(PyObject *const *args, Py_ssize_t count, PyObject *names, long *length, int *whole)
{
    int is_named = names != NULL && PyTuple_GET_SIZE(names) == 1 && PyTuple_GET_ITEM(names, 0) == str_whole, too_large;

    if (names == NULL ? count != 1 && count != 2 : !is_named || count != 1) {
        return 0;
    }
    if (is_named || count == 2) {
        *whole = args[1] == Py_True;
        if (!PyBool_Check(args[1])) {
            return 0;
        }
    }
    if (args[0] == Py_None) {
        *length = -1;
        return 1;
    }
    *length = PyLong_CheckExact(args[0]) ? PyLong_AsLongAndOverflow(args[0], &too_large) : -1;
    return *length >= 0;
}

static PyObject *
response_head(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    PyObject *sink, *head = NULL;
    long length;
    int whole = 0;

    if (read_length(args, count, names, &length, &whole)) {
        sink = new_ref_to_slot(self, response_sink);
        if (is_ordinary_head(self, sink) > 0) {
            head = ordinary_head(self, sink, args[0], length, whole);
        }
        Py_XDECREF(sink);
    }
    return head != NULL || PyErr_Occurred() ? head : call_twin(RESPONSE_HEAD, self, args, count, names);
}
