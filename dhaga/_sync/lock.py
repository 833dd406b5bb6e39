"""Lock and RLock, handed over to waiters in FIFO order, and an explanation of the atomic lines of all primitives.

A lock is free (``_holder`` is None) or held. ``release`` does not free the lock if there are waiters: it makes the
first waiter the holder and wakes this waiter. So a woken waiter need not check the lock again, and no later caller
overtakes it. Dhagas of any scheduler and plain OS threads may use these locks. No inner lock guards the state: a caller
that finds the lock held joins ``_waiters`` and then checks ``_holder`` a second time (``_hand_over_if_free``). The
second check closes the race with a release in another OS thread that saw an empty queue.

**Atomic lines.** CPython switches OS threads, and runs signal handlers and finalizers, only at the start of a function,
at a backward jump and after a call. So a line without a call is atomic, for example ``if self._holder is None:
self._holder = me``. A line with one call is also atomic, if the call is the last step and calls a C function. Such
lines are tagged ``# atomic`` in all modules of primitives, and ``tests/_kernel/test_atomic_lines.py`` checks their
bytecode. Operations that belong together are on one line, because a debugger's trace function runs between two lines.
``# fmt: skip`` keeps the formatter from splitting the line. On a free-threaded build, each atomic line runs under a
guard (``atomic_lines.py``).

Rejected: a token that callers take out of a deque. Taking the token is also atomic, but ``with lock`` takes 30 %
longer. Rejected: an inner OS lock, because it takes 94 ns to acquire and release.
"""

from __future__ import annotations

from typing import Any

from greenlet import getcurrent, greenlet

from .._kernel import originals
from .._kernel.errors import ParkError
from .._kernel.faces.arguments import check_acquire_timeout
from .._kernel.faces.foreign_names import refuse_async_with
from .._kernel.faces.stdlib_face import refuse_copy
from .._kernel.fast.compiled import compiled
from .._kernel.interpreter.guards import Guarded
from .._kernel.run.call_outs import calls_out
from .._kernel.run.preemption import found_nothing, overlong
from .._kernel.wait.current import on_event_loop, this_waiter
from .._kernel.wait.inner_waiter import FirstInQueue
from .._kernel.wait.wait_graph import name_of
from .._kernel.wait.wait_queue import WaitQueue
from .._kernel.wait.waiter import TIMED_OUT
from .mutex import RETRY_SECONDS

LOOP_PATIENCE = 0.5
"""The longest time, in seconds, that a caller on the event loop blocks while another OS thread holds the lock."""


