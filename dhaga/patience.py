"""How a socket waits: its timeout, and the ways to park until an operation on it can be done.

Under ``dhaga.socket``, which adds the operations.
"""

from __future__ import annotations

import _socket
import socket as standard
import sys
from collections.abc import Callable
from typing import Any

from greenlet import getcurrent

from .kernel import originals
from .kernel.channel import AnyChannel, Channels, ThreadChannel
from .kernel.osthread import OSThread
from .kernel.scheduler import sleep
from .kernel.waiter import Waiter
from .kernel.waiting import this_waiter

plain = _socket.socket
# The bare numbers: to make enums of them costs an accept 2 µs.
family_of = plain.family.__get__
type_of = plain.type.__get__

DONTWAIT = int(standard.MSG_DONTWAIT) if sys.platform == "linux" else 0  # elsewhere a send may wait in spite of it
OOB, NOW = int(standard.MSG_OOB), int(standard.MSG_DONTWAIT)
PAUSES = 0.001, 0.02
"""First and longest pause between two tries where no event tells when to try again, in seconds."""

NOWHERE: Any = ThreadChannel(-1)
NOWHERE.scheduler = object()  # nobody's


class PatientSocket(standard.socket):
    """A standard socket whose timeout is kept here (``patience``), so that no call waits in C.

    ``channels`` has all ways to wait; ``channel`` is that of the scheduler that waited first, as a short way, if no
    timeout is set. No C call waits by itself.
    """

    __slots__ = ("channel", "channels", "patience")

    def __init__(self, family: int = -1, type: int = -1, proto: int = -1, fileno: int | None = None) -> None:
        self.channel: Any = NOWHERE
        self.channels = Channels(-1)
        super().__init__(family, type, proto, fileno)
        self.channels.fd = self.fileno()
        self.take_patience()

    def leave(self) -> None:
        """Take the fd off every poller, before it is closed, and wake whoever waits on it with EBADF."""
        self.channel = NOWHERE
        self.channels.close()

    # ---- timeouts

    def take_patience(self) -> None:
        """Take over the timeout that was just set in C."""
        patience = self.patience = plain.gettimeout(self)
        if patience or (patience is None and not DONTWAIT):
            plain.setblocking(self, False)
        if patience is not None:
            self.channel = NOWHERE  # no short way, which thus need not ask

    def gettimeout(self) -> float | None:
        """Return the timeout of each call in seconds; None: wait for ever, 0: never."""
        return self.patience

    def settimeout(self, value: float | None, /) -> None:
        """Bound how long each call may wait: seconds, None or 0. Raises: ValueError, TypeError."""
        plain.settimeout(self, value)
        self.take_patience()

    timeout = property(gettimeout)

    def setblocking(self, flag: bool, /) -> None:
        """Wait for ever (True) or never (False)."""
        plain.setblocking(self, flag)
        self.take_patience()

    def getblocking(self) -> bool:
        """Tell whether calls may wait."""
        return self.patience != 0

    # ---- waiting

    def channel_of(self, me: Waiter) -> AnyChannel:
        """Return the channel through which the waiter watches this fd."""
        channel = self.channels.of(me)
        if channel.drains is None:
            channel.drains = self.drains()
            channel.doubtful = family_of(self) == standard.AF_UNIX
        if self.channel is NOWHERE and channel.scheduler is not None and self.patience is None:
            self.channel = channel
        return channel

    def drains(self) -> bool:
        """Tell whether a short read empties the socket: see ``Channel.drains``."""
        if type_of(self) != standard.SOCK_STREAM or sys.platform != "linux":
            return False
        if family_of(self) == standard.AF_UNIX:
            return True
        is_tcp = self.getsockopt(standard.SOL_SOCKET, standard.SO_PROTOCOL) == standard.IPPROTO_TCP
        return is_tcp and family_of(self) in (standard.AF_INET, standard.AF_INET6)  # SCTP reads message by message

    def note_drained(self) -> None:
        """Note a short read: the next one parks, without a system call that fails."""
        scheduler = getattr(getcurrent(), "scheduler", None)
        channel: Any = self.channels.get(scheduler) if scheduler is not None else None
        if channel is not None and channel.drains:
            channel.readable = False
            if channel.doubtful:
                channel.poller.doubts.append(channel)

    def distrust_edges(self) -> None:
        """Take short reads for nothing from now on: they end at urgent data too, even once that has been read."""
        for channel in list(self.channels.values()):
            channel.drains = False

    def bounded(self, wait: Callable[[Any, float | None], object], me: Waiter, deadline: float | None) -> float | None:
        """Park by ``wait``, within the timeout. Returns: the deadline of the call, for its next park."""
        if self.patience is None:
            wait(me, None)
            return None
        clock = originals.monotonic if isinstance(me, OSThread) else me.scheduler.clock
        if deadline is None:
            deadline = clock() + self.patience
        wait(me, max(0.0, deadline - clock()))
        return deadline

    def reading(self, flags: int, operation: Callable[..., Any], *args: Any) -> Any:
        """Do ``operation(self, *args)`` as soon as the fd lets it; ``flags``: those that the caller has asked for."""
        me: Any = getcurrent()
        scheduler = getattr(me, "scheduler", None)
        now = self.patience == 0 or flags & NOW
        channel: Any = self.channels.get(scheduler) if scheduler is not None and not now else None
        deadline: float | None = None
        if flags & OOB:
            self.distrust_edges()
        while True:
            if channel is None or channel.readable:
                try:
                    return operation(self, *args)
                except BlockingIOError:
                    if now:
                        raise
                if channel is None:
                    me = this_waiter()
                    channel = self.channel_of(me)
                channel.readable = False
            deadline = self.bounded(channel.wait_readable, me, deadline)

    def writing(self, flags: int, operation: Callable[..., Any], *args: Any) -> Any:
        """Do ``operation(self, *args)`` as soon as the fd lets it; ``flags`` as in ``reading``."""
        channel: Any = None
        deadline: float | None = None
        while True:
            try:
                return operation(self, *args)
            except BlockingIOError:
                if self.patience == 0 or flags & NOW:
                    raise
            if channel is None:
                me = this_waiter()
                channel = self.channel_of(me)
            deadline = self.bounded(channel.wait_writable, me, deadline)

    def insisting(self, flags: int, operation: Callable[..., Any], *args: Any) -> Any:
        """Do ``operation(self, *args)``, trying again from time to time. Parks: ``sleep``. ``flags`` as in ``reading``.

        For what a Unix socket waits for without any event that would tell of it: room at a peer.
        """
        pause, longest = PAUSES
        deadline: float | None = None
        while True:
            try:
                return operation(self, *args)
            except BlockingIOError:
                if self.patience == 0 or flags & NOW:
                    raise
            deadline = self.bounded(nap(pause), this_waiter(), deadline)
            pause = min(2 * pause, longest)


def nap(seconds: float) -> Callable[[Any, float | None], None]:
    """Return a wait that is over after some seconds. Raises: TimeoutError if no time is left for it."""

    def wait(me: Waiter, left: float | None) -> None:
        if left is not None and left <= 0:
            raise TimeoutError("timed out")
        sleep(seconds if left is None else min(seconds, left))

    return wait
