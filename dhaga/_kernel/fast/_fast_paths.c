/* The fast paths: compiled twins of Python functions of the kernel, the primitives and the sockets.

Python is the source of truth. Each compiled function has a Python twin of the same name, which `twin()` receives and
keeps; fast_paths/compiled_functions.h lists the functions. A compiled function handles only the common case: the caller
is a dhaga, no error is pending, and no hook or trace function changes the call. In every other case, the function calls
its Python twin with the same arguments; changes made before that call do not disturb the twin. So readers, type
checkers and debuggers use the Python functions, and the rare cases exist only in Python.

Access to Python objects: the classes stay Python classes with __slots__. The offset of a slot is read once per class,
from its member descriptor (PyMemberDescrObject), and checked. If the descriptor belongs to a foreign class, or its slot
does not hold a plain object, `twin()` and `layout()` raise TypeError. A slot is read and written only in an object
whose class was checked. A deque is used through its own methods, a list through PyList_*. Only free-threaded builds
need private functions of CPython.
Rejected: classes written in C. Python reads their members no faster than slots, and greenlet's type, a C++ object, is
not made for subclasses in C.

Atomic steps: other OS threads and signal handlers run only at two kinds of places: a call into Python, and the drop of
a reference that may be the last one. Changes that belong together are made between two such places. Functions that
contain such a place are marked CALLS. At such a place C holds only owned references, and afterwards all slots are read
again. On free-threaded builds other OS threads run at any time. On these builds the macros of fast_paths/steps.h make a
step atomic. With the interpreter lock these macros have no effect.

Invariants of Dhaga, each with the C function that keeps it:
- a wake counts once: the waker that takes the waiter out of its ticket resumes the waiter (take_waiter);
- value before append: once a waiter is in a run queue, another OS thread may switch to it (resume);
- the scheduler's sleep: append to the run queue first, then check `asleep` (resume);
- ownership is handed over before the wake (hand_over);
- the check of a primitive and its change are one step, without CALLS in between (all functions of lock, event, queue).

The files of the folder fast_paths are one translation unit: each file uses the files included before it.
One interpreter: the twins, types and offsets are static. An import in another interpreter is refused. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>

#include <greenlet.h>

#include <errno.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#ifdef __linux__
#include <sys/epoll.h>
#endif

#if PY_VERSION_HEX < 0x030B0000
#error "the fast paths are for CPython 3.11 and later"
#endif

#include "fast_paths/steps.h"
#include "fast_paths/classes.h"
#include "fast_paths/wake.h"
#include "fast_paths/epoll.h"
#include "fast_paths/park.h"
#include "fast_paths/timers.h"
#include "fast_paths/join.h"
#include "fast_paths/spawn.h"
#include "fast_paths/wait_queue.h"
#include "fast_paths/lock.h"
#include "fast_paths/event.h"
#include "fast_paths/semaphore.h"
#include "fast_paths/queue.h"
#include "fast_paths/simple_queue.h"
#include "fast_paths/socket.h"
#include "fast_paths/socket_send.h"
#include "fast_paths/tls.h"
#include "fast_paths/caller.h"
#include "fast_paths/idle_timer.h"
#include "fast_paths/request_head.h"
#include "fast_paths/response_head.h"

#define AS_FAST(function) ((PyCFunction)(void (*)(void))(function))
#define ANY(function) AS_FAST(function), METH_FASTCALL | METH_KEYWORDS
#define ONE(function) function, METH_O
#define NONE(function) function, METH_NOARGS

static struct {
    known_class *owner; /* NULL for a function of a module */
    const char *module;
    PyMethodDef method;
    PyObject *name; /* owned, interned; NULL until bound */
} compiled[FUNCTIONS] = {
#define COMPILED(constant, class, name, function) [constant] = {class, NULL, {name, function, NULL}},
#define COMPILED_FUNCTION(constant, module, name, function) [constant] = {NULL, module, {name, function, NULL}},
#include "fast_paths/compiled_functions.h"
};

/* Whether a compiled method of a class or its bases is in its place: no program has replaced it. */
static int
is_in_place(known_class *known, int i)
{
    PyTypeObject *owner = compiled[i].owner == NULL ? NULL : compiled[i].owner->type;
    PyObject *own;
    int in_place;

    if (compiled[i].name == NULL || owner == NULL || !PyType_IsSubtype(known->type, owner)) {
        return 1;
    }
    own = value_of(owner->tp_dict, compiled[i].name);
    in_place = own != NULL && Py_IS_TYPE(own, &PyMethodDescr_Type) &&
               ((PyMethodDescrObject *)own)->d_method == &compiled[i].method &&
               (known->overridden >> i & 1 || in_class(known->type, compiled[i].name) == own);
    Py_XDECREF(own);
    return in_place;
}

