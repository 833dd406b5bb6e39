/* Keep the frame chunks of ended greenlets for the next ones, in a bounded list.

CPython (3.11 and later) puts the frames of Python functions into chunks of 16 KB, the data stack of a thread state. It
gets them from the arena allocator. greenlet starts each greenlet with an empty data stack, and gives its chunk back at
its end: so each greenlet costs an mmap(), the page faults of fresh memory and a munmap(), 8 µs of the 9.5 that a bare
greenlet takes to be made, run and ended. This module stands in front of the arena allocator, by the public
PyObject_SetArenaAllocator(): a chunk that is freed goes into a list, the next request for one is served from it, and
every other size is passed through.

Who may call what, and when:
- alloc and free: any thread, of any interpreter, with or without an interpreter lock (a thread state may be deleted
  without it). So the state has a mutex of its own. It is a leaf: nothing is called while it is held.
- The state belongs to the process, as the arena allocator does. One interpreter installs it; a later install does
  nothing.
- fork(): the mutex is held across it, so the child finds the list whole and the mutex free. The kept chunks are the
  child's own, as all of its memory.
- Exit: the allocator stays installed and the chunks stay kept, as frames are pushed until the very end. CPython never
  unloads an extension module, so the functions stay where they are.

Invariants:
1. A chunk in the list was freed with the size CHUNK, came from `former`, and no other code holds it.
2. `kept` is the length of the list, and at most `cap`.
3. `former` and `cap` are written once, before any other thread can see these functions.

Another allocator may be installed after this one. If it passes on to this one, all goes on; if it does not, no further
call comes here: there is no gain, and `kept` chunks stay until give_back(). This module never installs itself twice: it
would then pass calls on to an allocator that passes them back.

A free-threaded build is refused: there, other threads allocate while install() replaces the allocator. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

#if PY_VERSION_HEX < 0x030B0000
#error "before CPython 3.11 there are no frame chunks"
#endif
#ifdef Py_GIL_DISABLED
#error "the frame chunks are not kept in a free-threaded build"
#endif

/* The first chunk of a data stack: DATA_STACK_CHUNK_SIZE in Python/pystate.c, the same in 3.11 to 3.15. A deep stack has
further ones, some of them larger. With another size no request would match, and none be kept. */
#define CHUNK ((size_t)16 * 1024)

/* A kept chunk: the list runs through the chunks themselves, whose content is dead. CPython expects no zeros in them. */
typedef struct kept_chunk {
    struct kept_chunk *next;
} kept_chunk;

static PyObjectArenaAllocator former;

static struct {
    pthread_mutex_t mutex;
    kept_chunk *list; /* the last one kept is taken first: its pages are the most likely to be in the cache */
    size_t kept;
    size_t cap;
    unsigned long long hits;
    unsigned long long misses;
} state = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* These cannot fail: the mutex is a plain one, is initialized, and no thread takes it twice. */
static void
lock_state(void)
{
    (void)pthread_mutex_lock(&state.mutex);
}

static void
unlock_state(void)
{
    (void)pthread_mutex_unlock(&state.mutex);
}

/* ---- the allocator */

static void *
chunk_alloc(void *Py_UNUSED(context), size_t size)
{
    kept_chunk *chunk = NULL;

    if (size == CHUNK) {
        lock_state();
        chunk = state.list;
        if (chunk != NULL) {
            state.list = chunk->next;
            state.kept--;
            state.hits++;
        }
        else {
            state.misses++;
        }
        unlock_state();
    }
    return chunk != NULL ? (void *)chunk : former.alloc(former.ctx, size);
}

static void
chunk_free(void *Py_UNUSED(context), void *address, size_t size)
{
    if (size == CHUNK && address != NULL) {
        int taken = 0;

        lock_state();
        if (state.kept < state.cap) {
            kept_chunk *chunk = address;
            chunk->next = state.list;
            state.list = chunk;
            state.kept++;
            taken = 1;
        }
        unlock_state();
        if (taken) {
            return;
        }
    }
    former.free(former.ctx, address, size);
}

/* ---- the module */

