/* Guards: the re-entrant lock around an atomic step, on builds without the interpreter lock. See steps.h for its use.

A guard begins as a mutex with an owner and a depth. Most primitives stay within one OS thread, where the two atomic
operations of a mutex in each step are wasted. So a guard that one thread has acquired STREAK times in a row becomes
biased to that thread: from then on this thread only counts `busy` up and down. The first other thread that acquires the
guard takes the bias away, and the guard is a mutex for the rest of its life.

Why only one thread at a time is in a step:
- Only the biased thread writes `busy`, and only the holder of the mutex writes `bias`. The biased thread first writes
  `busy`, then reads `bias`; the other thread first writes `bias`, then reads `busy`. So one of the two must see the
  other's write, if neither processor delays its write past its read. The biased thread needs no fence at each
  acquisition. Instead, the other thread calls membarrier between its own write and its own read: the operating system
  then executes a fence in each running thread of this process.
- If the biased thread sees that it has lost the bias, it takes its count back and acquires the mutex. Otherwise the
  other thread sees the count in `busy`, and waits until `busy` is 0. This last read is an acquire load, so the other
  thread sees all that the biased thread wrote before its release.
- A bias from before a fork is void: its thread does not exist in the child, and a new thread may have the same
  identity. So a thread reads the epoch before the bias, and renew() writes the epoch last.
- A guard is biased at most once. So a late write to `busy` by the formerly biased thread is never mistaken for another
  thread's write.
- Within a step the biased thread may acquire the guard again (in a finalizer). Then `busy` is above 0 already, the
  other thread waits, and the bias does not matter.
- The other thread waits detached from the interpreter, so that the biased thread can collect garbage in its step.

Because of STREAK, no membarrier is spent on short-lived primitives and on those that pass from thread to thread.
tests/scenarios/test_memory_order.py runs this algorithm in every order that C11 allows.
Rejected: a bias from the start, because of these membarriers. Also rejected: a bias that can return, because each
period of bias would need its own count. */

#include <pthread.h>
#include <unistd.h>
#ifdef __linux__
#include <linux/membarrier.h>
#include <sys/syscall.h>
#endif

#define STREAK 100 /* a membarrier takes about as long as 100 acquisitions of a mutex */

/* The low bits of `bias`, which are 0 in the identity of a thread. */
#define CANDIDATE 1 /* the thread was the last to acquire the mutex */
#define REVOKED 2   /* the thread was biased, and may still be in a step */

typedef struct {
    PyObject_HEAD
    PyMutex mutex;       /* a thread that waits for it does not stop a collection */
    unsigned short runs; /* the candidate's acquisitions of the mutex in a row */
    unsigned int epoch;  /* of the last acquisition of the mutex */
    unsigned int depth;  /* how often the mutex's owner holds it */
    unsigned int busy;   /* how often the biased thread holds it */
    uintptr_t owner;     /* the OS thread that has the mutex; 0: none */
    uintptr_t bias;      /* an OS thread, perhaps with one of the bits above; 0: none */
} guard;

static PyTypeObject *guard_type;

#define LOAD(place) __atomic_load_n(&(place), __ATOMIC_RELAXED)
#define STORE(place, value) __atomic_store_n(&(place), (value), __ATOMIC_RELAXED)
#define LOAD_ACQUIRE(place) __atomic_load_n(&(place), __ATOMIC_ACQUIRE)
#define STORE_RELEASE(place, value) __atomic_store_n(&(place), (value), __ATOMIC_RELEASE)

/* ---- forks: in the child all other threads are gone, and a guard that one of them held is free */

static unsigned int epoch = 1; /* counted up in each child */
static uintptr_t survivor;     /* the thread that has forked; new threads may have identities of the others */
static PyMutex renewing;
static int can_bias;

