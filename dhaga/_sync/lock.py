"""Lock and RLock: hand-over of ownership in FIFO order, and the atomic lines on which every primitive rests.

A lock is free (``_holder`` is None) or held. ``release`` wakes the first waiter as the new holder instead of freeing
the lock, so a woken waiter owns it without another look, and no later caller overtakes. Dhagas of any scheduler and
plain OS threads may call everything here. There is no inner lock: a caller that finds the lock held appends itself to
``_waiters`` first and looks at ``_holder`` a second time (``_hand_over_if_free``). That closes the race with a release
in another OS thread that saw an empty queue.

**Atomic lines.** CPython switches OS threads, and runs signal handlers and finalizers, only at the start of a function,
at a backward jump and after a call. A line without a call, or with one call of a C function as its last step, is
therefore atomic: ``if self._holder is None: self._holder = me``. Such lines are tagged ``# atomic``, here and in the
other modules of primitives; ``tests/test_atomic_lines.py`` checks their bytecode. What belongs together stays on one
line, ``# fmt: skip`` where the formatter would split it, since a debugger's trace function runs between two lines.

Rejected: a token taken out of a deque, which is atomic as well, but makes ``with lock`` 30 % slower; an OS lock inside,
which costs 94 ns to take and give.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from greenlet import getcurrent

from .._kernel import originals
from .._kernel.arguments import check_acquire_timeout
from .._kernel.compiled import compiled
from .._kernel.current import non_dhaga_waiter, this_waiter
from .._kernel.inner_waiter import inner_waiter
from .._kernel.stdlib_face import refuse_copy
from .._kernel.thread_waiter import OSThread
from .._kernel.wait_graph import name_of
from .._kernel.wait_queue import WaitQueue
from .._kernel.waiter import TIMED_OUT, Waiter


class OwnedLock:
    """Base of Lock and RLock: one holder at a time, and the hand-over to the first waiter.

    ``_holder`` is a dhaga, or the greenlet of any other caller. After a hand-over to such a caller it is its waiter.
    """

    __slots__ = ("__weakref__", "_holder", "_waiters")

    __getstate__: Any = refuse_copy

    def __init__(self) -> None:
        self._holder: Any = None
        self._waiters = WaitQueue(self, "lock.acquire")

    def locked(self) -> bool:
        """Return whether the lock is held."""
        return self._holder is not None

    def _holders(self) -> list[object]:
        return [] if self._holder is None else [self._holder]

    @compiled
    def _wait_for_hand_over(self, me: Any, timeout: float | None) -> bool:
        """Park until the lock is handed over. Returns: False after ``timeout`` seconds."""
        waiters = self._waiters
        try:
            scheduler = me.scheduler
        except AttributeError:  # not a dhaga
            me, scheduler = non_dhaga_waiter(me), None
        if me._parked:
            me, scheduler = inner_waiter(me), None
        # _prepare() here and _park() below are written out: the two calls are 15 % of a contended lock.
        if me._pending:
            raise me._pending.pop(0)
        me._target = waiters
        me._reason = waiters.reason
        me._parked = ticket = [me]
        waiters.append(ticket)
        # Second look: a release in another OS thread may have seen the queue empty just before the append.
        if self._holder is None:
            self._hand_over_if_free()
        if timeout is None and scheduler is not None:
            scheduler._park(me)
            return True
        return me._park_until(timeout) is not TIMED_OUT

    def _hand_over_if_free(self) -> None:
        """Hand the lock to the first waiter, if it is free."""
        while self._waiters:
            # The lock holds itself meanwhile, so that no caller takes it between here and the hand-over.
            if self._holder is None: self._holder = self  # atomic  # fmt: skip
            else:
                return  # its release serves the waiters
            if self._hand_over():
                return
            self._holder = None

    def _unlock(self) -> None:
        """Free the lock after all waiters have left, and serve a waiter that has come meanwhile."""
        # Freed before the look: a caller that has queued up since the last pop found the lock held.
        self._holder = None
        self._hand_over_if_free()

    def _hand_over(self) -> bool:
        """Wake the first waiter as the new holder. Returns: False if none waits any more."""
        while self._waiters:
            try:
                waiter = self._waiters.popleft().pop()
            except IndexError:  # it has left, or another OS thread took the last one
                continue
            # Owner before wake: a waiter in another OS thread may run, and release, as soon as it is woken.
            self._holder = waiter
            waiter._resume(True)
            return True
        return False

    def _reacquire(self) -> None:
        """Take the lock in spite of timeouts and cancels, which must be raised with the lock held again."""
        me = getcurrent()
        if self._holder is None: self._holder = me  # atomic  # fmt: skip
        else:
            self._waiters.wait_uncancellable(self._hand_over_if_free)


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
    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Take the lock. Parks: while it is held (``lock.acquire``). Returns: whether it was taken."""
        wait = None if timeout == -1 else check_acquire_timeout(blocking, timeout)
        me = getcurrent()
        if self._holder is None: self._holder = me; return True  # atomic  # fmt: skip
        return bool(blocking and wait != 0 and self._wait_for_hand_over(me, wait))

    @compiled
    def release(self, kind: object = None, error: object = None, trace: object = None) -> None:
        """Hand the lock to the first waiter, or free it. From: any thread. Raises: RuntimeError if it is unlocked."""
        # One line for the look and the release: a waiter that queued up in between would not be woken.
        if self._holder is not None and not self._waiters: self._holder = None; return  # atomic  # fmt: skip
        if self._holder is None:
            raise RuntimeError("release unlocked lock")
        if not self._hand_over():
            self._unlock()

    @compiled
    def __enter__(self) -> bool:
        me = getcurrent()
        if self._holder is None: self._holder = me; return True  # atomic  # fmt: skip
        return self._wait_for_hand_over(me, None)

    # One call less in each `with`: this is why release() takes the arguments of __exit__().
    __exit__ = release
    # The old names of _thread.lock, which programs still call.
    acquire_lock: Any = acquire
    release_lock: Any = release
    locked_lock: Any = OwnedLock.locked

    # ---- the protocol by which Condition releases and retakes a lock

    def _is_owned(self) -> bool:
        # Any thread may release a Lock, so "held" is all that Condition can ask, as with the standard.
        return self._holder is not None

    def _release_save(self) -> None:
        self.release()

    def _acquire_restore(self, state: Any) -> None:
        self._reacquire()

    def _at_fork_reinit(self) -> None:
        # The holder and the waiters stayed in the parent, where the lock is another one.
        self.__init__()  # type: ignore[misc]


