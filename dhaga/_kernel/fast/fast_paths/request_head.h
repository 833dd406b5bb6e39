/* The environ of a request whose fields equal those of the client's previous request. No code of the app runs here, and
nothing parks. Twins: RequestParser.head, ServerConnection.fill_environ. */

static const char VERSION_END[] = " HTTP/1.1\r\n";

typedef struct {
    Py_ssize_t target, path_end, target_end, end;
    PyObject *method; /* borrowed */
} request_line;

/* Parse the request line at the beginning of the data. Returns: whether the line matches ORDINARY_LINE of
request_parser.py, and has a path without escapes. */
static int
read_request_line(const char *data, Py_ssize_t size, request_line *line)
{
    Py_ssize_t i;

    if (size > 5 && memcmp(data, "GET /", 5) == 0) {
        line->target = 4;
        line->method = str_GET;
    }
    else if (size > 6 && memcmp(data, "HEAD /", 6) == 0) {
        line->target = 5;
        line->method = str_HEAD;
    }
    else {
        return 0;
    }
    line->path_end = 0;
    for (i = line->target; i < size && data[i] >= '!' && data[i] <= '~' && data[i] != '#'; i++) {
        if (line->path_end == 0 && data[i] == '%') {
            return 0;
        }
        if (line->path_end == 0 && data[i] == '?') {
            line->path_end = i;
        }
    }
    line->target_end = i;
    if (line->path_end == 0) {
        line->path_end = i;
    }
    line->end = i + (Py_ssize_t)strlen(VERSION_END);
    return line->end <= size && memcmp(data + i, VERSION_END, strlen(VERSION_END)) == 0;
}

/* Store a value in a dictionary, and release the reference to the value. Returns: 0 on an error, or if the value is
NULL. */
static int
add_key(PyObject *dict, PyObject *key, PyObject *value)
{
    int stored = value != NULL && PyDict_SetItem(dict, key, value) == 0;

    Py_XDECREF(value);
    return stored;
}

static PyObject *
text_of(const char *data, Py_ssize_t begin, Py_ssize_t end)
{
    return PyUnicode_DecodeLatin1(data + begin, end - begin, NULL);
}

/* Return a new environ: the server's keys (`base`), the known fields, and the keys of the request line. */
static PyObject *
environ_of(PyObject *base, PyObject *fields, const char *data, const request_line *line)
{
    PyObject *environ = PyDict_Copy(base), *target = text_of(data, line->target, line->target_end);
    Py_ssize_t query = line->path_end < line->target_end ? line->path_end + 1 : line->target_end;

    if (environ == NULL || target == NULL || PyDict_Update(environ, fields) < 0 ||
        !add_key(environ, str_REQUEST_METHOD, Py_NewRef(line->method)) ||
        !add_key(environ, str_SERVER_PROTOCOL, Py_NewRef(str_HTTP_1_1)) ||
        !add_key(environ, str_REQUEST_URI, Py_NewRef(target)) ||
        !add_key(environ, str_QUERY_STRING, text_of(data, query, line->target_end)) ||
        !add_key(environ, str_PATH_INFO,
               line->path_end == line->target_end ? Py_NewRef(target) : text_of(data, line->target, line->path_end))) {
        Py_CLEAR(environ);
    }
    Py_XDECREF(target);
    return environ;
}

/* Whether the data begins with an ordinary request line and the known fields, and their size is within the limit. */
static int
has_known_fields(PyObject *self, PyObject *data, PyObject *block, request_line *line)
{
    PyObject *limits = SLOT(self, parser_limits);
    Py_ssize_t size;
    long most;

    if (data == NULL || block == NULL || limits == NULL || !PyBytes_CheckExact(data) || !PyBytes_CheckExact(block) ||
        !IS(limits, Limits) || !read_number(limits, limits_line, &most)) {
        return 0;
    }
    size = PyBytes_GET_SIZE(block);
    return size > 0 && read_request_line(PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data), line) &&
           line->end + size <= PyBytes_GET_SIZE(data) && line->end + size <= most &&
           memcmp(PyBytes_AS_STRING(data) + line->end, PyBytes_AS_STRING(block), (size_t)size) == 0;
}

/* Remove a head from the buffer, and set the parser's state: a request without a body is complete. Returns: -1 on an
error. */
static int
take_head(PyObject *self, PyObject *data, Py_ssize_t end)
{
    PyObject *zero = PyLong_FromLong(0);
    PyObject *rest = PyBytes_FromStringAndSize(PyBytes_AS_STRING(data) + end, PyBytes_GET_SIZE(data) - end);

    if (zero == NULL || rest == NULL) {
        Py_XDECREF(zero);
        Py_XDECREF(rest);
        return -1;
    }
    put(self, parser_complete, Py_NewRef(Py_True));
    put(self, parser_persistent, Py_NewRef(Py_True));
    put(self, parser_expects_continue, Py_NewRef(Py_False));
    put(self, parser_line_valid, Py_NewRef(Py_False));
    put(self, parser_chunk_sizes, Py_NewRef(Py_None));
    put(self, parser_scanned, zero);
    put(self, parser_buffer, rest);
    return 0;
}

static PyObject *
request_parser_head(PyObject *self, PyObject *base)
{
    PyObject *data, *block, *fields, *environ = NULL;
    request_line line;
    int known;

    if (!IS(self, RequestParser) || !PyDict_CheckExact(base)) {
        return call_twin(REQUEST_HEAD, self, &base, 1, NULL);
    }
    data = new_ref_to_slot(self, parser_buffer);
    block = new_ref_to_slot(self, parser_known_block);
    fields = new_ref_to_slot(self, parser_known_fields);
    known = fields != NULL && PyDict_CheckExact(fields) && has_known_fields(self, data, block, &line);
    if (known) {
        environ = environ_of(base, fields, PyBytes_AS_STRING(data), &line);
        if (environ != NULL && take_head(self, data, line.end + PyBytes_GET_SIZE(block)) < 0) {
            Py_CLEAR(environ);
        }
    }
    Py_XDECREF(data);
    Py_XDECREF(block);
    Py_XDECREF(fields);
    return known ? environ : call_twin(REQUEST_HEAD, self, &base, 1, NULL);
}

static PyObject *
server_connection_fill_environ(PyObject *self, PyObject *environ)
{
    PyObject *peer = SLOT(self, connection_peer), *parser = SLOT(self, connection_parser), *zero;

    if (!IS(self, ServerConnection) || !PyDict_CheckExact(environ) || peer == NULL || !PyTuple_CheckExact(peer) ||
        PyTuple_GET_SIZE(peer) != 2 || parser == NULL || !IS(parser, RequestParser) ||
        SLOT(parser, parser_complete) != Py_True) {
        return call_twin(FILL_ENVIRON, self, &environ, 1, NULL);
    }
    zero = PyFloat_FromDouble(0.0);
    if (zero == NULL || !add_key(environ, str_REMOTE_ADDR, Py_NewRef(PyTuple_GET_ITEM(peer, 0))) ||
        !add_key(environ, str_REMOTE_PORT, Py_NewRef(PyTuple_GET_ITEM(peer, 1))) ||
        !add_key(environ, str_dhaga_disconnected, PyObject_GetAttr(self, str_disconnected)) ||
        !add_key(environ, str_wsgi_input, PyObject_CallNoArgs(bytes_io))) {
        Py_XDECREF(zero);
        return NULL;
    }
    put(self, connection_body_wait, zero);
    Py_RETURN_NONE;
}
