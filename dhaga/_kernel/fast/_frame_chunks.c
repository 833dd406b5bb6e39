/* Keep the frame chunks of ended greenlets for the next ones, in a bounded list of each OS thread.

CPython (3.11 and later) puts the frames of Python functions into chunks of 16 KB, the data stack of a thread state. The
arena allocator supplies the chunks. greenlet starts each greenlet with an empty data stack, and frees the greenlet's
chunk at its end. So each greenlet costs an mmap(), the page faults of fresh memory and a munmap(): 8 µs of the 9.5 µs
that a bare greenlet takes from its creation to its end. This module is installed in front of the arena allocator, with
the public PyObject_SetArenaAllocator(). A freed chunk goes into a list, which serves the next request for a chunk.
Requests of all other sizes are passed on.

Each OS thread has its own list (in a `keeper`), so that no thread waits for another thread. A chunk goes into the list
of the thread that frees it. The price: chunks that a thread keeps serve no other thread, even if the first thread
starts no more greenlets. Rejected: one list under a mutex. With the interpreter lock, such a list takes as many
instructions as the separate lists. Without that lock, threads would wait for the mutex.

Above the cap, freed chunks are emptied on Linux: see emptied_chunks.h.

When, and in which threads, the functions run:
- alloc and free: in any thread of any interpreter, with or without an interpreter lock (a thread state may be deleted
  without the lock). These functions touch only the calling thread's keeper. Only a thread's first call takes the mutex,
  to register the keeper.
- The allocator belongs to the process. The first call of install() installs the allocator; later calls, in any
  interpreter, do nothing. An OS thread that runs several interpreters has one keeper for all of them.
- A thread's end: the destructor of a thread-specific key frees the thread's list. A chunk that a later destructor frees
  goes to the former allocator. The keeper is on the heap, because macOS frees thread-local variables before the
  destructor runs.
- fork(): the forking thread holds the mutex, so the child finds an intact registry. The other threads do not exist in
  the child, which frees their lists.
- Exit: the allocator stays installed and the chunks stay kept, because frames are pushed until the very end. CPython
  never unloads an extension module, so the functions stay where they are.

Invariants:
1. A kept or emptied chunk came from `former`, was freed with the size CHUNK, and is held by no other code.
2. `kept` is the length of `list`, at most `cap`. `emptied` is the number of addresses in all `pages`.
3. `former`, `cap`, `page_size` and `end_of_thread` are written once, before any other thread can see these functions.
4. Only its own thread writes a keeper, except for registry links. The figures are atomic (relaxed) for other readers.

Another allocator may be installed after this one. If that allocator passes calls on to this one, chunks are kept as
before. Otherwise no further call comes here, and kept chunks stay until give_back(). This module never installs itself
twice, because the two allocators would then pass each call to each other without end. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#ifdef __linux__
#include <sys/mman.h>
#include <unistd.h>
#endif

#if PY_VERSION_HEX < 0x030B0000
#error "before CPython 3.11 there are no frame chunks"
#endif

/* The first chunk of a data stack: DATA_STACK_CHUNK_SIZE in Python/pystate.c, the same in 3.11 to 3.15. A deep stack
has further chunks, some of them larger. If CPython used another size, no chunk would be kept. */
#define CHUNK ((size_t)16 * 1024)

/* A kept chunk. Its first bytes, which are unused, link the list. CPython does not expect zeros in a chunk. */
typedef struct kept_chunk {
    struct kept_chunk *next;
} kept_chunk;

/* The number of addresses in an address_page, which fills a memory page. Emptied chunks have no memory for a list. */
#define ADDRESSES 510

typedef struct address_page {
    struct address_page *next;
    size_t count; /* 1 or more while the page is in the list */
    void *addresses[ADDRESSES];
} address_page;

/* The kept and the emptied chunks of an OS thread. */
typedef struct keeper {
    kept_chunk *list; /* the chunk kept last is taken first: its pages are the most likely to be in the cache */
    address_page *pages;
    _Atomic size_t kept, emptied, hits, misses;
    struct keeper *next, **former_next; /* in the registry */
} keeper;

static PyObjectArenaAllocator former;
static size_t cap;
static size_t page_size; /* 0 if no chunk is emptied: a chunk is less than a page, or the system is not Linux */
static pthread_key_t end_of_thread;

