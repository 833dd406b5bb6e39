"""The event loop of a scheduler that has none to be a guest of, and what its selector knows about its sleep."""

from __future__ import annotations

import signal
from collections import deque
from collections.abc import Callable
from typing import Any

from . import originals
from .deadlock import Watch


class Bell:
    """Ends the sleep of a loop at each signal. From: the main thread.

    Without it, one that comes when the sleep is as good as begun has its Python handler called only when the sleep is
    over: of 10,000 Ctrl-C sent just as the main code parked, one.
    """

    def __init__(self) -> None:
        self.ear, self.button = originals.socketpair()
        for end in (self.ear, self.button):
            end.setblocking(False)
        former = signal.set_wakeup_fd(self.button.fileno(), warn_on_full_buffer=False)
        if former != -1:  # somebody else's, who will wake his own loop
            signal.set_wakeup_fd(former)

    def heard(self) -> None:
        """Forget the signals so far."""
        try:
            while self.ear.recv(4096):
                pass
        except BlockingIOError:
            pass

    def silence(self) -> None:
        """Be rung by no more signals."""
        former = signal.set_wakeup_fd(-1)
        if former != self.button.fileno():
            signal.set_wakeup_fd(former)

    def close(self) -> None:
        """Let go of all."""
        self.silence()
        self.ear.close()
        self.button.close()


class HubSelector(originals.DefaultSelector):
    """The standard selector, which also tells when the loop is inside ``select`` and when it sleeps for good.

    asyncio passes ``timeout=None`` just when it has no callback and no timer: public behaviour, unlike its queues. Then
    the watch is asked first; it returns the seconds after which the loop must look again, or None.
    """

    selecting = False
    own_fds = 0
    """How many fds are registered before anybody adds one of his own: the loop's wake-up pipe, and the poller."""

    watch: Watch | None = None
    bell: Bell | None = None

    idlers: deque[Callable[[], object]]
    """Called, each once, before the loop sleeps for the next time with nothing to do: for tests that wait for that."""

    def __init__(self) -> None:
        super().__init__()
        self.idlers = deque()
        self.pid = originals.getpid()  # a forked child shares it with its parent, and must not wait with it

    def close(self) -> None:
        if self.bell is not None:
            self.bell.close()
            self.bell = None
        super().close()

    def select(self, timeout: float | None = None) -> Any:
        if self.idlers and timeout != 0:
            return self.select_idly()
        if timeout is not None or self.watch is None:
            return self.select_within(timeout)
        try:
            return self.select_within(self.watch.begin())
        finally:
            self.watch.end()

    def select_within(self, timeout: float | None) -> Any:
        self.selecting = True
        try:
            return super().select(timeout)
        finally:
            self.selecting = False

    def select_idly(self) -> Any:
        events = self.select_within(0)
        if not events:
            while self.idlers:
                self.idlers.popleft()()
        return events

    def only_own_fds(self) -> bool:
        """Tell whether nobody has added a handler of his own to the loop."""
        return len(self.get_map()) <= self.own_fds

    def would_return(self) -> bool:
        """Tell whether a ``select`` under way has, or is about to, come back. From: any thread.

        A write to the loop's wake-up pipe shows here before the sleeping thread can know of it.
        """
        try:
            poll = originals.poll()
            poll.register(self.fileno(), originals.select_module.POLLIN)
            return bool(poll.poll(0))
        except (AttributeError, OSError, TypeError, ValueError):  # a selector without fd, or closed: it cannot be told
            return True