PyDoc_STRVAR(install_doc,
"install(cap, /)\n--\n\n"
"Stand in front of the arena allocator, and keep up to ``cap`` chunks.\n\n"
"Returns: whether this call did so; False if the process has it installed already, which then keeps its cap.");

static PyObject *
install(PyObject *Py_UNUSED(module), PyObject *argument)
{
    /* Not under the mutex: interpreters with locks of their own may come here at once, and a fork must not meet the
    mutex before its handlers are registered. */
    static atomic_flag installed = ATOMIC_FLAG_INIT;
    PyObjectArenaAllocator ours;
    Py_ssize_t cap = PyLong_AsSsize_t(argument);

    if (cap == -1 && PyErr_Occurred()) {
        return NULL;
    }
    if (cap < 0) {
        PyErr_SetString(PyExc_ValueError, "install(): the cap of kept chunks must not be negative");
        return NULL;
    }
    if (atomic_flag_test_and_set(&installed)) {
        Py_RETURN_FALSE;
    }
    if (pthread_atfork(lock_state, unlock_state, unlock_state) != 0) {
        atomic_flag_clear(&installed);
        return PyErr_NoMemory(); /* the only error that there is */
    }

    state.cap = (size_t)cap;
    PyObject_GetArenaAllocator(&former);
    /* An interpreter with a lock of its own, or a thread without any, may read CPython's three pointers while they are
    replaced one by one. So any mix of old and new must work: the context is the former one's, which these functions
    need not be given, and a chunk of one may be freed by the other (invariant 1). The fence keeps invariant 3. */
    ours.ctx = former.ctx;
    ours.alloc = chunk_alloc;
    ours.free = chunk_free;
    atomic_thread_fence(memory_order_seq_cst);
    PyObject_SetArenaAllocator(&ours);
    Py_RETURN_TRUE;
}

PyDoc_STRVAR(figures_doc,
"figures()\n--\n\n"
"Return (in front, kept, cap, hits, misses). From: any thread.\n\n"
"In front: installed, and no other allocator since. A hit is a request for a chunk that was served from the kept ones.");

static PyObject *
figures(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    PyObjectArenaAllocator current;
    size_t kept, cap;
    unsigned long long hits, misses;

    PyObject_GetArenaAllocator(&current);
    lock_state();
    kept = state.kept;
    cap = state.cap;
    hits = state.hits;
    misses = state.misses;
    unlock_state();
    return Py_BuildValue("NnnKK", PyBool_FromLong(current.alloc == chunk_alloc), (Py_ssize_t)kept, (Py_ssize_t)cap,
                         hits, misses);
}

PyDoc_STRVAR(give_back_doc,
"give_back()\n--\n\n"
"Free all kept chunks; those that greenlets use are kept again at their end. Returns: how many. From: any thread.");

static PyObject *
give_back(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    kept_chunk *chunk;
    Py_ssize_t count = 0;

    lock_state();
    chunk = state.list;
    state.list = NULL;
    state.kept = 0;
    unlock_state();

    while (chunk != NULL) {
        kept_chunk *next = chunk->next;
        former.free(former.ctx, chunk, CHUNK);
        chunk = next;
        count++;
    }
    return PyLong_FromSsize_t(count);
}

static PyMethodDef methods[] = {
    {"install", install, METH_O, install_doc},
    {"figures", figures, METH_NOARGS, figures_doc},
    {"give_back", give_back, METH_NOARGS, give_back_doc},
    {NULL, NULL, 0, NULL},
};

static int
add_constants(PyObject *module)
{
    return PyModule_AddIntConstant(module, "CHUNK_BYTES", (long)CHUNK);
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, add_constants},
#if PY_VERSION_HEX >= 0x030C0000
    {Py_mod_multiple_interpreters, Py_MOD_PER_INTERPRETER_GIL_SUPPORTED},
#endif
    {0, NULL},
};

PyDoc_STRVAR(module_doc, "Keep the frame chunks of ended greenlets for the next ones, in a bounded list.");

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_frame_chunks",
    .m_doc = module_doc,
    .m_size = 0,
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC
PyInit__frame_chunks(void)
{
    return PyModuleDef_Init(&definition);
}