/* The keeper of this thread: NULL before its first chunk. */
static _Thread_local keeper *own;
static keeper ended; /* stands for the keeper of a thread that is about to end */

/* The mutex guards the keepers of all threads and the figures of ended threads. No thread waits while it holds the
mutex; only the child of a fork calls `former` with the mutex held. */
static pthread_mutex_t registry = PTHREAD_MUTEX_INITIALIZER;
static keeper *keepers;
static size_t ended_hits, ended_misses;

/* These cannot fail: the mutex is a plain one, is initialized, and no thread takes it twice. */
static void
lock_registry(void)
{
    (void)pthread_mutex_lock(&registry);
}

static void
unlock_registry(void)
{
    (void)pthread_mutex_unlock(&registry);
}

static inline size_t
read_figure(_Atomic size_t *figure)
{
    return atomic_load_explicit(figure, memory_order_relaxed);
}

/* From: the keeper's thread. So an atomic addition, which would cost as much as a mutex, is not needed. */
static inline void
count(_Atomic size_t *figure, size_t more)
{
    atomic_store_explicit(figure, read_figure(figure) + more, memory_order_relaxed);
}

/* ---- keepers */

/* Free all chunks of a list. Returns: the number of these chunks. */
static size_t
free_list(keeper *of)
{
    kept_chunk *chunk = of->list;
    size_t freed = 0;

    of->list = NULL;
    atomic_store_explicit(&of->kept, 0, memory_order_relaxed);
    while (chunk != NULL) {
        kept_chunk *next = chunk->next;
        former.free(former.ctx, chunk, CHUNK);
        chunk = next;
        freed++;
    }
    return freed;
}

#include "emptied_chunks.h"

/* Remove a keeper from the registry. The caller holds the mutex. */
static void
forget(keeper *gone)
{
    ended_hits += read_figure(&gone->hits);
    ended_misses += read_figure(&gone->misses);
    *gone->former_next = gone->next;
    if (gone->next != NULL) {
        gone->next->former_next = gone->former_next;
    }
}

/* The destructor of the key. */
static void
end_thread(void *of)
{
    own = &ended;
    free_list(of);
    free_addresses(of);
    lock_registry();
    forget(of);
    unlock_registry();
    free(of);
}

/* Make the keeper of this thread. Returns: NULL without memory, or at the end of the thread. */
static keeper *
make_keeper(void)
{
    keeper *made = own == &ended ? NULL : calloc(1, sizeof(keeper));

    if (made == NULL) {
        return NULL;
    }
    if (pthread_setspecific(end_of_thread, made) != 0) {
        free(made);
        return NULL;
    }
    lock_registry();
    made->next = keepers;
    made->former_next = &keepers;
    if (keepers != NULL) {
        keepers->former_next = &made->next;
    }
    keepers = made;
    unlock_registry();
    return own = made;
}

static inline keeper *
own_keeper(void)
{
    keeper *found = own;
    return found != NULL && found != &ended ? found : make_keeper();
}

/* In the child of a fork, free the lists of all other threads, which do not exist there. */
static void
go_on_in_child(void)
{
    keeper *each = keepers, *next;

    for (; each != NULL; each = next) {
        next = each->next;
        if (each != own) {
            free_list(each);
            free_addresses(each);
            forget(each);
            free(each);
        }
    }
    unlock_registry();
}

/* ---- the allocator */

static void *
chunk_alloc(void *Py_UNUSED(context), size_t size)
{
    keeper *mine = size == CHUNK ? own_keeper() : NULL;

    if (mine != NULL) {
        kept_chunk *chunk = mine->list;
        if (chunk != NULL) {
            mine->list = chunk->next;
            count(&mine->kept, (size_t)-1);
            count(&mine->hits, 1);
            return chunk;
        }
        count(&mine->misses, 1);
        chunk = take_address(mine);
        if (chunk != NULL) {
            return chunk;
        }
    }
    return former.alloc(former.ctx, size);
}

static void
chunk_free(void *Py_UNUSED(context), void *address, size_t size)
{
    keeper *mine = size == CHUNK && address != NULL ? own_keeper() : NULL;

    if (mine != NULL && read_figure(&mine->kept) < cap) {
        kept_chunk *chunk = address;
        chunk->next = mine->list;
        atomic_thread_fence(memory_order_release); /* so that a fork in another thread copies an intact list */
        mine->list = chunk;
        count(&mine->kept, 1);
        return;
    }
    if (mine == NULL || !empty_chunk(mine, address)) {
        former.free(former.ctx, address, size);
    }
}

