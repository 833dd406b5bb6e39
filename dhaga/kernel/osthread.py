"""The plain OS thread as a waiter: it blocks for real, and whatever strikes it meanwhile, nothing is lost."""

from __future__ import annotations

import threading
import weakref
from typing import Any

from greenlet import getcurrent

from . import deadlock, originals
from .waiter import Waiter

SIGNAL_SECONDS = 1.0
"""Longest time that the main thread blocks at once. A signal that comes when it is as good as blocked has its handler
called only after that: of 10,000 Ctrl-C sent just as it began to wait, three.
"""


class OSThread(Waiter):
    """A plain OS thread that waits for something of Dhaga: it blocks for real. One object a thread."""

    __slots__ = (
        "__weakref__",
        "at_once",
        "fault",
        "gate",
        "greenlet",
        "ident",
        "parked",
        "pending",
        "place",
        "since",
        "value",
        "woken",
    )

    def __init__(self) -> None:
        self.parked = []
        self.pending = []
        self.place = None
        self.value = None
        self.fault = None
        self.since = 0.0
        self.greenlet = getcurrent()
        self.ident = originals.get_ident()
        is_main = self.ident == originals.main_thread().ident
        self.at_once = SIGNAL_SECONDS if is_main else originals.TIMEOUT_MAX
        self.woken = False
        self.gate = originals.allocate_lock()  # opened by a wake; may be open, or open once more, from an earlier one
        self.gate.acquire()
        os_threads.add(self)

    @property
    def name(self) -> str:  # type: ignore[override]
        thread = threading._active.get(self.ident)  # type: ignore[attr-defined]
        return thread.name if thread is not None else f"thread {self.ident}"

    def __repr__(self) -> str:
        return f"<OSThread {self.name} {'WAITING ' + self.parked[0] if self.parked else 'RUNNING'}>"

    def park(self, timeout: float | None = None) -> Any:
        """Block until woken. What a signal handler raises meanwhile ends the park, unless a waker was faster.

        Then nothing handed over is lost, and the error comes at the next park, as a cancel would. Where the park must
        not end, for a lock after ``Condition.wait``, a second error ends it by force.
        """
        late = False
        while not (self.woken or late):
            try:
                late = not self.block(timeout) and self.retracted()
                timeout = None  # woken, or about to be
            except BaseException as raised:  # KeyboardInterrupt, in the main thread
                if self.retracted():
                    raise
                if not (self.pending and self.unpark(error=raised)):
                    self.pending.append(raised)
        if late:
            raise TimeoutError("timed out")
        self.woken = False
        if self.fault is not None:
            self.throw_fault()
        value, self.value = self.value, None
        return value

    def block(self, timeout: float | None) -> bool:
        """Block until woken; False after ``timeout`` seconds."""
        self.since = originals.monotonic()
        if timeout is None:
            return self.block_for_good()
        deadline = self.since + timeout
        while not self.woken:
            left = deadline - originals.monotonic()
            if left <= 0:
                return False
            self.gate.acquire(timeout=min(left, self.at_once))
        return True

    def block_for_good(self) -> bool:
        try:
            deadlock.block(self)
            while not self.woken:
                self.gate.acquire(timeout=self.at_once)
        finally:
            deadlock.unblock(self)
        return True

    def retracted(self) -> bool:
        """End the park from within; False if a waker has won, whose wake is then to be awaited."""
        if not self.taken_off():
            return False
        try:
            self.parked.pop()
        except IndexError:
            return False
        return True

    def unpark(self, value: Any = None, error: BaseException | None = None) -> bool:
        try:
            del self.parked[0]  # no call, so that no signal handler comes between here and the mark
        except IndexError:
            return False
        self.value, self.fault = value, error
        self.woken = True
        try:
            self.gate.release()
        except RuntimeError:  # it is open still
            pass
        return True


os_threads: weakref.WeakSet[OSThread] = weakref.WeakSet()
"""All of them: in a forked child nobody waits there any more."""