class OwnedLock(Guarded):
    """Base class of Lock and RLock: one holder at a time, and the hand-over to the first waiter.

    ``_holder`` is a dhaga, or the greenlet of a caller that is not a dhaga. After a hand-over to such a caller,
    ``_holder`` is the caller's waiter.
    """

    __slots__ = ("__weakref__", "_holder", "_waiters")

    __getstate__: Any = refuse_copy

    def __init__(self) -> None:
        self._holder: Any = None
        self._waiters = WaitQueue(self, "lock.acquire")

    @calls_out
    def locked(self) -> bool:
        """Return whether the lock is held."""
        if overlong and self._holder is not None:
            found_nothing()
        return self._holder is not None

    def _holders(self) -> list[object]:
        return [] if self._holder is None else [self._holder]

    @compiled
    def _wait_for_hand_over(self, timeout: float | None) -> bool:
        """Park until the lock is handed over. Returns: False after ``timeout`` seconds."""
        caller: Any = getcurrent()
        try:
            me = this_waiter()
        except ParkError:
            acquired = self._acquire_on_loop(timeout) if on_event_loop() else None
            if acquired is None:
                raise
            return acquired
        waiters = self._waiters
        me.prepare_park(waiters.reason, waiters)
        if me is not caller and isinstance(me, FirstInQueue):
            me.join_lock(waiters)
        else:
            me.arrival = waiters.epoch
            waiters.append(me.parked)
        # Check again: a release in another OS thread may have seen the queue empty just before the append.
        if self._holder is None:
            self._hand_over_if_free()
        return me.park_within(timeout) is not TIMED_OUT

    def _acquire_on_loop(self, timeout: float | None) -> bool | None:
        """Acquire the lock on the event loop, if the holder is in another OS thread and releases the lock soon.

        Returns: False after ``timeout`` seconds; None if the holder can only run in this OS thread, or keeps the lock
        for ``LOOP_PATIENCE``.
        """
        me = getcurrent()
        patience = LOOP_PATIENCE if timeout is None else min(timeout, LOOP_PATIENCE)
        deadline = originals.monotonic() + patience
        while not is_in_this_thread(self._holder):
            if self._holder is None: self._holder = me; return True  # atomic  # fmt: skip
            if originals.monotonic() >= deadline:
                return False if patience == timeout else None
            originals.thread_sleep(RETRY_SECONDS)
        return None

    def _hand_over_if_free(self) -> None:
        """If the lock is free, hand it to the first waiter."""
        while self._waiters:
            # Until the hand-over, the lock itself is the holder, so no other caller can take the lock.
            if self._holder is None: self._holder = self  # atomic  # fmt: skip
            else:
                return  # the holder's release serves the waiters
            if self._hand_over():
                return
            self._holder = None

    def _unlock(self) -> None:
        """Free the lock after all waiters have left. Then serve a waiter that has queued up in the meantime."""
        # Free the lock before the check: a caller that has queued up since the last pop found the lock held, so this
        # release must serve the caller.
        self._holder = None
        self._hand_over_if_free()

    def _hand_over(self) -> bool:
        """Make the first waiter the holder and wake it. Returns: False if all waiters have left."""
        while self._waiters:
            try:
                waiter = self._waiters.popleft().pop()
            except IndexError:  # the waiter has left, or another OS thread took the last ticket
                continue
            # Set the holder before the wake: a woken waiter in another OS thread may run and release at once.
            self._holder = waiter
            # The value tells a forked child which lock it must take back.
            waiter.deliver_wake(self)
            return True
        return False

    def _reacquire(self, arrival: int | None = None) -> None:
        """Acquire the lock in spite of timeouts and cancels, which must be raised with the lock held again.

        ``arrival``: the number of the caller's arrival at a condition. The caller queues up before all waiters that
        arrived later. None: the caller queues up at the end.
        """
        me = getcurrent()
        if self._holder is None: self._holder = me  # atomic  # fmt: skip
        else:
            self._waiters.wait_uncancellable(self._hand_over_if_free, arrival)

    def _restore(self, saved: Any) -> None:
        """Restore the state that ``_release_save`` has returned before the wait."""

    def _take_back_from_(self, waiter: object) -> None:
        """In a forked child, free the lock if it was handed to a waiter that never runs in the child."""
        if self._holder is waiter: self._holder = None  # atomic  # fmt: skip

    def _at_fork_reinit(self) -> None:
        # The holder and the waiters exist only in the parent process.
        self.__init__()  # type: ignore[misc]


