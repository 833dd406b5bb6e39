"""The plain OS thread as a waiter: it blocks for real, and a signal during the wait loses nothing.

Each thread has one lock, held while the thread runs; it blocks by acquiring that lock, and a wake releases it.
``_woken`` is the truth: the lock may still be free from an earlier wake, so the thread checks ``_woken`` whenever it
has acquired the lock.
"""

from __future__ import annotations

import threading
import weakref
from typing import Any

from greenlet import getcurrent

from .. import originals
from . import deadlock
from .cancellation import pending_errors_of
from .waiter import TIMED_OUT, Waiter, claim


class OSThread(Waiter):
    """A plain OS thread that waits for an object of Dhaga's: it blocks for real. One object per thread."""

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
        # Released by a wake; may be released already, or once more, by an earlier one.
        self.wake_lock: Any = originals.allocate_lock()
        self.wake_lock.acquire()
        os_threads.add(self)

    @property
    def name(self) -> str:  # type: ignore[override]
        """The thread's name; the dictionary of threading is read without creating a dummy entry."""
        thread = threading._active.get(self.ident)  # type: ignore[attr-defined]
        return thread.name if thread is not None else f"thread {self.ident}"

    def __repr__(self) -> str:
        return f"<OSThread {self.name} {'WAITING ' + self.park_reason if self.parked else 'RUNNING'}>"

    def park_within(self, timeout: float | None) -> Any:
        """Block until woken. An error raised by a signal handler ends the park, unless a waker was faster.

        In that case nothing handed over is lost, and the error is raised at the next park, like a cancel. If the park
        must not end (for a lock after ``Condition.wait``), a second error ends it by force.
        """
        late = False
        while not (self._woken or late):
            try:
                late = not self.block(timeout) and self._retracted()
                # Woken, or about to be: a waker that has claimed this park will set _woken.
                timeout = None
            # KeyboardInterrupt or a handler's error, in the main thread.
            except BaseException as raised:
                if self._retracted():
                    raise
                if not (self.pending_errors and self.wake_parked(error=raised)):
                    pending_errors_of(self).append(raised)
        if late:
            return TIMED_OUT
        self._woken = False
        if self._error is not None:
            self._throw_error()
        value, self._value = self._value, None
        return value

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
        """Block until woken, and count as blocked meanwhile."""
        try:
            deadlock.mark_blocked(self)
            while not self._woken:
                self.wake_lock.acquire()
        finally:
            deadlock.unmark_blocked(self)
        return True

    def _retracted(self) -> bool:
        """End the park from within. Returns: False if a waker has won; the caller must then await its wake."""
        ticket = self.parked
        return self.undo_park() and claim(ticket)

    def deliver_wake(self, value: Any = None, error: BaseException | None = None) -> None:
        self._value, self._error = value, error
        self._woken = True
        try:
            self.wake_lock.release()
        # The lock is open still.
        except RuntimeError:
            pass


# All of them: no thread of the parent waits in a forked child.
os_threads: weakref.WeakSet[OSThread] = weakref.WeakSet()
