"""Lock and RLock: hand-over of ownership in FIFO order, and the atomic lines on which every primitive rests.

A lock is free (``_holder`` is None) or held. ``release`` wakes the first waiter as the new holder instead of freeing
the lock: so a woken waiter owns it without checking again, and no later caller overtakes. Dhagas of any scheduler and
plain OS threads may call everything here. There is no inner lock: a caller that finds the lock held first joins
``_waiters``, and then checks ``_holder`` a second time (``_hand_over_if_free``). That closes the race with a release in
another OS thread that saw an empty queue.

**Atomic lines.** CPython switches OS threads, and runs signal handlers and finalizers, only at the start of a function,
at a backward jump and after a call. A line without a call, or with one call of a C function as its last step, is
therefore atomic: ``if self._holder is None: self._holder = me``. Such lines are tagged ``# atomic``, here and in the
other modules of primitives; ``tests/_kernel/test_atomic_lines.py`` checks their bytecode. Operations that belong
together are on one line (``# fmt: skip`` keeps the formatter from splitting it), since a debugger's trace function runs
between two lines. On a build without the interpreter lock each of them runs under a guard: ``atomic_lines.py``.

Rejected: a token taken out of a deque, which is also atomic, but makes ``with lock`` 30 % slower; an OS lock inside,
which costs 94 ns to acquire and release.
"""

from __future__ import annotations

from typing import Any

from greenlet import getcurrent, greenlet

from .._kernel import originals
from .._kernel.faces.arguments import check_acquire_timeout
from .._kernel.faces.foreign_names import refuse_async_with
from .._kernel.faces.stdlib_face import refuse_copy
from .._kernel.fast.compiled import compiled
from .._kernel.interpreter.guards import Guarded
from .._kernel.run.call_outs import calls_out
from .._kernel.run.microthread import Dhaga
from .._kernel.run.preemption import found_nothing, overlong
from .._kernel.wait.current import on_event_loop, this_waiter
from .._kernel.wait.wait_graph import name_of
from .._kernel.wait.wait_queue import WaitQueue
from .._kernel.wait.waiter import TIMED_OUT
from .mutex import RETRY_SECONDS

LOOP_PATIENCE = 0.5
"""Seconds for which a caller on the event loop, which cannot park, waits for a holder in another OS thread."""


