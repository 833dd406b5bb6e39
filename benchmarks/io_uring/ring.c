/* A ring of io_uring for the benchmark: raw system calls, one submission each, completions announced by an eventfd.

A prototype: one OS thread uses a ring, operations are for regular files, and nothing handles a fork. The ring keeps the
buffers and paths of an operation until the kernel has completed it. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SUBMISSIONS 64
#define COMPLETIONS 4096
#define STATX_BYTES 256
#define STATX_BASIC 0x7ff
#define AWAITED (IORING_SQ_CQ_OVERFLOW | IORING_SQ_TASKRUN)

/* An operation under way: whose it is, and what the kernel reads from or writes to. */
typedef struct {
    PyObject *token, *data, *other;
    int opcode;
} operation;

typedef struct {
    PyObject_HEAD
    int fd, event;
    void *rings;
    size_t rings_size, sqes_size;
    struct io_uring_sqe *sqes;
    struct io_uring_cqe *cqes;
    _Atomic unsigned *sq_tail, *sq_flags, *cq_head, *cq_tail;
    unsigned sq_mask, cq_mask;
} ring;

static int
map_rings(ring *self, const struct io_uring_params *made)
{
    size_t sq = made->sq_off.array + made->sq_entries * sizeof(unsigned);
    size_t cq = made->cq_off.cqes + made->cq_entries * sizeof(struct io_uring_cqe);
    unsigned i, *array;
    char *at;

    self->rings_size = sq > cq ? sq : cq;
    self->sqes_size = made->sq_entries * sizeof(struct io_uring_sqe);
    self->rings = mmap(NULL, self->rings_size, PROT_READ | PROT_WRITE, MAP_SHARED, self->fd, IORING_OFF_SQ_RING);
    self->sqes = mmap(NULL, self->sqes_size, PROT_READ | PROT_WRITE, MAP_SHARED, self->fd, IORING_OFF_SQES);
    if (self->rings == MAP_FAILED || self->sqes == MAP_FAILED) {
        return -1;
    }
    at = self->rings;
    self->sq_tail = (_Atomic unsigned *)(at + made->sq_off.tail);
    self->sq_flags = (_Atomic unsigned *)(at + made->sq_off.flags);
    self->sq_mask = *(unsigned *)(at + made->sq_off.ring_mask);
    self->cq_head = (_Atomic unsigned *)(at + made->cq_off.head);
    self->cq_tail = (_Atomic unsigned *)(at + made->cq_off.tail);
    self->cq_mask = *(unsigned *)(at + made->cq_off.ring_mask);
    self->cqes = (struct io_uring_cqe *)(at + made->cq_off.cqes);
    array = (unsigned *)(at + made->sq_off.array);
    for (i = 0; i < made->sq_entries; i++) {
        array[i] = i;
    }
    return 0;
}

static PyObject *
ring_new(PyTypeObject *type, PyObject *Py_UNUSED(args), PyObject *Py_UNUSED(named))
{
    struct io_uring_params made = {.flags = IORING_SETUP_CQSIZE, .cq_entries = COMPLETIONS};
    ring *self = (ring *)type->tp_alloc(type, 0);

    if (self == NULL) {
        return NULL;
    }
    self->event = -1;
    self->rings = self->sqes = MAP_FAILED;
    self->fd = (int)syscall(SYS_io_uring_setup, SUBMISSIONS, &made);
    if (self->fd < 0 || map_rings(self, &made) < 0 || (self->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) < 0 ||
        syscall(SYS_io_uring_register, self->fd, IORING_REGISTER_EVENTFD, &self->event, 1) < 0) {
        PyErr_SetFromErrno(PyExc_OSError);
        Py_DECREF(self);
        return NULL;
    }
    return (PyObject *)self;
}

static void
ring_dealloc(ring *self)
{
    if (self->rings != MAP_FAILED) {
        munmap(self->rings, self->rings_size);
    }
    if (self->sqes != MAP_FAILED) {
        munmap(self->sqes, self->sqes_size);
    }
    if (self->fd >= 0) {
        close(self->fd);
    }
    if (self->event >= 0) {
        close(self->event);
    }
    Py_TYPE(self)->tp_free(self);
}

static void
drop(operation *of)
{
    Py_XDECREF(of->token);
    Py_XDECREF(of->data);
    Py_XDECREF(of->other);
    PyMem_Free(of);
}

/* What a completed operation has given: the bytes read, or a number; a negative one is an errno. */
static PyObject *
result_of(operation *of, int result)
{
    if (of->opcode == IORING_OP_READ && result >= 0) {
        if (result < PyBytes_GET_SIZE(of->data) && _PyBytes_Resize(&of->data, result) < 0) {
            return NULL;
        }
        return Py_NewRef(of->data);
    }
    return PyLong_FromLong(result);
}

static void *
address_of(PyObject *bytes)
{
    return bytes == NULL ? NULL : PyBytes_AS_STRING(bytes);
}

static void
fill_in(struct io_uring_sqe *entry, operation *of, int fd, unsigned length, long long offset, unsigned flags)
{
    memset(entry, 0, sizeof *entry);
    entry->opcode = (unsigned char)of->opcode;
    entry->fd = fd;
    entry->addr = (uintptr_t)address_of(of->data);
    entry->len = length;
    entry->off = of->other != NULL ? (uintptr_t)address_of(of->other) : (unsigned long long)offset;
    entry->rw_flags = (int)flags;
    entry->user_data = (uintptr_t)of;
}

