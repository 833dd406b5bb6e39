/* The macros that make a step atomic on free-threaded builds. With the interpreter lock, most of them expand to
nothing.

Without it, on a free-threaded build:
- A guard is held around each step in which a function checks and changes a primitive. The function's Python twin holds
  the same guard around its atomic lines: atomic_lines.py. An OS thread may acquire its guard again, because a finalizer
  may run within a step. The guard is released before a waiter is woken or parks, and never held across a switch.
- Other threads may read any slot, and write some slots. A slot is changed under the lock of its object, as in CPython.
  OWN takes a reference under that lock. SLOT borrows. Only three kinds of slots may be borrowed. This thread's
  scheduler, dhaga and timers have slots that no other thread changes. Some slots never change, such as `_waiters` of a
  lock. Other slots are changed only by a holder of the guard.
- A list of another thread is read under its lock: a ticket, the joiners.

BEGIN_STEP(object) … END_STEP(): the code in between runs under the lock of the object. A thread that blocks would lose
the lock, so this code must neither block nor call.
HOLD(object, slot): hold the guard in that slot until LET_GO() or the end of the block. STILL(condition): whether the
guard is one of ours and the condition holds under it. */

#ifndef Py_GIL_DISABLED

#define SLOT(object, offset) (*(PyObject **)((char *)(object) + (offset)))
#define SET(object, offset, value) (SLOT(object, offset) = (value))
#define BEGIN_STEP(object) {
#define END_STEP() }
#define OWN(reference) (reference)
#define DISOWN(reference) ((void)0)
#define HOLD(object, offset)
#define LET_GO() ((void)0)
#define STILL(condition) 1
#define IS_GUARDED(object, offset) 1
#define AND_GUARD
#define PASS_GUARD
#define LET_GO_PASSED() ((void)0)
#define FENCE() ((void)0)
#define LOST_RACE(item) 0

#else

#include "guard.h"

#define SLOT(object, offset) __atomic_load_n((PyObject **)((char *)(object) + (offset)), __ATOMIC_ACQUIRE)
#define SET(object, offset, value)                                                                                    \
    __atomic_store_n((PyObject **)((char *)(object) + (offset)), (value), __ATOMIC_RELEASE)
#define BEGIN_STEP(object)                                                                                             \
    {                                                                                                                  \
        PyCriticalSection section;                                                                                     \
        PyCriticalSection_Begin(&section, (PyObject *)(object));
#define END_STEP()                                                                                                     \
        PyCriticalSection_End(&section);                                                                               \
    }
#define OWN(reference) Py_XNewRef(reference)
#define DISOWN(reference) Py_XDECREF(reference)
#define HOLD(object, offset) __attribute__((cleanup(let_go))) guard *held = hold(SLOT(object, offset))
#define LET_GO() let_go(&held)
#define STILL(condition) (held != NULL && (condition))
#define IS_GUARDED(object, offset) (SLOT(object, offset) != NULL && Py_IS_TYPE(SLOT(object, offset), guard_type))
/* A guard that is passed to a function, and that the function releases. */
#define AND_GUARD , guard **held
#define PASS_GUARD , &held
#define LET_GO_PASSED() let_go(held)
/* Order a write before a later read. Another thread does the opposite: it writes the data read here, and then reads. */
#define FENCE() __atomic_thread_fence(__ATOMIC_SEQ_CST)

/* Whether there was no item left, because another thread has taken the last item since the check. */
#define LOST_RACE(item) ((item) == NULL && is_index_error())

static inline int
is_index_error(void)
{
    if (!PyErr_ExceptionMatches(PyExc_IndexError)) {
        return 0;
    }
    PyErr_Clear();
    return 1;
}

#endif

/* Return a new reference to the content of a slot that other threads may change; with the interpreter lock, a borrowed
reference. DISOWN gives up both kinds. */
static inline PyObject *
own_slot(PyObject *object, Py_ssize_t offset)
{
    PyObject *found;

#ifdef Py_GIL_DISABLED
    /* This read needs no lock, like CPython's own lookups. Only this thread frees the objects that it owns, and an
       immortal object is never freed. If another thread has just freed the object, its header may still be read. */
    found = SLOT(object, offset);
    if (found != NULL && (_Py_IsOwnedByCurrentThread(found) ||
                          (_Py_IsImmortal(found) && SLOT(object, offset) == found))) {
        return Py_NewRef(found);
    }
#endif
    BEGIN_STEP(object)
    found = OWN(SLOT(object, offset));
    END_STEP()
    return found;
}

/* A new reference to the content of a slot, on each build; NULL if the slot is empty. */
static inline PyObject *
new_ref_to_slot(PyObject *object, Py_ssize_t offset)
{
    PyObject *found = own_slot(object, offset), *owned = Py_XNewRef(found);

    DISOWN(found);
    return owned;
}

/* Put a new reference into a slot. Returns: the former one, now the caller's. */
static inline PyObject *
exchange(PyObject *object, Py_ssize_t offset, PyObject *value)
{
    PyObject *former;

#ifdef Py_GIL_DISABLED
    former = SLOT(object, offset);
    if (former != NULL && value != NULL && _Py_IsImmortal(former) && _Py_IsImmortal(value)) {
        SET(object, offset, value); /* no count changes, so no reader meets a freed object */
        return former;
    }
#endif
    BEGIN_STEP(object)
    former = SLOT(object, offset);
    SET(object, offset, value);
    END_STEP()
    return former;
}

/* Put a new reference into a slot. CALLS: the former content may be freed, so this comes last in a step. */
static inline void
put(PyObject *object, Py_ssize_t offset, PyObject *value)
{
    Py_XDECREF(exchange(object, offset, value));
}