/* ---- the module */

PyDoc_STRVAR(install_doc,
"install(cap, /)\n--\n\n"
"Stand in front of the arena allocator, and keep up to ``cap`` chunks of each OS thread.\n\n"
"Returns: whether this call did so; False if the process has it installed already, which then keeps its cap.");

static PyObject *
install(PyObject *Py_UNUSED(module), PyObject *argument)
{
    /* A flag is needed, because interpreters with their own locks may call this function at the same time. It is not
    the mutex, because no fork may find the mutex held before the fork handlers are registered. */
    static atomic_flag installed = ATOMIC_FLAG_INIT;
    PyObjectArenaAllocator ours;
    Py_ssize_t most = PyLong_AsSsize_t(argument);

    if (most == -1 && PyErr_Occurred()) {
        return NULL;
    }
    if (most < 0) {
        PyErr_SetString(PyExc_ValueError, "install(): the cap of kept chunks must not be negative");
        return NULL;
    }
    if (atomic_flag_test_and_set(&installed)) {
        Py_RETURN_FALSE;
    }
    if (pthread_key_create(&end_of_thread, end_thread) != 0) {
        atomic_flag_clear(&installed);
        PyErr_SetString(PyExc_ImportError, "the process has no thread-specific key left for the frame chunks");
        return NULL;
    }
    if (pthread_atfork(lock_registry, unlock_registry, go_on_in_child) != 0) {
        (void)pthread_key_delete(end_of_thread);
        atomic_flag_clear(&installed);
        return PyErr_NoMemory(); /* the only error that there is */
    }

    cap = (size_t)most;
#ifdef __linux__
    page_size = (size_t)sysconf(_SC_PAGESIZE);
    page_size = CHUNK % page_size == 0 ? page_size : 0;
#endif
    PyObject_GetArenaAllocator(&former);
    /* CPython replaces the three pointers of an allocator one by one. Meanwhile a thread without this interpreter's
    lock may read some old and some new pointers. Any such mix works: the context stays the same, and each allocator may
    free the other's chunks (invariant 1). The fence keeps invariant 3. */
    ours.ctx = former.ctx;
    ours.alloc = chunk_alloc;
    ours.free = chunk_free;
    atomic_thread_fence(memory_order_seq_cst);
    PyObject_SetArenaAllocator(&ours);
    Py_RETURN_TRUE;
}

PyDoc_STRVAR(figures_doc,
"figures()\n--\n\n"
"Return (in front, kept, cap, hits, misses, emptied), of all OS threads together. From: any thread.\n\n"
"In front: installed, and no other allocator since. A hit is a request for a chunk that was served from the kept ones.");

static PyObject *
figures(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    PyObjectArenaAllocator current;
    size_t kept = 0, emptied = 0, hits, misses;
    keeper *each;

    PyObject_GetArenaAllocator(&current);
    lock_registry();
    hits = ended_hits;
    misses = ended_misses;
    for (each = keepers; each != NULL; each = each->next) {
        kept += read_figure(&each->kept);
        emptied += read_figure(&each->emptied);
        hits += read_figure(&each->hits);
        misses += read_figure(&each->misses);
    }
    unlock_registry();
    return Py_BuildValue("Nnnnnn", PyBool_FromLong(current.alloc == chunk_alloc), (Py_ssize_t)kept, (Py_ssize_t)cap,
                         (Py_ssize_t)hits, (Py_ssize_t)misses, (Py_ssize_t)emptied);
}

PyDoc_STRVAR(give_back_doc,
"give_back()\n--\n\n"
"Free the kept and the emptied chunks of the calling OS thread; those that greenlets use are kept again at their end.\n\n"
"Returns: how many kept ones.");

static PyObject *
give_back(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    keeper *mine = own;

    if (mine == NULL) {
        return PyLong_FromLong(0);
    }
    free_addresses(mine);
    return PyLong_FromSize_t(free_list(mine));
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
#if PY_VERSION_HEX >= 0x030D0000
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
    {0, NULL},
};

PyDoc_STRVAR(module_doc, "Keep the frame chunks of ended greenlets for the next ones, in a bounded list of each OS thread.");

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