/* The result, if the kernel had it within the call that submitted: then nobody needs to wait. */
static PyObject *
result_at_once(ring *self, operation *of)
{
    unsigned head = atomic_load(self->cq_head);
    struct io_uring_cqe *done = &self->cqes[head & self->cq_mask];
    PyObject *result;

    if (atomic_load(self->cq_tail) != head + 1 || done->user_data != (uintptr_t)of) {
        Py_RETURN_NONE;
    }
    result = result_of(of, done->res);
    atomic_store(self->cq_head, head + 1);
    drop(of);
    return result;
}

PyDoc_STRVAR(submit_doc,
"submit(token, opcode, fd, data, length, offset, other, flags)\n--\n\n"
"Submit an operation. Returns: its result if it is complete at once, else None: see reap().");

static PyObject *
ring_submit(ring *self, PyObject *args)
{
    PyObject *token, *data, *other;
    int opcode, fd;
    unsigned length, flags, tail;
    long long offset;
    operation *of;

    if (!PyArg_ParseTuple(args, "OiiOILOI", &token, &opcode, &fd, &data, &length, &offset, &other, &flags)) {
        return NULL;
    }
    of = PyMem_Calloc(1, sizeof *of);
    if (of == NULL) {
        return PyErr_NoMemory();
    }
    of->opcode = opcode;
    of->token = Py_NewRef(token);
    of->data = opcode == IORING_OP_READ ? PyBytes_FromStringAndSize(NULL, length) : data == Py_None ? NULL : Py_NewRef(data);
    of->other = opcode == IORING_OP_STATX ? PyBytes_FromStringAndSize(NULL, STATX_BYTES)
                                          : other == Py_None ? NULL : Py_NewRef(other);
    if (PyErr_Occurred()) {
        drop(of);
        return NULL;
    }
    tail = atomic_load(self->sq_tail);
    fill_in(&self->sqes[tail & self->sq_mask], of, fd, length, offset, flags);
    atomic_store(self->sq_tail, tail + 1);
    if (syscall(SYS_io_uring_enter, self->fd, 1, 0, 0, NULL, 0) != 1) {
        atomic_store(self->sq_tail, tail);
        drop(of);
        return PyErr_SetFromErrno(PyExc_OSError);
    }
    return result_at_once(self, of);
}

PyDoc_STRVAR(reap_doc, "reap()\n--\n\nReturn the token and the result of each completed operation.");

static PyObject *
ring_reap(ring *self, PyObject *Py_UNUSED(no))
{
    PyObject *found = PyList_New(0);

    while (found != NULL) {
        unsigned head = atomic_load(self->cq_head);
        struct io_uring_cqe *done = &self->cqes[head & self->cq_mask];
        operation *of;
        PyObject *pair;

        if (head == atomic_load(self->cq_tail)) {
            if (!(atomic_load(self->sq_flags) & AWAITED)) {
                break;
            }
            syscall(SYS_io_uring_enter, self->fd, 0, 0, IORING_ENTER_GETEVENTS, NULL, 0);
            continue;
        }
        of = (operation *)(uintptr_t)done->user_data;
        pair = Py_BuildValue("ON", of->token, result_of(of, done->res));
        atomic_store(self->cq_head, head + 1);
        drop(of);
        if (pair == NULL || PyList_Append(found, pair) < 0) {
            Py_CLEAR(found);
        }
        Py_XDECREF(pair);
    }
    return found;
}

static PyObject *
ring_event(ring *self, void *Py_UNUSED(closure))
{
    return PyLong_FromLong(self->event);
}

static PyMethodDef methods[] = {
    {"submit", (PyCFunction)ring_submit, METH_VARARGS, submit_doc},
    {"reap", (PyCFunction)ring_reap, METH_NOARGS, reap_doc},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef attributes[] = {{"event", (getter)ring_event, NULL, "The eventfd.", NULL}, {NULL, NULL, NULL, NULL, NULL}};

static PyTypeObject ring_type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "ring.Ring",
    .tp_basicsize = sizeof(ring),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = ring_new,
    .tp_dealloc = (destructor)ring_dealloc,
    .tp_methods = methods,
    .tp_getset = attributes,
};

static int
add_constants(PyObject *module)
{
    return PyModule_AddType(module, &ring_type) < 0 || PyModule_AddIntMacro(module, IORING_OP_READ) < 0 ||
                   PyModule_AddIntMacro(module, IORING_OP_WRITE) < 0 ||
                   PyModule_AddIntMacro(module, IORING_OP_FSYNC) < 0 ||
                   PyModule_AddIntMacro(module, IORING_OP_OPENAT) < 0 ||
                   PyModule_AddIntMacro(module, IORING_OP_CLOSE) < 0 ||
                   PyModule_AddIntMacro(module, IORING_OP_STATX) < 0 ||
                   PyModule_AddIntMacro(module, IORING_OP_RENAMEAT) < 0 ||
                   PyModule_AddIntConstant(module, "AT_FDCWD", AT_FDCWD) < 0 ||
                   PyModule_AddIntConstant(module, "STATX_BASIC", STATX_BASIC) < 0 ||
                   PyModule_AddIntMacro(module, IORING_FSYNC_DATASYNC) < 0
               ? -1
               : 0;
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, add_constants},
#ifdef Py_GIL_DISABLED /* a ring belongs to one OS thread */
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
    {0, NULL},
};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "ring", .m_size = 0, .m_methods = NULL, .m_slots = slots};

PyMODINIT_FUNC
PyInit_ring(void)
{
    return PyModuleDef_Init(&definition);
}
