"""Base class of all sockets: the timeout, the fd watchers, and the parks until an operation succeeds.

*Timeout.* ``call_timeout_`` is the value given to ``settimeout`` (None: wait forever, 0: never wait). No call waits in
C. On Linux, the fd of a socket without a timeout stays in blocking mode, because processes that share the fd expect
this mode. Each call passes MSG_DONTWAIT instead. In all other cases the fd is non-blocking. *Watchers.* ``watchers_``
has one watcher for each scheduler that has used the socket, and one for plain OS threads (key None). ``watcher_``
caches the first watcher while there is no timeout. If ``watcher_`` is for the caller's scheduler, a fast path can use
it. *Readiness* is edge-triggered. A read that finds no data sets ``watcher.readable`` to False until the next edge. If
``short_read_means_empty`` is true, a read that finds less data than requested also sets it to False. While ``readable``
is False, reads park without a try. Writers always try first.
"""

from __future__ import annotations

import _socket
import errno
import math
import os
import socket as standard
import sys
from collections.abc import Callable
from typing import Any, TypeGuard

from greenlet import getcurrent

from .._kernel import outside
from .._kernel.backoff import backoff
from .._kernel.errors import ParkError
from .._kernel.platform.system import system
from .._kernel.run.call_outs import calls_out
from .._kernel.run.fd_watch import AnyFdWatcher, FdWatchers, ThreadFdWatcher
from .._kernel.run.preemption import found_nothing, overlong
from .._kernel.run.scheduler import sleep
from .._kernel.run.turn_budget import CALLS_PER_CHECK, yield_if_due
from .._kernel.wait.current import clock_here, clock_of, scheduler_of_caller, this_waiter
from .._kernel.wait.waiter import TIMED_OUT, Waiter
from .fd_ops import write_all
from .kernel_limits import LIMITS, limits_of, seconds_of

plain = _socket.socket
# The C getters are faster: the properties of ``socket.socket`` create enums, which adds 2 µs to an accept.
family_of: Callable[[Any], int] = plain.family.__get__
type_of: Callable[[Any], int] = plain.type.__get__

DONTWAIT, NOW = system.DONTWAIT, system.MSG_DONTWAIT
OOB = int(standard.MSG_OOB)
PAUSES = 0.001, 0.02
"""First and longest pause, in seconds, between two tries of an operation whose readiness no event reports."""

NO_WATCHER: Any = ThreadFdWatcher(-1)
NO_WATCHER.scheduler = object()  # no caller has this scheduler