class RLock(OwnedLock):
    """A lock that its holder may take again. Source: ``threading.RLock``; holders are dhagas and plain OS threads.

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

    @compiled
    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Take the lock, once more if the caller holds it. Parks: while another caller does (``lock.acquire``)."""
        wait = None if timeout == -1 else check_acquire_timeout(blocking, timeout)
        me = getcurrent()
        # Only the holder changes the count, so this needs no atomic line.
        if self._holder is me:
            self._count += 1
            return True
        if self._holder is None: self._holder = me  # atomic  # fmt: skip
        elif blocking and wait != 0 and self._wait_for_hand_over(me, wait):
            # A hand-over to main code or an OS thread made its waiter the holder, but release() compares greenlets.
            self._holder = me
        else:
            return False
        self._count = 1
        return True

    @compiled
    def release(self, kind: object = None, error: object = None, trace: object = None) -> None:
        """Undo one acquire; the last undo hands the lock over. Raises: RuntimeError if the caller does not hold it."""
        if self._holder is not getcurrent():
            raise RuntimeError("cannot release un-acquired lock")
        if self._count > 1:
            self._count -= 1
            return
        # The count stays 1: each new holder sets its own.
        if not self._waiters: self._holder = None; return  # atomic  # fmt: skip
        if not self._hand_over():
            self._unlock()

    @compiled
    def __enter__(self) -> bool:
        me = getcurrent()
        # Holder and count in one line: a signal handler in between would find a lock of ours with the former count.
        if self._holder is None: self._holder = me; self._count = 1; return True  # atomic  # fmt: skip
        return self.acquire()

    __exit__ = release

    # ---- the protocol by which Condition releases and retakes a lock

    def _is_owned(self) -> bool:
        return self._holder is getcurrent()

    def _recursion_count(self) -> int:
        return self._count if self._is_owned() else 0

    def _release_save(self) -> int:
        if not self._is_owned():
            raise RuntimeError("cannot release un-acquired lock")
        # With a count of 1 the release gives the lock away, however often it was acquired.
        count, self._count = self._count, 1
        self.release()
        return count

    def _acquire_restore(self, count: int) -> None:
        self._reacquire()
        self._restore(count)

    def _restore(self, count: int) -> None:
        """Make the caller the holder again, with the count from before the wait."""
        self._holder = getcurrent()
        self._count = count

    def _at_fork_reinit(self) -> None:
        # The holder and the waiters stayed in the parent, where the lock is another one.
        self.__init__()  # type: ignore[misc]


def clock_here() -> Callable[[], float]:
    """Return the clock that measures the timeouts of the caller."""
    me: Waiter = this_waiter()
    return originals.monotonic if isinstance(me, OSThread) else me.scheduler._clock
