"""The event loop of a scheduler that owns one: its selector, and the self-pipe that a signal writes to.

The kernel must know two things that an asyncio loop keeps to itself. Is the loop inside ``select``? Only then must a
wake from a signal handler write to the loop's pipe. Is it about to sleep without a deadline? Only then can the process
be in a deadlock. A subclass of the standard selector sees both, through public behaviour only.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
from collections import deque
from collections.abc import Callable
from contextvars import Context
from typing import Any

from .. import originals
from ..fast.compiled import compiled
from ..own_fds import above_standard_fds, own_fds
from ..platform.system import system
from ..wait.deadlock import DeadlockWatch

# The standard library's own.
set_wakeup_fd = signal.set_wakeup_fd


class SignalPipe:
    """Non-blocking pipe for the numbers of signals. From: the main thread."""

    def __init__(self) -> None:
        self.read_end: socket.socket
        self.write_end: socket.socket
        with above_standard_fds():
            self.read_end, self.write_end = originals.socketpair()
        for end in (self.read_end, self.write_end):
            end.setblocking(False)
            own_fds.add(end.fileno())

    def drain(self) -> bytes:
        """Read the numbers of signals written so far."""
        numbers = b""
        try:
            while some := self.read_end.recv(4096):
                numbers += some
        except BlockingIOError:
            pass
        return numbers

    def close(self) -> None:
        """Close both ends."""
        for end in (self.read_end, self.write_end):
            own_fds.discard(end.fileno())
            end.close()


class WakeupPipe(SignalPipe):
    """Self-pipe that ends the sleep of a loop at each signal. From: the main thread.

    Without it, the Python handler of a signal that arrives just before the sleep begins runs only after the sleep (one
    of 10,000 Ctrl-C sent just as the main code parked).
    """

    def __init__(self) -> None:
        super().__init__()
        former = set_wakeup_fd(self.write_end.fileno(), warn_on_full_buffer=False)
        # The program's own wake-up fd stays in place: its reader wakes the program's loop.
        if former != -1:
            set_wakeup_fd(former)

    def uninstall(self) -> None:
        """Stop Python from writing to this pipe."""
        former = set_wakeup_fd(-1)
        # Another wake-up fd was set meanwhile: put it back.
        if former != self.write_end.fileno():
            set_wakeup_fd(former)

    def close(self) -> None:
        """Uninstall the pipe and close both ends."""
        self.uninstall()
        super().close()


@compiled  # C: looks, without releasing the interpreter lock
def has_event(fd: int) -> bool:
    """Return whether the selector of an fd may have an event; True in doubt. The Python function always returns True.

    A look from Python releases the interpreter lock. If a busy scheduler did so with each lap, once a millisecond,
    other OS threads would get it by luck only: each release restarts the 5 ms after which they may demand it. Measured:
    a thread that had just started waited for up to 15 s beside a dhaga that yields; 5 ms without these releases.
    """
    return True


class HubSelector(originals.DefaultSelector):
    """The standard selector, which also reports when the loop is inside ``select`` and when it sleeps for good.

    asyncio passes ``timeout=None`` exactly when it has no callback and no timer: public behaviour, unlike its queues.
    Before it sleeps for good, it asks the deadlock watch, which returns the seconds after which to look again, or None.
    """

    selecting: bool = False
    # The number of fds that the kernel itself registers: the loop's wake-up pipe, the poller and the pipe for signals.
    own_fds = 0

    watch: DeadlockWatch | None = None
    wakeup_pipe: WakeupPipe | None = None

    # Functions that are called once when the loop next becomes idle: for tests that wait for this.
    idle_callbacks: deque[Callable[[], object]]

    def __init__(self) -> None:
        super().__init__()
        # Selectors of some platforms have no fd.
        self.fd: int = self.fileno() if hasattr(self, "fileno") else -1
        self.idle_callbacks = deque()
        # Its own fd and the loop's self-pipe.
        self.protected_fds: set[int] = set()
        self.protect(self)
        # A forked child shares the selector's epoll with its parent, and must not wait on it.
        self.pid: int = originals.getpid()

    def protect(self, *files: Any) -> None:
        """Count the fds of these, until the selector is closed, as Dhaga's own."""
        fds = {each.fileno() for each in files if hasattr(each, "fileno")}
        self.protected_fds |= fds
        own_fds.update(fds)

    def close(self) -> None:
        if self.wakeup_pipe is not None:
            self.wakeup_pipe.close()
            self.wakeup_pipe = None
        own_fds.difference_update(self.protected_fds)
        super().close()

    def select(self, timeout: float | None = None) -> Any:
        if timeout == 0:  # it does not sleep, and needs no mark
            return super().select(0) if has_event(self.fd) else []
        if self.idle_callbacks:
            return self.select_then_call_idle()
        return self.select_for(timeout)

    def select_for(self, timeout: float | None) -> Any:
        """Select, and mark the time inside, when only a write wakes the loop.

        Set before the last look at the run queue: since the loop chose its timeout, a finalizer may have woken a
        waiter, with ``call_soon``.
        """
        self.selecting = True
        watch = self.watch
        try:
            if watch is not None and watch.scheduler.count_runnable():
                return self.select(0)
            if watch is None or timeout is not None:
                return super().select(timeout)
            try:
                return super().select(watch.begin())
            finally:
                watch.end()
        finally:
            self.selecting = False

    def select_then_call_idle(self) -> Any:
        """Poll; if nothing is ready, call the idle callbacks, which may make dhagas runnable."""
        events = self.select(0)
        if not events:
            while self.idle_callbacks:
                self.idle_callbacks.popleft()()
        return events

    def only_own_fds(self) -> bool:
        """Return whether the program has added no handlers of its own to the loop."""
        return len(self.get_map()) <= self.own_fds

    def would_return(self) -> bool:
        """Return whether the current ``select`` has returned, or is about to. From: any thread.

        A write to the loop's wake-up pipe is visible here before the sleeping thread notices it.
        """
        try:
            poll = originals.poll()
            poll.register(self.fileno(), system.POLLIN)
            return bool(poll.poll(0))
        # A selector without an fd, or a closed one. True is the safe answer: a thread that may go on rules a deadlock
        # out.
        except (AttributeError, OSError, TypeError, ValueError):
            return True


def new_loop(selector: HubSelector) -> asyncio.AbstractEventLoop:
    """Make the loop of a scheduler over its selector.

    A signal's handler that raises in the middle leaves half a loop, which counts as closed: its finalizer would fail.
    """
    loop = originals.SelectorEventLoop.__new__(originals.SelectorEventLoop)
    try:
        # A loop calls each handler in the context of its registration: the first request must not lend its own.
        Context().run(loop.__init__, selector)  # type: ignore[misc]
    except BaseException:
        vars(loop)["_closed"] = True
        selector.close()
        raise
    return loop


def is_of_another_loop(record: logging.LogRecord) -> bool:
    """Return whether asyncio logs this for a loop other than ours: a filter of its logger.

    With the level DEBUG asyncio logs the selector of each new loop. A program without a loop does not expect that line,
    and a handler that waits, as nearly all do for their lock, would need the very scheduler that is being made.
    """
    kinds: list[type] = [HubSelector, *HubSelector.__subclasses__()]
    ours = {kind.__name__ for kind in kinds}
    return record.msg != "Using selector: %s" or not ours.issuperset(record.args or (None,))


logging.getLogger("asyncio").addFilter(is_of_another_loop)