class TimeoutSocket(standard.socket):
    """A standard socket whose calls park within its timeout. The module's docstring describes the attributes."""

    __slots__ = ("call_timeout_", "mode_set", "sends_until_check", "watcher_", "watchers_")

    def __init__(self, family: int = -1, type: int = -1, proto: int = -1, fileno: int | None = None) -> None:
        new_socket = outside.new_socket  # read once, because another OS thread may unset it
        if new_socket is not None:
            family, type, proto, fileno = new_socket(self, family, type, proto, fileno)
        self.watcher_: Any = NO_WATCHER
        self.watchers_: FdWatchers = FdWatchers(-1)
        # Whether the fd's blocking mode is known; it is unknown until a timeout is set.
        self.mode_set: bool = False
        super().__init__(family, type, proto, fileno)
        self.watchers_.fd = fd = self.fileno()
        # The number of sends until a send checks how long its caller's turn has lasted. The first number depends on the
        # fd. So a broadcast, which sends once to each of many sockets, checks the turn at some of these sockets.
        self.sends_until_check: int = fd % CALLS_PER_CHECK + 1
        self.sync_timeout()

    def stop_watching(self) -> None:
        """Remove the fd from every poller before it is closed, and wake its waiters with EBADF."""
        self.watcher_ = NO_WATCHER
        self.watchers_.close()

    # ---- standard methods, called through ``outside.sockets``, which a simulation replaces

    def bind(self, address: Any, /) -> None:
        """Bind to an address. Source: ``socket.socket.bind``."""
        outside.sockets.bind(self, address)

    def listen(self, backlog: int = min(standard.SOMAXCONN, 128), /) -> None:
        """Start listening for connections. Source: ``socket.socket.listen``."""
        outside.sockets.listen(self, backlog)

    def shutdown(self, how: int, /) -> None:
        """End receiving, sending or both. Source: ``socket.socket.shutdown``."""
        outside.sockets.shutdown(self, how)

    def getsockname(self) -> Any:
        """Return the socket's own address. Source: ``socket.socket.getsockname``."""
        return outside.sockets.getsockname(self)

    def getpeername(self) -> Any:
        """Return the peer's address. Source: ``socket.socket.getpeername``."""
        return outside.sockets.getpeername(self)

    def getsockopt(self, level: int, option: int, *buflen: int) -> Any:
        """Return the value of an option. Source: ``socket.socket.getsockopt``."""
        return outside.sockets.getsockopt(self, level, option, *buflen)

    # ---- timeouts

    def sync_timeout(self) -> None:
        """Copy the timeout that was just set in C, and adapt the fd's blocking mode to the timeout."""
        self.call_timeout_: float | None = plain.gettimeout(self)
        timeout = self.call_timeout_
        # With a timeout, C would call poll() before each call. Without MSG_DONTWAIT, only the fd's mode keeps a call
        # from blocking.
        if timeout or (timeout is None and not DONTWAIT):
            plain.setblocking(self, False)
        # Fast paths conclude from a cached watcher that there is no deadline to check.
        if timeout is not None:
            self.watcher_ = NO_WATCHER

    def gettimeout(self) -> float | None:
        """Return the timeout of each call in seconds; None means to wait forever, 0 means never to wait."""
        return self.call_timeout_

    def settimeout(self, value: float | None, /) -> None:
        """Set the timeout of each call in seconds; None: wait forever, 0: never wait. Raises: ValueError, TypeError."""
        # No system call is made if the fd already has the right mode. redis-py sets the timeout to 0 and back for each
        # command: the two calls together take 0.2 µs instead of 0.86 µs. PyMySQL sets its timeout before each of the 10
        # reads of a query: each call takes 0.1 µs instead of 0.35 µs.
        if not self.watchers_.closed:
            if value is None:
                if self.call_timeout_ is None and self.mode_set:
                    return
            elif self.call_timeout_ is not None and is_usual_timeout(value):
                self.call_timeout_ = float(value)
                return
        plain.settimeout(self, value)
        self.sync_timeout()
        self.mode_set = True

    timeout: Any = property(gettimeout)

    def setblocking(self, flag: bool, /) -> None:
        """Set whether calls wait forever (True) or never (False)."""
        plain.setblocking(self, flag)
        self.sync_timeout()

    def getblocking(self) -> bool:
        """Return whether calls may wait."""
        return self.call_timeout_ != 0

    def reset_blocking(self) -> None:
        """Set the fd to blocking mode if the fd stays in that mode between calls: on Linux, without a timeout."""
        if self.call_timeout_ is None and DONTWAIT:
            self.make_blocking_()

    def make_blocking_(self) -> None:
        """Set the fd to blocking mode, unless the fd is closed."""
        try:
            plain.setblocking(self, True)
        except OSError:
            pass

    # ---- waiting

    def fd_watcher(self, me: Waiter) -> AnyFdWatcher:
        """Return the watcher of this fd for the waiter's scheduler. Raises: OSError (EBADF) if closed."""
        watcher = self.watchers_.of(me)
        if watcher.short_read_means_empty is None:
            self.note_limits()
            watcher.short_read_means_empty = self.short_read_means_empty()
            # A read of a Unix socket also ends at passed descriptors, so the poller must check again after a short
            # read.
            watcher.may_have_more = family_of(self) == system.AF_UNIX
        if self.watcher_ is NO_WATCHER and watcher.scheduler is not None and self.call_timeout_ is None:
            self.watcher_ = watcher
            # Check again: another thread may have set a timeout and cleared the cached watcher just before.
            if self.call_timeout_ is not None:
                self.watcher_ = NO_WATCHER
        return watcher

    def setsockopt(self, level: int, optname: int, *value: Any) -> None:
        """Set an option. SO_RCVTIMEO and SO_SNDTIMEO apply to a socket without a timeout. Source: socket(7)."""
        outside.sockets.setsockopt(self, level, optname, *value)
        if level == standard.SOL_SOCKET and optname in LIMITS:
            self.note_limits()

    def note_limits(self) -> None:
        """Pass SO_RCVTIMEO and SO_SNDTIMEO to the watchers. The fd's creator or a listener may have set them."""
        limits = limits_of(self)
        if limits != self.watchers_.limits:
            self.watchers_.limit(limits)

    def short_read_means_empty(self) -> bool:
        """Return whether a short read means that the socket has no more data: see ``FdWatcher``."""
        if type_of(self) != standard.SOCK_STREAM or sys.platform != "linux":
            return False
        if family_of(self) == system.AF_UNIX:
            return True
        # SCTP keeps message boundaries, so more data may follow a short read.
        return is_tcp(self)

    def note_drained(self) -> None:
        """Record a short read, so that the next read parks without a failing system call."""
        scheduler = scheduler_of_caller()
        watcher: Any = self.watchers_.get(scheduler) if scheduler is not None else None
        if watcher is not None and watcher.short_read_means_empty:
            watcher.readable = False
            if watcher.may_have_more:
                # The poller polls this fd again, because more data may follow a passed descriptor.
                watcher.poller.to_recheck.append(watcher)

    def read_until_blocked(self) -> None:
        """Ignore short reads from now on: after urgent data, a short read does not mean that the socket is empty."""
        for watcher in list(self.watchers_.values()):
            watcher.short_read_means_empty = False

    def park_within_timeout(
        self,
        wait: Callable[[Any, float | None], object],
        me: Waiter,
        deadline: float | None,
        message: str = "timed out",
    ) -> float | None:
        """Park with ``wait``, which returns TIMED_OUT at the end of the timeout.

        Returns: the deadline of the whole call, which is passed to the call's next park. Raises: TimeoutError with
        ``message``.
        """
        if self.call_timeout_ is None:
            wait(me, None)
            return None
        clock = clock_of(me)
        if deadline is None:
            # The timeout begins at the first park instead of the call, so a call that does not wait reads no clock.
            deadline = clock() + self.call_timeout_
        if wait(me, max(0.0, deadline - clock())) is TIMED_OUT:
            raise TimeoutError(message)
        return deadline

    @calls_out
    def read_when_ready(self, flags: int, operation: Callable[..., Any], *args: Any) -> Any:
        """Return ``operation(self, *args)`` as soon as the fd is readable. ``flags``: the program's flags."""
        me: Any = getcurrent()
        scheduler = getattr(me, "scheduler", None)
        timeout = self.call_timeout_
        now = timeout == 0 or (flags & NOW and timeout is None)  # the body of never_waits_(), repeated to save a call
        watcher: Any = self.watchers_.get(scheduler) if scheduler is not None and not now else None
        deadline: float | None = None
        # The caller may be a finalizer that runs during a park of this dhaga.
        if watcher is not None and (me.parked or me.wait_target is not None):
            me = this_waiter()
        if not now and (watcher is None or watcher.readable):
            yield_if_due()
        # A short read may end at urgent data, and the socket may then have more data, for which no other edge comes.
        if flags & OOB:
            self.read_until_blocked()
        while True:
            # If the socket is known to be empty, park first, unless the arguments may be invalid. Otherwise try: a try
            # costs less than a poll.
            if watcher is None or watcher.readable or not are_usual(args):
                try:
                    return operation(self, *args)
                except BlockingIOError:
                    if now:
                        if overlong:
                            found_nothing()
                        raise
                if watcher is None:
                    me = this_waiter()
                    watcher = self.fd_watcher(me)
                watcher.readable = False
            deadline = self.park_within_timeout(watcher.wait_readable, me, deadline)

    @calls_out
    def write_when_ready(self, flags: int, operation: Callable[..., Any], *args: Any) -> Any:
        """Return ``operation(self, *args)`` as soon as the fd is writable. ``flags``: the program's flags."""
        watcher: Any = None
        deadline: float | None = None
        while True:
            try:
                return operation(self, *args)
            except BlockingIOError:
                if self.never_waits_(flags):
                    if overlong:
                        found_nothing()
                    raise
            if watcher is None:
                me = this_waiter()
                watcher = self.fd_watcher(me)
            deadline = self.park_within_timeout(watcher.wait_writable, me, deadline)

    def never_waits_(self, flags: int) -> bool:
        """Return whether a call must not wait. As in the standard, a timeout overrides MSG_DONTWAIT."""
        timeout = self.call_timeout_
        return timeout == 0 or (timeout is None and bool(flags & NOW))

    def count_send(self, flags: int) -> None:
        """Count a send, and check the turn's duration at every ``CALLS_PER_CHECK``-th send."""
        self.sends_until_check -= 1
        if self.sends_until_check <= 0:
            self.check_turn(flags)

    def check_turn(self, flags: int) -> None:
        """End the caller's turn if its time budget is used up, unless the call must not wait."""
        self.sends_until_check = CALLS_PER_CHECK
        if not self.never_waits_(flags):
            yield_if_due()

    def send_whole_(self, data: Any, sent: int, flags: int) -> int:
        """Send the rest of ``data`` after a send of its first ``sent`` bytes. Source: send(2) in blocking mode.

        Only streams without a timeout send the rest; on other sockets, a call may send only a part. Parks: while the
        buffer is full. Returns: the total number of bytes sent, less than all if a cancel, an error or SO_SNDTIMEO ends
        the call.
        """
        if self.call_timeout_ is not None or flags & NOW or type_of(self) != standard.SOCK_STREAM:
            return sent
        with memoryview(data) as view:
            if sent == view.nbytes:
                return sent
            try:
                me = this_waiter()
            except ParkError:  # the caller cannot park
                return sent
            wait = self.waits_for_room_(me)

            def send_part(rest: memoryview) -> int:
                try:
                    return plain.send(self, rest, flags | DONTWAIT)
                except BlockingIOError:
                    return 0

            with view.cast("B") as octets:
                return write_all(me, self.watchers_.fd, octets, wait, send_part, sent)

    def waits_for_room_(self, me: Waiter) -> Callable[[], object]:
        """Return a function that parks until the fd is writable, or raises BlockingIOError after SO_SNDTIMEO."""
        watcher = self.fd_watcher(me)
        clock, limit = clock_of(me), self.watchers_.limits[1]
        gives_up_at = None if limit is None else clock() + limit

        def wait() -> None:
            yield_if_due()
            left = None if gives_up_at is None else max(0.0, gives_up_at - clock())
            if watcher.wait_writable(me, left) is TIMED_OUT:
                raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

        return wait

    def retry_with_backoff(
        self, flags: int, operation: Callable[..., Any], *args: Any, limit: int = standard.SO_SNDTIMEO
    ) -> Any:
        """Return ``operation(self, *args)``, after retries with growing pauses. Parks: ``sleep``.

        Operations whose readiness no event reports need this method, such as a send to a Unix socket that has no room.
        ``flags``: the program's flags. ``limit``: the socket option that limits the wait.
        """
        deadline: float | None = None
        gives_up_at: float | None = None
        for pause in backoff(*PAUSES):
            try:
                return operation(self, *args)
            except BlockingIOError:
                if self.never_waits_(flags):
                    raise
                now = clock_here()()
                if gives_up_at is None:
                    seconds = seconds_of(self, limit) if self.call_timeout_ is None else None
                    gives_up_at = math.inf if seconds is None else now + seconds
                if now >= gives_up_at:
                    raise
            deadline = self.park_within_timeout(pause_for(pause), this_waiter(), deadline)


