"""The event loop that a scheduler makes for itself: its selector, and the self-pipe to which signals write.

A scheduler must know two facts that an asyncio loop does not report. The first is whether the loop is inside
``select``: then a wake from a signal handler must write to the loop's pipe. The second is whether the loop is about to
sleep without a deadline: then the process may be in a deadlock. A subclass of the standard selector finds out both
facts, and relies only on public behavior.
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

# The standard library's function, which a later patch does not change.
set_wakeup_fd = signal.set_wakeup_fd


class SignalPipe:
    """Non-blocking pipe that carries the numbers of signals. From: the main thread."""

    def __init__(self) -> None:
        self.read_end: socket.socket
        self.write_end: socket.socket
        with above_standard_fds():
            self.read_end, self.write_end = originals.socketpair()
        for end in (self.read_end, self.write_end):
            end.setblocking(False)
            own_fds.add(end.fileno())

    def drain(self) -> bytes:
        """Read and return all signal numbers written so far."""
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

    Without this pipe, the Python handler of a signal that arrives just before the sleep begins would run only after the
    sleep. This happened to one of 10,000 Ctrl-C that were sent just as the main code parked.
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
        # The program has set another wake-up fd meanwhile: restore that fd.
        if former != self.write_end.fileno():
            set_wakeup_fd(former)

    def close(self) -> None:
        """Uninstall the pipe and close both ends."""
        self.uninstall()
        super().close()


@compiled  # in C, without a release of the interpreter lock
def has_event(fd: int) -> bool:
    """Return whether a selector, given by its fd, may have an event. The Python function always returns True.

    A poll from Python releases the interpreter lock. If a busy scheduler released the lock in each lap, once a
    millisecond, other OS threads would rarely get it: each release restarts the 5 ms after which a thread may demand
    the lock. Measured: beside a dhaga that yields, a new thread waited for up to 15 s, and without these releases for
    only 5 ms.
    """
    return True


class HubSelector(originals.DefaultSelector):
    """The standard selector, which also reports whether the loop is inside ``select`` or sleeps without a deadline.

    asyncio passes ``timeout=None`` exactly when the loop has no callback and no timer. This is public behavior, unlike
    the loop's queues. Before such a sleep, the selector asks the deadlock watch, which returns the seconds until its
    next check, or None.
    """

    selecting: bool = False
    # The number of fds that Dhaga itself registers: those of the loop's wake-up pipe, the poller and the signal pipe.
    own_fds = 0

    watch: DeadlockWatch | None = None
    wakeup_pipe: WakeupPipe | None = None

    # Functions to call once, when the loop next becomes idle. They serve tests that wait for an idle loop.
    idle_callbacks: deque[Callable[[], object]]

    def __init__(self) -> None:
        super().__init__()
        # Selectors of some platforms have no fd.
        self.fd: int = self.fileno() if hasattr(self, "fileno") else -1
        self.idle_callbacks = deque()
        # The fds of the selector and of the loop's self-pipe.
        self.protected_fds: set[int] = set()
        self.protect(self)
        # The process that may use the selector: a forked child shares the selector's epoll with its parent, and must
        # not wait on that epoll.
        self.pid: int = originals.getpid()

    def protect(self, *files: Any) -> None:
        """Add the fds of these files to Dhaga's own fds until the selector is closed."""
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
        if timeout == 0:  # the call does not sleep, so ``selecting`` need not be set
            return super().select(0) if has_event(self.fd) else []
        if self.idle_callbacks:
            return self.select_then_call_idle()
        return self.select_for(timeout)

    def select_for(self, timeout: float | None) -> Any:
        """Call ``select`` with the flag ``selecting`` set: meanwhile only a write wakes the loop.

        A finalizer may have woken a waiter after the loop chose its timeout: the ``call_soon`` of that wake would not
        end the sleep. So the run queues are checked once more, after the flag is set: from then on, each wake writes to
        the pipe.
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
        """Poll. If no fd is ready, call the idle callbacks, which may make dhagas runnable."""
        events = self.select(0)
        if not events:
            while self.idle_callbacks:
                self.idle_callbacks.popleft()()
        return events

    def only_own_fds(self) -> bool:
        """Return whether the program has added no handlers of its own to the loop."""
        return len(self.get_map()) <= self.own_fds

    def would_return(self) -> bool:
        """Return whether the current ``select`` has returned, or is about to return. From: any thread.

        This function sees a write to the loop's wake-up pipe before the sleeping thread does.
        """
        try:
            poll = originals.poll()
            poll.register(self.fileno(), system.POLLIN)
            return bool(poll.poll(0))
        # The selector has no fd, or is closed. True is the safe answer: a thread that may continue excludes a deadlock.
        except (AttributeError, OSError, TypeError, ValueError):
            return True


def new_loop(selector: HubSelector) -> asyncio.AbstractEventLoop:
    """Return a new event loop for a scheduler, with the given selector.

    If a signal handler raises in the middle, the unfinished loop is marked as closed: otherwise its finalizer would
    fail.
    """
    loop = originals.SelectorEventLoop.__new__(originals.SelectorEventLoop)
    try:
        # The loop calls its own handlers in the context in which they were registered. An empty context is used,
        # because the caller's context may belong to a request.
        Context().run(loop.__init__, selector)  # type: ignore[misc]
    except BaseException:
        vars(loop)["_closed"] = True
        selector.close()
        raise
    return loop


def is_of_another_loop(record: logging.LogRecord) -> bool:
    """Return False for asyncio's message that names the selector of our loop. A filter of asyncio's logger.

    At level DEBUG, asyncio logs the selector of each new loop. A program without a loop does not expect this message.
    Also, nearly all logging handlers wait for a lock, and such a wait would need the scheduler that is just being made.
    """
    kinds: list[type] = [HubSelector, *HubSelector.__subclasses__()]
    ours = {kind.__name__ for kind in kinds}
    return record.msg != "Using selector: %s" or not ours.issuperset(record.args or (None,))


logging.getLogger("asyncio").addFilter(is_of_another_loop)
