/* The fast paths: compiled twins of the shortest ways through the kernel, the primitives and the sockets.

Python is the source of truth. Each function here has its twin of the same name in a Python module, which `twin()` gets
and keeps. A compiled function does the common case alone: the caller is a dhaga, nothing is pending, no listener takes
part. In every other case it has changed nothing yet, and calls its Python twin with the same arguments. So behaviour is
read, typed and stepped through in Python, and what a function here may leave out it leaves out by calling the twin.

How it sees Python objects: the classes stay Python classes with __slots__. Where a slot lies in an object is read once a
class, from its member descriptor (PyMemberDescrObject), and checked: a slot of a class that is not ours, or that is no
plain object slot, makes `twin()` raise, and Python runs. A slot is read and written only in an object whose type was
checked to be that class. A deque is used by its own methods, a list by PyList_*: nothing private of CPython is touched.
(Members of C types would be as quick for Python; greenlet's type is a C++ object that is not made to be extended in C.)

Atomic: between two calls into Python, and before the drop of a reference that may be the last one, no other OS thread
and no signal handler runs. What belongs together stands between two such places. They are marked CALLS.
A reference that is held in C is an owned one across each CALLS. After each CALLS all slots are read anew.

Invariants of Dhaga that are kept here, by their place:
- a wake counts once: who takes the waiter out of its ticket resumes it (take_waiter);
- value before append: once a waiter stands in a run queue, another OS thread may switch to it (resume);
- the scheduler's sleep: the run queue is appended to first, and `_asleep` is looked at then (resume);
- ownership is handed over before the wake (hand_over);
- look and change of a primitive are one step: no CALLS between (each function of lock, event, queue).

The rooms, in the folder fast_paths, are one translation unit: each uses those before it.
One interpreter: the twins, types and offsets are static. Another interpreter that imports this module is refused. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>

#include <greenlet.h>

#include <errno.h>
#include <math.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#ifdef __linux__
#include <sys/epoll.h>
#endif

#if PY_VERSION_HEX < 0x030B0000
#error "the fast paths are for CPython 3.11 and later"
#endif
#ifdef Py_GIL_DISABLED
#error "the fast paths rest on the interpreter lock"
#endif

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
#include "fast_paths/tls.h"

#define FAST METH_FASTCALL | METH_KEYWORDS
#define AS_FAST(function) ((PyCFunction)(void (*)(void))(function))

/* Each compiled function: the class and the name of its Python twin. A module's function has no class. */
static struct {
    class *owner;
    PyMethodDef method;
} compiled[FUNCTIONS] = {
    [SLEEP] = {NULL, {"sleep", AS_FAST(sleep_), FAST, NULL}},
    [PARK] = {&Scheduler, {"_park", scheduler__park, METH_O, NULL}},
    [PREPARE] = {&Dhaga, {"_prepare", AS_FAST(dhaga__prepare), FAST, NULL}},
    [PARK_UNTIL] = {&Dhaga, {"_park_until", dhaga__park_until, METH_O, NULL}},
    [RESUME] = {&Dhaga, {"_resume", AS_FAST(dhaga__resume), FAST, NULL}},
    [WAKE] = {&Dhaga, {"_wake", AS_FAST(dhaga__wake), FAST, NULL}},
    [WAIT_FOR_END] = {&Dhaga, {"_wait_for_end", dhaga__wait_for_end, METH_O, NULL}},
    [END] = {&Dhaga, {"_end", dhaga__end, METH_NOARGS, NULL}},
    [SET_UP] = {&Dhaga, {"_set_up", AS_FAST(dhaga__set_up), FAST, NULL}},
    [RUN] = {&Dhaga, {"run", AS_FAST(dhaga_run), FAST, NULL}},
    [ADMIT] = {&Scheduler, {"_admit", scheduler__admit, METH_O, NULL}},
    [TIMERS_ADD] = {&Timers, {"add", AS_FAST(timers_add), FAST, NULL}},
    [TIMERS_DISCARD] = {&Timers, {"discard", timers_discard, METH_O, NULL}},
    [FIRE] = {&Timers, {"fire", timers_fire, METH_O, NULL}},
    [EXPIRE] = {&Dhaga, {"_expire", dhaga__expire, METH_NOARGS, NULL}},
    [POLL] = {&Epoll, {"poll", epoll_poll, METH_NOARGS, NULL}},
    [WAIT] = {&WaitQueue, {"wait", AS_FAST(wait_queue_wait), FAST, NULL}},
    [WAKE_FIRST] = {&WaitQueue, {"wake_first", AS_FAST(wait_queue_wake_first), FAST, NULL}},
    [HAND_OVER_WAIT] = {&OwnedLock, {"_wait_for_hand_over", AS_FAST(ownedlock__wait_for_hand_over), FAST, NULL}},
    [LOCK_ACQUIRE] = {&Lock, {"acquire", AS_FAST(lock_acquire), FAST, NULL}},
    [LOCK_RELEASE] = {&Lock, {"release", AS_FAST(lock_release), FAST, NULL}},
    [LOCK_ENTER] = {&Lock, {"__enter__", lock___enter__, METH_NOARGS, NULL}},
    [RLOCK_ACQUIRE] = {&RLock, {"acquire", AS_FAST(rlock_acquire), FAST, NULL}},
    [RLOCK_RELEASE] = {&RLock, {"release", AS_FAST(rlock_release), FAST, NULL}},
    [RLOCK_ENTER] = {&RLock, {"__enter__", rlock___enter__, METH_NOARGS, NULL}},
    [EVENT_SET] = {&Event, {"set", event_set, METH_NOARGS, NULL}},
    [EVENT_WAIT] = {&Event, {"wait", AS_FAST(event_wait), FAST, NULL}},
    [SEMAPHORE_ACQUIRE] = {&Semaphore, {"acquire", AS_FAST(semaphore_acquire), FAST, NULL}},
    [SEMAPHORE_RELEASE] = {&Semaphore, {"release", AS_FAST(semaphore_release), FAST, NULL}},
    [SEMAPHORE_ENTER] = {&Semaphore, {"__enter__", semaphore___enter__, METH_NOARGS, NULL}},
    [SEMAPHORE_EXIT] = {&Semaphore, {"__exit__", AS_FAST(semaphore___exit__), FAST, NULL}},
    [BOUNDED_RELEASE] = {&BoundedSemaphore, {"release", AS_FAST(bounded_semaphore_release), FAST, NULL}},
    [QUEUE_PUT] = {&Queue, {"put", AS_FAST(queue_put), FAST, NULL}},
    [QUEUE_GET] = {&Queue, {"get", AS_FAST(queue_get), FAST, NULL}},
    [SIMPLE_QUEUE_PUT] = {&SimpleQueue, {"put", AS_FAST(simple_queue_put), FAST, NULL}},
    [SIMPLE_QUEUE_GET] = {&SimpleQueue, {"get", AS_FAST(simple_queue_get), FAST, NULL}},
    [SOCKET_RECV] = {&Socket, {"recv", AS_FAST(socket_recv), FAST, NULL}},
    [SOCKET_RECV_INTO] = {&Socket, {"recv_into", AS_FAST(socket_recv_into), FAST, NULL}},
    [SOCKET_SEND] = {&Socket, {"send", AS_FAST(socket_send), FAST, NULL}},
    [SOCKET_SENDALL] = {&Socket, {"sendall", AS_FAST(socket_sendall), FAST, NULL}},
    [TLS_RECV] = {&SSLSocket, {"recv", AS_FAST(sslsocket_recv), FAST, NULL}},
    [TLS_READ] = {&SSLSocket, {"read", AS_FAST(sslsocket_read), FAST, NULL}},
    [TLS_WRITE] = {&SSLSocket, {"write", sslsocket_write, METH_O, NULL}},
};