/* Whether all compiled methods of a class and its bases are in their places. If so, record the class's version before
the check. */
static int
is_unpatched(known_class *known)
{
    PyObject *looked_up = PyObject_GetAttrString((PyObject *)known->type, "__slots__"); /* gives it a version */
    unsigned int version = known->type->tp_version_tag;
    int i;

    if (looked_up == NULL) {
        PyErr_Clear();
    }
    Py_XDECREF(looked_up);
    for (i = 0; i < FUNCTIONS; i++) {
        if (!is_in_place(known, i)) {
            return 0;
        }
    }
    known->version = version != 0 ? version : NO_VERSION;
    return 1;
}

/* Find the record of a class by the names of its module and itself. Returns: NULL, with an error, if there is no
   record. */
static known_class *
known_as(PyObject *type)
{
    PyObject *module = PyObject_GetAttrString(type, "__module__");
    PyObject *name = module == NULL ? NULL : PyObject_GetAttrString(type, "__qualname__");
    known_class *const *each, *found = NULL;

    if (name != NULL && PyType_Check(type) && PyUnicode_Check(module) && PyUnicode_Check(name)) {
        for (each = classes; *each != NULL && found == NULL; each++) {
            found = PyUnicode_CompareWithASCIIString(name, (*each)->name) == 0 &&
                            PyUnicode_CompareWithASCIIString(module, (*each)->module) == 0
                        ? *each
                        : NULL;
        }
    }
    Py_XDECREF(module);
    Py_XDECREF(name);
    if (found == NULL && !PyErr_Occurred()) {
        PyErr_Format(PyExc_TypeError, "%R is no class that the fast paths know", type);
    }
    return found;
}

/* Find the offsets of a class's slots, once. A second class with these names comes from a reload of its module. It
stays pure Python, because objects of the first class live on. Returns: 1 if the class is the first; -1 on an error. */
static int
bind_class(known_class *bound, PyTypeObject *type)
{
    int i;

    if (bound->type != NULL) {
        return bound->type == type;
    }
    for (i = 0; i < FUNCTIONS; i++) { /* the bases' methods, which were bound before */
        if (compiled[i].name != NULL && compiled[i].owner != NULL && PyType_IsSubtype(type, compiled[i].owner->type) &&
            in_class(type, compiled[i].name) !=
                PyDict_GetItemWithError(compiled[i].owner->type->tp_dict, compiled[i].name)) {
            bound->overridden |= (uint64_t)1 << i;
        }
    }
    for (i = 0; known_slots[i].owner != NULL; i++) {
        PyObject *found;
        PyMemberDef *member;
        if (known_slots[i].owner != bound) {
            continue;
        }
        found = PyObject_GetAttrString((PyObject *)type, known_slots[i].name);
        if (found == NULL) {
            return -1;
        }
        if (!Py_IS_TYPE(found, &PyMemberDescr_Type) || !PyType_IsSubtype(type, ((PyDescrObject *)found)->d_type) ||
            (member = ((PyMemberDescrObject *)found)->d_member)->type != T_OBJECT_EX || member->flags != 0) {
            PyErr_Format(PyExc_TypeError, "%s.%s is not a plain slot", bound->name, known_slots[i].name);
            Py_DECREF(found);
            return -1;
        }
        *known_slots[i].offset = member->offset;
        Py_DECREF(found);
    }
    bound->type = (PyTypeObject *)Py_NewRef(type);
    return 1;
}

PyDoc_STRVAR(layout_doc, "layout(class)\n--\n\nTake note of where the slots of one of Dhaga's classes lie.");