def is_tcp(sock: Any) -> bool:
    """Return whether a stream socket is TCP. From: a caller on Linux."""
    protocol = sock.getsockopt(standard.SOL_SOCKET, standard.SO_PROTOCOL)
    return protocol == standard.IPPROTO_TCP and family_of(sock) in (standard.AF_INET, standard.AF_INET6)


def is_usual_timeout(value: object) -> TypeGuard[float]:
    """Return whether C would accept a timeout unchanged: 0, or a number in a range that C does not round."""
    return (value.__class__ is float or value.__class__ is int) and (value == 0 or 1e-6 <= value <= 1e6)


def are_usual(args: tuple[Any, ...]) -> bool:
    """Return whether the arguments of a read are certainly valid: sizes, flags, and buffers with enough room."""
    room = sys.maxsize
    for each in args:
        if each.__class__ is int:
            if not 0 <= each <= room:
                return False
            room = sys.maxsize
        elif each.__class__ is bytearray or (each.__class__ is memoryview and not each.readonly):
            room = len(each)
        else:
            return False
    return True


def pause_for(seconds: float) -> Callable[[Any, float | None], object]:
    """Return a function that sleeps for ``seconds`` within the time left, or returns TIMED_OUT if no time is left."""

    def wait(me: Waiter, left: float | None) -> object:
        if left is not None and left <= 0:
            return TIMED_OUT
        sleep(seconds if left is None else min(seconds, left))
        return None

    return wait
