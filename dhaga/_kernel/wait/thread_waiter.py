"""The waiter of a plain OS thread. A wait blocks the OS thread, and no value is lost if a signal interrupts the wait.

Each thread has one lock, held while the thread runs. To block, the thread acquires the lock again; a wake releases the
lock. The lock may still be free from an earlier wake, so the thread checks ``_woken`` each time it has acquired the
lock.
"""

from __future__ import annotations

import weakref
from typing import Any

from greenlet import getcurrent

from .. import originals
from . import deadlock
from .cancellation import pending_errors_of
from .waiter import TIMED_OUT, Waiter, claim


class OSThread(Waiter):
    """The waiter of a plain OS thread. The thread blocks while it waits for an object of Dhaga. Each thread has one
    waiter.
    """

    __slots__ = (
        "__weakref__",
        "_error",
        "_value",
        "_woken",
        "arrival",
        "ident",
        "own_greenlet",
        "park_reason",
        "parked",
        "parked_since",
        "pending_errors",
        "wait_target",
        "wake_lock",
    )

    def __init__(self) -> None:
        self._init_wait()
        self.own_greenlet = getcurrent()
        self.ident: int = originals.get_ident()
        self._woken = False
        # A wake releases this lock. The lock may be free already, because an earlier wake has released it.
        self.wake_lock: Any = originals.allocate_lock()
        self.wake_lock.acquire()
        os_threads.add(self)

    @property
    def name(self) -> str:  # type: ignore[override]
        """The thread's name."""
        return originals.thread_name(self.ident)

    def __repr__(self) -> str:
        return f"<OSThread {self.name} {'WAITING ' + self.park_reason if self.parked else 'RUNNING'}>"

    def park_within(self, timeout: float | None) -> Any:
        """Block until woken. An error raised by a signal handler ends the park, unless a waker was faster.

        If a waker was faster, the handed-over value is kept, and the error is raised at the next park, like a cancel.
        If the park must not end (for a lock after ``Condition.wait``), a second error ends the park by force.
        """
        try:
            late = self._block_until_woken(timeout)
        finally:
            _target = self._take_target()  # dropped on return, as in Scheduler._park
        if late:
            return TIMED_OUT
        try:
            return self._take_value()
        finally:
            self._woken = False  # last: until then, a finalizer must wait with a waiter of its own

    def _block_until_woken(self, timeout: float | None) -> bool:
        """Block until woken. Returns: True after ``timeout`` seconds. Raises: the error of a signal handler."""
        late = False
        while not (self._woken or late):
            try:
                late = not self.block(timeout) and self._retracted()
                # The thread is woken or will be woken at once: the waker that has claimed this park sets _woken.
                timeout = None
            # In the main thread: KeyboardInterrupt, or the error of a signal handler.
            except BaseException as raised:
                if self._retracted():
                    raise
                if not (self.pending_errors and self.wake_parked(error=raised)):
                    pending_errors_of(self).append(raised)
        return late

    def block(self, timeout: float | None) -> bool:
        """Block until woken. Returns: False after ``timeout`` seconds."""
        self.parked_since = originals.monotonic()
        if timeout is None:
            return self.block_forever()
        deadline = self.parked_since + timeout
        while not self._woken:
            left = deadline - originals.monotonic()
            if left <= 0:
                return False
            self.wake_lock.acquire(timeout=min(left, originals.TIMEOUT_MAX))
        return True

    def block_forever(self) -> bool:
        """Block until woken, and mark this thread as blocked meanwhile."""
        try:
            deadlock.mark_blocked(self)
            while not self._woken:
                self.wake_lock.acquire()
        finally:
            deadlock.unmark_blocked(self)
        return True

    def _retracted(self) -> bool:
        """End the park from this thread. Returns: False if a waker was faster; the caller must then await the wake."""
        ticket = self.parked
        return self.undo_park() and claim(ticket)

    def deliver_wake(self, value: Any = None, error: BaseException | None = None) -> None:
        self._value, self._error = value, error
        self._woken = True
        try:
            self.wake_lock.release()
        # The lock is still free from an earlier wake.
        except RuntimeError:
            pass


# All living OSThreads. A forked child empties the tickets of the parent's other threads, because these threads do not
# exist in the child.
os_threads: weakref.WeakSet[OSThread] = weakref.WeakSet()