static PyObject *
layout(PyObject *Py_UNUSED(module), PyObject *type)
{
    known_class *known = known_as(type);

    if (known == NULL || bind_class(known, (PyTypeObject *)type) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

PyDoc_STRVAR(twin_doc,
             "twin(owner, name, function, doc)\n--\n\n"
             "Return the compiled twin of a Python function, which it calls wherever it has no fast path.\n\n"
             "owner: the function's class, or the name of its module. Where that was loaded anew, the function itself is\n"
             "returned. Raises: TypeError if there is none.");

static PyObject *
twin(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count)
{
    known_class *owner = NULL;
    const char *name, *doc;
    char *kept;
    int i, first = 1;

    if (count != 4 || !(PyType_Check(args[0]) || PyUnicode_Check(args[0])) || !PyUnicode_Check(args[1]) || !PyCallable_Check(args[2]) || !PyUnicode_Check(args[3])) {
        PyErr_SetString(PyExc_TypeError, "twin() takes a class or a module's name, a name, a function and its doc");
        return NULL;
    }
    name = PyUnicode_AsUTF8(args[1]);
    doc = PyUnicode_AsUTF8(args[3]);
    if (name == NULL || doc == NULL) {
        return NULL;
    }
    if (PyType_Check(args[0]) && (owner = known_as(args[0])) == NULL) {
        return NULL;
    }
    for (i = 0; i < FUNCTIONS; i++) {
        if (compiled[i].owner != owner || strcmp(compiled[i].method.ml_name, name) != 0 ||
            (owner == NULL && PyUnicode_CompareWithASCIIString(args[0], compiled[i].module) != 0)) {
            continue;
        }
        if (owner != NULL && (first = bind_class(owner, (PyTypeObject *)args[0])) < 0) {
            return NULL;
        }
        if (!first || (owner == NULL && python_twin[i] != NULL && python_twin[i] != args[2])) {
            return Py_NewRef(args[2]);
        }
        if (python_twin[i] == NULL) {
            kept = PyMem_Malloc(strlen(doc) + 1); /* never freed */
            if (kept == NULL) {
                return PyErr_NoMemory();
            }
            compiled[i].method.ml_doc = strcpy(kept, doc);
            compiled[i].name = Py_NewRef(args[1]);
            PyUnicode_InternInPlace(&compiled[i].name);
            python_twin[i] = Py_NewRef(args[2]);
        }
        else if (python_twin[i] != args[2]) {
            break;
        }
        return owner == NULL ? PyCFunction_NewEx(&compiled[i].method, NULL, args[0])
                             : PyDescr_NewMethod(owner->type, &compiled[i].method);
    }
    PyErr_Format(PyExc_TypeError, "there is no compiled twin of %R, or it is another function's", args[2]);
    return NULL;
}

PyDoc_STRVAR(freeze_doc, "freeze()\n--\n\nCall the Python twins from now on, as getcurrent() is about to fail.");

static PyObject *
freeze(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(no))
{
    frozen = 1;
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"layout", layout, METH_O, layout_doc},
    {"twin", AS_FAST(twin), METH_FASTCALL, twin_doc},
    {"freeze", freeze, METH_NOARGS, freeze_doc},
    {NULL, NULL, 0, NULL},
};

static int
start(PyObject *module)
{
    PyObject *hooks_module;
    size_t i;

    if (PyModule_AddIntConstant(module, "TOLERATED", TOLERATED) < 0 ||
        PyModule_AddIntConstant(module, "FIRED_AT_ONCE", FIRED_AT_ONCE) < 0 ||
        PyModule_AddIntConstant(module, "NORMAL", PLACE_OF_NORMAL) < 0 ||
        PyModule_AddIntConstant(module, "READ", DIRECTION_READ) < 0 ||
        PyModule_AddIntConstant(module, "WRITE", DIRECTION_WRITE) < 0 ||
        PyModule_AddIntConstant(module, "RECORD", RECORD) < 0 || PyModule_AddIntConstant(module, "PIECE", PIECE) < 0) {
        return -1;
    }
    if (PyInterpreterState_Get() != PyInterpreterState_Main() || hooks != NULL) {
        PyErr_SetString(PyExc_ImportError, "the fast paths run in the main interpreter alone, and once");
        return -1;
    }
    PyGreenlet_Import();
    if (_PyGreenlet_API == NULL) {
        return -1;
    }
#ifdef Py_GIL_DISABLED
    if (add_guard_type(module) < 0) {
        return -1;
    }
#endif
    for (i = 0; strings[i].string != NULL; i++) {
        *strings[i].string = PyUnicode_InternFromString(strings[i].text);
        if (*strings[i].string == NULL) {
            return -1;
        }
    }
    if ((deque_type = (PyTypeObject *)imported("collections", "deque", NULL)) == NULL ||
        (deque_append = imported("collections", "deque", "append")) == NULL ||
        (deque_popleft = imported("collections", "deque", "popleft")) == NULL ||
        (never = PyFloat_FromDouble(0.0)) == NULL ||
        (heappush = imported("heapq", "heappush", NULL)) == NULL ||
        (heappop = imported("heapq", "heappop", NULL)) == NULL ||
        (empty = imported("_queue", "Empty", NULL)) == NULL ||
        (bytes_io = imported("_io", "BytesIO", NULL)) == NULL ||
        (time_module = PyImport_ImportModule("time")) == NULL ||
        (plain_fileno = imported("_socket", "socket", "fileno")) == NULL) {
        return -1;
    }
    /* None if the platform has no epoll. Then no object is of this type, so Epoll.poll always calls its Python twin. */
    if ((epoll_type = (PyTypeObject *)imported("dhaga._kernel.originals", "epoll", NULL)) == NULL) {
        return -1;
    }
    hooks_module = PyImport_ImportModule("dhaga._kernel.hooks");
    if (hooks_module == NULL) {
        return -1;
    }
    hooks = Py_NewRef(PyModule_GetDict(hooks_module));
    Py_DECREF(hooks_module);
    return 0;
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, start},
#if PY_VERSION_HEX >= 0x030C0000
    {Py_mod_multiple_interpreters, Py_MOD_MULTIPLE_INTERPRETERS_NOT_SUPPORTED},
#endif
#ifdef Py_GIL_DISABLED
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
    {0, NULL},
};

PyDoc_STRVAR(module_doc, "Compiled twins of the shortest ways through the kernel and the primitives.");

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_fast_paths",
    .m_doc = module_doc,
    .m_size = 0,
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC
PyInit__fast_paths(void)
{
    return PyModuleDef_Init(&definition);
}