static void
register_barriers(void)
{
#ifdef __linux__
    can_bias = syscall(__NR_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
#endif
}

static void
begin_epoch(void)
{
    epoch++;
    survivor = _Py_ThreadId();
    renewing = (PyMutex){0};
    register_barriers();
}

/* Free a guard that another thread held at a fork, or whose bias another thread was taking away. */
static void
renew(guard *self)
{
    PyMutex_Lock(&renewing);
    if (self->epoch != epoch) {
        if (LOAD(self->owner) != survivor) {
            self->mutex = (PyMutex){0};
            self->depth = 0;
            STORE(self->owner, 0);
        }
        if ((LOAD(self->bias) & ~(uintptr_t)REVOKED) != survivor) {
            STORE(self->bias, 0);
            STORE(self->busy, 0);
        }
        STORE_RELEASE(self->epoch, epoch);
    }
    PyMutex_Unlock(&renewing);
}

/* ---- the bias */

/* Make each running thread of this process finish its earlier writes before its later reads. */
static void
fence_all_threads(void)
{
#ifdef __linux__
    if (syscall(__NR_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0) {
        return;
    }
#endif
    usleep(1000); /* if a sandbox forbids the call: a processor finishes a write in less than a microsecond */
}

/* Take the bias from another thread, and wait until that thread has ended its step. From: the holder of the mutex. */
static void
take_bias(guard *self)
{
    PyThreadState *detached;

    STORE(self->bias, LOAD(self->bias) | REVOKED);
    fence_all_threads();
    if (LOAD_ACQUIRE(self->busy) == 0) {
        return;
    }
    detached = PyEval_SaveThread();
    while (LOAD_ACQUIRE(self->busy) != 0) {
        usleep(20);
    }
    PyEval_RestoreThread(detached);
}

/* Whether the biased thread `me` is in a step. */
static inline int
is_within(guard *self, uintptr_t me)
{
    return (LOAD(self->bias) & ~(uintptr_t)REVOKED) == me && LOAD(self->busy) > 0;
}

/* ---- acquire and release */

static void
acquire_mutex(guard *self, uintptr_t me)
{
    uintptr_t bias;

    if (LOAD_ACQUIRE(self->epoch) != epoch) { /* so that the thread does not meet an owner from before the fork */
        renew(self);
    }
    if (LOAD(self->owner) == me) { /* only this thread sets `owner` to `me` */
        self->depth++;
        return;
    }
    if (is_within(self, me)) {
        STORE(self->busy, self->busy + 1);
        return;
    }
    PyMutex_Lock(&self->mutex);
    STORE(self->owner, me);
    self->depth = 1;
    bias = LOAD(self->bias);
    if (bias != 0 && !(bias & (CANDIDATE | REVOKED))) {
        take_bias(self);
    }
    else if (!(bias & REVOKED) && bias != (me | CANDIDATE)) {
        STORE(self->bias, me | CANDIDATE);
        self->runs = 0;
    }
}

static inline void
acquire_guard(guard *self)
{
    uintptr_t me = _Py_ThreadId();
    unsigned int busy;

    if (LOAD_ACQUIRE(self->epoch) == epoch && LOAD(self->bias) == me) {
        busy = LOAD(self->busy);
        STORE(self->busy, busy + 1);
        __atomic_signal_fence(__ATOMIC_SEQ_CST); /* a fence for the compiler; for the processor: fence_all_threads() */
        if (busy > 0 || LOAD(self->bias) == me) {
            return;
        }
        STORE_RELEASE(self->busy, 0);
    }
    acquire_mutex(self, me);
}

static inline void
release_guard(guard *self)
{
    uintptr_t me = _Py_ThreadId();

    if (LOAD(self->owner) != me) {
        STORE_RELEASE(self->busy, LOAD(self->busy) - 1);
    }
    else if (--self->depth == 0) {
        if (LOAD(self->bias) == (me | CANDIDATE) && ++self->runs >= STREAK && can_bias) {
            STORE(self->bias, me);
        }
        STORE(self->owner, 0);
        PyMutex_Unlock(&self->mutex);
    }
}

/* Acquire a guard and return it. Returns: NULL for another type, such as the RLock of an object that was made before
the import of this module. */
static inline guard *
hold(PyObject *found)
{
    if (found == NULL || !Py_IS_TYPE(found, guard_type)) {
        return NULL;
    }
    acquire_guard((guard *)found);
    return (guard *)found;
}

static inline void
let_go(guard **held)
{
    guard *self = *held;

    if (self != NULL) {
        *held = NULL;
        release_guard(self);
    }
}

/* ---- the type */

static PyObject *
guard___enter__(PyObject *self, PyObject *Py_UNUSED(no))
{
    acquire_guard((guard *)self);
    Py_RETURN_NONE;
}

static PyObject *
guard___exit__(PyObject *self, PyObject *const *Py_UNUSED(args), Py_ssize_t Py_UNUSED(count))
{
    uintptr_t me = _Py_ThreadId();

    if (LOAD(((guard *)self)->owner) != me && !is_within((guard *)self, me)) {
        PyErr_SetString(PyExc_RuntimeError, "this thread does not hold the guard");
        return NULL;
    }
    release_guard((guard *)self);
    Py_RETURN_NONE;
}

static PyObject *
guard_new(PyTypeObject *type, PyObject *args, PyObject *names)
{
    PyObject *self;

    if (PyTuple_GET_SIZE(args) > 0 || (names != NULL && PyDict_GET_SIZE(names) > 0)) {
        PyErr_SetString(PyExc_TypeError, "Guard() takes no arguments");
        return NULL;
    }
    self = type->tp_alloc(type, 0);
    if (self != NULL) {
        ((guard *)self)->epoch = epoch;
    }
    return self;
}

static void
guard_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);

    type->tp_free(self);
    Py_DECREF(type);
}

static PyObject *
guard___repr__(PyObject *self)
{
    guard *it = (guard *)self;
    uintptr_t bias = LOAD(it->bias);
    int biased = bias != 0 && !(bias & (CANDIDATE | REVOKED)), held = LOAD(it->owner) != 0 || LOAD(it->busy) > 0;

    return PyUnicode_FromFormat("<Guard %s, %s>", held ? "held" : "free", biased ? "biased" : "a mutex");
}

static PyMethodDef guard_methods[] = {
    {"__enter__", guard___enter__, METH_NOARGS, "Acquire the guard, once more if this OS thread holds it."},
    {"__exit__", (PyCFunction)(void (*)(void))guard___exit__, METH_FASTCALL, "Undo one acquisition."},
    {NULL, NULL, 0, NULL},
};

PyDoc_STRVAR(guard_doc, "Guard()\n--\n\nA lock around atomic lines, which its OS thread may take again.\n\n"
             "In the child of a fork a guard that another thread held is free.");

static PyType_Slot guard_slots[] = {
    {Py_tp_new, guard_new},
    {Py_tp_dealloc, guard_dealloc},
    {Py_tp_repr, guard___repr__},
    {Py_tp_methods, guard_methods},
    {Py_tp_doc, (void *)guard_doc},
    {0, NULL},
};

static PyType_Spec guard_spec = {
    .name = "dhaga._kernel.fast._fast_paths.Guard",
    .basicsize = sizeof(guard),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = guard_slots,
};

/* Make the type, once. Returns: -1 on an error. */
static int
add_guard_type(PyObject *module)
{
    guard_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &guard_spec, NULL);
    if (guard_type == NULL || PyModule_AddType(module, guard_type) < 0) {
        return -1;
    }
    register_barriers();
    if (pthread_atfork(NULL, NULL, begin_epoch) != 0) {
        (void)PyErr_NoMemory();
        return -1;
    }
    return 0;
}