/* Find where the slots of a class lie, once. */
static int
bind_class(class *bound, PyTypeObject *type)
{
    const slot *each;

    if (bound->type == type) {
        return 0;
    }
    if (bound->type != NULL) {
        PyErr_Format(PyExc_TypeError, "there is a %s already", bound->name);
        return -1;
    }
    for (each = bound->slots; each != NULL && each->name != NULL; each++) {
        PyObject *found = PyObject_GetAttrString((PyObject *)type, each->name);
        PyMemberDef *member;
        if (found == NULL) {
            return -1;
        }
        if (!Py_IS_TYPE(found, &PyMemberDescr_Type) || !PyType_IsSubtype(type, ((PyDescrObject *)found)->d_type) ||
            (member = ((PyMemberDescrObject *)found)->d_member)->type != T_OBJECT_EX || member->flags != 0) {
            PyErr_Format(PyExc_TypeError, "%s.%s is no plain slot", bound->name, each->name);
            Py_DECREF(found);
            return -1;
        }
        *each->offset = member->offset;
        Py_DECREF(found);
    }
    bound->type = (PyTypeObject *)Py_NewRef(type);
    return 0;
}

PyDoc_STRVAR(layout_doc, "layout(class)\n--\n\nTake note of where the slots of one of Dhaga's classes lie.");