@refuse_async_with("async with asyncio.Lock")
class Lock(OwnedLock):
    """A mutual exclusion lock. Source: ``threading.Lock``; the repr also names the holder.

    >>> lock = Lock()
    >>> with lock: print(lock.locked(), lock.acquire(blocking=False))
    True False
    """

    __slots__ = ()

    def __repr__(self) -> str:
        held = "unlocked" if self._holder is None else f"held by {name_of(self._holder)}"
        return f"<Lock {held}, {self._waiters.parked()} parked>"

    @compiled
    @calls_out
    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Acquire the lock. Parks: while the lock is held (``lock.acquire``). Returns: whether it was acquired."""
        wait = None if timeout == -1 else check_acquire_timeout(blocking, timeout)
        me = getcurrent()
        if self._holder is None: self._holder = me; return True  # atomic  # fmt: skip
        if blocking and wait != 0:
            return self._wait_for_hand_over(wait)
        if overlong:
            found_nothing()
        return False

    @compiled  # in C only for a held lock
    def release(self, kind: object = None, error: object = None, trace: object = None) -> None:
        """Hand the lock to the first waiter, or free it. From: any thread. Raises: RuntimeError if the lock is free."""
        # Check and release are in one line: a waiter that queued up in between would not be woken.
        if self._holder is not None and not self._waiters: self._holder = None; return  # atomic  # fmt: skip
        if self._holder is None:
            raise RuntimeError("release unlocked lock")
        if not self._hand_over():
            self._unlock()

    @compiled
    def __enter__(self) -> bool:
        me = getcurrent()
        if self._holder is None: self._holder = me; return True  # atomic  # fmt: skip
        return self._wait_for_hand_over(None)

    # release() accepts the arguments of __exit__(), so a `with` block needs one call less.
    __exit__ = release
    # Old method names of _thread.lock, which programs still call.
    acquire_lock: Any = acquire
    release_lock: Any = release
    locked_lock: Any = OwnedLock.locked

    # ---- the protocol by which Condition releases and retakes a lock

    def _is_owned(self) -> bool:
        # As with the standard Lock, any thread may release the lock, so Condition can only check that the lock is held.
        return self._holder is not None

    def _release_save(self) -> None:
        self.release()

    def _acquire_restore(self, state: Any) -> None:
        self._reacquire()


@refuse_async_with("async with asyncio.Lock")
class RLock(OwnedLock):
    """A lock that its holder may acquire again. Source: ``threading.RLock``; holders are dhagas and plain OS threads.

    >>> lock = RLock()
    >>> with lock, lock: print(lock.locked(), lock.acquire())
    True True
    >>> lock.release()
    """

    __slots__ = ("_count",)

    def __init__(self) -> None:
        super().__init__()
        self._count = 0

    def __repr__(self) -> str:
        held = "unlocked" if self._holder is None else f"held by {name_of(self._holder)} {self._count} times"
        return f"<RLock {held}, {self._waiters.parked()} parked>"

    @compiled  # in C only without arguments, for a lock that is free or held by the caller
    @calls_out
    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Acquire the lock, or acquire it again. Parks: while another caller holds the lock (``lock.acquire``)."""
        wait = None if timeout == -1 else check_acquire_timeout(blocking, timeout)
        me = getcurrent()
        # Only the holder changes the count, so these lines need not be atomic.
        if self._holder is me:
            self._count += 1
            return True
        if self._holder is None: self._holder = me  # atomic  # fmt: skip
        elif not isinstance(self._holder, greenlet) and was_handed_to(self, me):
            self._count += 1
            return True
        elif blocking and wait != 0 and self._wait_for_hand_over(wait):
            # After a hand-over to main code or an OS thread, the holder is the caller's waiter. But release() compares
            # greenlets, so the greenlet is set as the holder.
            self._holder = me
        else:
            if overlong:
                found_nothing()
            return False
        self._count = 1
        return True

    @compiled  # in C only for a lock that the caller holds
    def release(self, kind: object = None, error: object = None, trace: object = None) -> None:
        """Undo one ``acquire``; the last ``release`` frees the lock. Raises: RuntimeError if the caller is not the
        holder.
        """
        if self._holder is not getcurrent() and not was_handed_to(self, getcurrent()):
            raise RuntimeError("cannot release un-acquired lock")
        if self._count > 1:
            self._count -= 1
            return
        # The count stays 1, because each new holder sets the count.
        if not self._waiters: self._holder = None; return  # atomic  # fmt: skip
        if not self._hand_over():
            self._unlock()

    @compiled
    def __enter__(self) -> bool:
        me = getcurrent()
        # Holder and count are set in one line: a signal handler in between would see the former holder's count.
        if self._holder is None: self._holder = me; self._count = 1; return True  # atomic  # fmt: skip
        return self.acquire()

    __exit__ = release

    # ---- the protocol by which Condition releases and retakes a lock

    def _is_owned(self) -> bool:
        return self._holder is getcurrent() or was_handed_to(self, getcurrent())

    def _recursion_count(self) -> int:
        return self._count if self._is_owned() else 0

    def _release_save(self) -> int:
        if not self._is_owned():
            raise RuntimeError("cannot release un-acquired lock")
        # With a count of 1, a single release frees the lock, regardless of the number of acquires.
        count, self._count = self._count, 1
        self.release()
        return count

    def _acquire_restore(self, count: int) -> None:
        self._reacquire()
        self._restore(count)

    def _restore(self, saved: int) -> None:
        # After a hand-over to main code or an OS thread, the holder is the caller's waiter. But release() compares
        # greenlets, so the greenlet is set as the holder.
        self._holder = getcurrent()
        self._count = saved


def was_handed_to(lock: RLock, me: greenlet) -> bool:
    """Return whether this greenlet's wait has received the lock, but has not returned yet. If so, make the greenlet the
    holder.

    From: a finalizer or a signal handler that interrupts the wait of main code or of an OS thread. The wait returns
    only after that code has ended, so that code must not wait for the lock.
    """
    holder = lock._holder
    # A dhaga's __getattr__() would look for "own_greenlet" in vain.
    if isinstance(holder, greenlet) or getattr(holder, "own_greenlet", None) is not me:
        return False
    lock._holder = me
    return True


def is_in_this_thread(holder: Any) -> bool:
    """Return whether a lock's holder, which is a waiter or a greenlet, runs in the calling OS thread."""
    scheduler = getattr(holder, "scheduler", None)
    if scheduler is not None:
        return bool(scheduler.thread_ident == originals.get_ident())
    return isinstance(holder, greenlet) and first_of(holder) is first_of(getcurrent())


def first_of(each: greenlet) -> greenlet:
    """Return the main greenlet of a greenlet's OS thread."""
    while each.parent is not None:
        each = each.parent
    return each