class OwnedLock(Guarded):
    """Base of Lock and RLock: one holder at a time, and the hand-over to the first waiter.

    ``_holder`` is a dhaga, or the greenlet of any other caller. After a hand-over to such a caller, ``_holder`` is the
    caller's waiter.
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
        if not isinstance(getcurrent(), Dhaga) and on_event_loop() and self._acquire_on_loop():
            return True
        me, waiters = this_waiter(), self._waiters
        me.prepare_park(waiters.reason, waiters)
        me.arrival = waiters.epoch
        waiters.append(me.parked)
        # Check again: a release in another OS thread may have seen the queue empty just before the append.
        if self._holder is None:
            self._hand_over_if_free()
        return me.park_within(timeout) is not TIMED_OUT

    def _acquire_on_loop(self) -> bool:
        """Acquire the lock on the event loop, if its holder is in another OS thread and may release it soon.

        Returns: False if the holder needs this OS thread to continue, or keeps the lock for ``LOOP_PATIENCE``.
        """
        me = getcurrent()
        deadline = originals.monotonic() + LOOP_PATIENCE
        while originals.monotonic() < deadline and not is_in_this_thread(self._holder):
            if self._holder is None: self._holder = me; return True  # atomic  # fmt: skip
            originals.thread_sleep(RETRY_SECONDS)
        return False

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
        # Freed before the check: a caller that has queued up since the last pop found the lock held.
        self._holder = None
        self._hand_over_if_free()

    def _hand_over(self) -> bool:
        """Wake the first waiter as the new holder. Returns: False if none waits any more."""
        while self._waiters:
            try:
                waiter = self._waiters.popleft().pop()
            except IndexError:  # the waiter has left, or another OS thread took the last one
                continue
            # Owner before wake: a waiter in another OS thread may run, and release, as soon as it is woken.
            self._holder = waiter
            waiter.deliver_wake(True)
            return True
        return False

    def _reacquire(self, arrival: int | None = None) -> None:
        """Acquire the lock in spite of timeouts and cancels: they must be raised with the lock held again.

        With the ``arrival`` of a wait at a condition, before all later waiters; else as the last.
        """
        me = getcurrent()
        if self._holder is None: self._holder = me  # atomic  # fmt: skip
        else:
            self._waiters.wait_uncancellable(self._hand_over_if_free, arrival)

    def _restore(self, saved: Any) -> None:
        """Make the caller the holder again as it was before the wait."""

    def _at_fork_reinit(self) -> None:
        # The holder and the waiters stayed in the parent, where the lock is another one.
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
        """Acquire the lock. Parks: while it is held (``lock.acquire``). Returns: whether it was acquired."""
        wait = None if timeout == -1 else check_acquire_timeout(blocking, timeout)
        me = getcurrent()
        if self._holder is None: self._holder = me; return True  # atomic  # fmt: skip
        if blocking and wait != 0:
            return self._wait_for_hand_over(wait)
        if overlong:
            found_nothing()
        return False

    @compiled  # C: a lock that is held
    def release(self, kind: object = None, error: object = None, trace: object = None) -> None:
        """Hand the lock to the first waiter, or free it. From: any thread. Raises: RuntimeError if it is unlocked."""
        # One line for the check and the release: a waiter that queued up in between would not be woken.
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

    # One call less in each `with`: this is why release() takes the arguments of __exit__().
    __exit__ = release
    # The old names of _thread.lock, which programs still call.
    acquire_lock: Any = acquire
    release_lock: Any = release
    locked_lock: Any = OwnedLock.locked

    # ---- the protocol by which Condition releases and retakes a lock

    def _is_owned(self) -> bool:
        # Any thread may release a Lock, so Condition can only check that it is held, as with the standard.
        return self._holder is not None

    def _release_save(self) -> None:
        self.release()

    def _acquire_restore(self, state: Any) -> None:
        self._reacquire()


@refuse_async_with("async with asyncio.Lock")
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

    @compiled  # C: no arguments; a lock that is free or the caller's own
    @calls_out
    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Acquire the lock, once more if the caller holds it. Parks: while another caller does (``lock.acquire``)."""
        wait = None if timeout == -1 else check_acquire_timeout(blocking, timeout)
        me = getcurrent()
        # Only the holder changes the count, so this needs no atomic line.
        if self._holder is me:
            self._count += 1
            return True
        if self._holder is None: self._holder = me  # atomic  # fmt: skip
        elif blocking and wait != 0 and self._wait_for_hand_over(wait):
            # A hand-over to main code or an OS thread made its waiter the holder, but release() compares greenlets.
            self._holder = me
        else:
            if overlong:
                found_nothing()
            return False
        self._count = 1
        return True

    @compiled  # C: a lock that is the caller's own
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
        # Holder and count in one line: a signal handler in between would find our lock with the former count.
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
        # With a count of 1 the release frees the lock, however often it was acquired.
        count, self._count = self._count, 1
        self.release()
        return count

    def _acquire_restore(self, count: int) -> None:
        self._reacquire()
        self._restore(count)

    def _restore(self, saved: int) -> None:
        # A hand-over to main code or an OS thread made its waiter the holder, but release() compares greenlets.
        self._holder = getcurrent()
        self._count = saved


def is_in_this_thread(holder: Any) -> bool:
    """Return whether the holder of a lock, a waiter or a greenlet, runs in the calling OS thread."""
    scheduler = getattr(holder, "scheduler", None)
    if scheduler is not None:
        return bool(scheduler.thread_ident == originals.get_ident())
    return isinstance(holder, greenlet) and first_of(holder) is first_of(getcurrent())


def first_of(each: greenlet) -> greenlet:
    """Return the first greenlet of another greenlet's OS thread."""
    while each.parent is not None:
        each = each.parent
    return each