static PyObject *
layout(PyObject *Py_UNUSED(module), PyObject *type)
{
    class *const *each;

    if (PyType_Check(type)) {
        for (each = classes; *each != NULL; each++) {
            if (strcmp((*each)->name, ((PyTypeObject *)type)->tp_name) == 0) {
                if (bind_class(*each, (PyTypeObject *)type) < 0) {
                    return NULL;
                }
                Py_RETURN_NONE;
            }
        }
    }
    PyErr_Format(PyExc_TypeError, "%R is no class that the fast paths know", type);
    return NULL;
}

PyDoc_STRVAR(twin_doc,
             "twin(owner, name, function, doc)\n--\n\n"
             "Return the compiled twin of a Python function, which it calls wherever it has no fast path.\n\n"
             "owner: the function's class, or the name of its module. Raises: TypeError if there is none.");

static PyObject *
twin(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count)
{
    const char *name, *doc;
    char *kept;
    int i;

    if (count != 4 || !PyUnicode_Check(args[1]) || !PyCallable_Check(args[2]) || !PyUnicode_Check(args[3])) {
        PyErr_SetString(PyExc_TypeError, "twin() takes a class or a module's name, a name, a function and its doc");
        return NULL;
    }
    name = PyUnicode_AsUTF8(args[1]);
    doc = PyUnicode_AsUTF8(args[3]);
    if (name == NULL || doc == NULL) {
        return NULL;
    }
    for (i = 0; i < FUNCTIONS; i++) {
        class *owner = compiled[i].owner;
        if (strcmp(compiled[i].method.ml_name, name) != 0 || (owner == NULL) == PyType_Check(args[0]) ||
            (owner != NULL && strcmp(owner->name, ((PyTypeObject *)args[0])->tp_name) != 0)) {
            continue;
        }
        if (owner != NULL && bind_class(owner, (PyTypeObject *)args[0]) < 0) {
            return NULL;
        }
        if (python_twin[i] == NULL) {
            kept = PyMem_Malloc(strlen(doc) + 1); /* for as long as the process lives */
            if (kept == NULL) {
                return PyErr_NoMemory();
            }
            compiled[i].method.ml_doc = strcpy(kept, doc);
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
        (plain_fileno = imported("_socket", "socket", "fileno")) == NULL) {
        return -1;
    }
#ifdef __linux__
    epoll_type = (PyTypeObject *)imported("select", "epoll", NULL);
    if (epoll_type == NULL) {
        return -1;
    }
#endif
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
