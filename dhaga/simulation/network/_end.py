"""``End``: one socket of the program. Its fd is one end of a real socketpair; the network holds the other end.

So ``recv``, ``send``, ``select``, TLS and C code work on the fd as on any other fd. The program may duplicate the
fd, and create further socket objects for it. So an ``End`` is found by the inode of its fd.
"""

from __future__ import annotations

import os
import socket as standard
import struct
from _socket import socket as plain
from _socket import socketpair
from collections import deque
from fcntl import ioctl
from termios import TIOCOUTQ
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from ..._kernel import originals
from ._hosts import ANY, is_loopback

if TYPE_CHECKING:
    from ._hosts import Host
    from ._listening import Backlog
    from ._wire import Wire

Address = tuple[str, int]

NEW, LISTENING, CONNECTING, ANSWERED, CONNECTED = "new", "listening", "connecting", "answered", "connected"
FAILED, CLOSED = "failed", "closed"

FILLER = b"." * 65_536
"""Bytes that fill the send buffer of a stream until the stream is connected, so that no earlier send succeeds."""

standard_fstat = os.fstat
standard_dup = os.dup


class End:
    """One socket. ``number``: its place in the order of creation. ``fd``: its first fd, which the program closes."""

    def __init__(self, number: int, host: Host, family: int, kind: int, proto: int) -> None:
        self.number = number
        self.host = host
        self.family = family
        self.kind = kind
        self.proto = proto or (standard.IPPROTO_TCP if kind == standard.SOCK_STREAM else standard.IPPROTO_UDP)
        # SOCK_SEQPACKET also keeps datagrams apart, and reports that the program has closed its end.
        own, self.wire = socketpair(standard.AF_UNIX, kind if self.is_stream else standard.SOCK_SEQPACKET)
        self.wire.setblocking(False)
        self.fd: int = own.detach()
        self.wire_fd: int = self.wire.fileno()
        self.fds = {self.fd: None}
        self.objects: WeakSet[Any] = WeakSet()
        self.inode: int = standard_fstat(self.fd).st_ino
        self.state = NEW
        self.error = 0
        # ``ended``: the program has shut down sending. ``hung_up``: it has closed the socket, or shut down both
        # directions. ``broken_off``: it was shown a reset. ``at_end``: it was shown the end of the other end's bytes.
        self.ended = self.hung_up = self.broken_off = self.at_end = False
        self.local: Address | None = None
        # The address from the call of bind(); a connect changes ``local``.
        self.bound_address: str = self.wildcard
        self.remote: Address | None = None
        self.options: dict[tuple[int, int], Any] = {}
        self.outgoing: Wire | None = None
        self.backlog: Backlog | None = None
        self.received: deque[tuple[bytes, Address]] = deque()
        self.source: Address = ("0.0.0.0", 0)

    def __repr__(self) -> str:
        return f"<End {self.number} on {self.host.name}, {self.state}, {self.local} to {self.remote}>"

    @property
    def is_stream(self) -> bool:
        return self.kind == standard.SOCK_STREAM

    @property
    def name(self) -> str:
        """The host and port, as events show them."""
        return f"{self.host.name}:{self.local[1] if self.local else 0}"

    @property
    def wildcard(self) -> str:
        """The address of an unbound socket."""
        return "::" if self.family == standard.AF_INET6 else "0.0.0.0"

    def form(self, address: Address | None) -> Any:
        """Return an address as a tuple in the format of the socket's family."""
        host, port = address or (self.wildcard, 0)
        if self.family != standard.AF_INET6:
            return host, port
        return (host if ":" in host else f"::ffff:{host}"), port, 0, 0

    def is_local(self) -> bool:
        """Return whether the address of the other end is a loopback address."""
        return self.remote is not None and is_loopback(self.remote[0])

    @property
    def port(self) -> int:
        return self.local[1] if self.local else 0

    def covers(self, address: str) -> bool:
        """Return whether this bound socket gets packets for an address."""
        return self.local is not None and covers(self.local[0], bool(self.options.get(V6_ONLY)), address)

    def rank_at(self, address: str) -> tuple[bool, bool, bool]:
        """Return the rank of this socket among those that cover an address. Linux prefers the highest rank."""
        is_exact = self.local is not None and self.local[0] == address
        return is_exact, self.remote is not None, self.family == standard.AF_INET

    def near_address(self, address: str) -> str:
        """Return the address that this socket has for another end at an address."""
        if self.bound_address not in ANY:
            return self.bound_address
        if is_loopback(address):
            return "::1" if ":" in address else "127.0.0.1"
        return self.host.address

    @property
    def is_over(self) -> bool:
        """Whether the connection no longer exists: after a reset, or after the ends of both directions."""
        return self.broken_off or (self.ended and self.at_end)

    def is_open(self) -> bool:
        """Return whether the socket is open in the program."""
        with duplicate_of(self) as own:
            return own is not None

    def has_unread(self) -> bool:
        """Return whether the program's socket contains an unread datagram."""
        return bool(struct.unpack("i", ioctl(self.wire_fd, TIOCOUTQ, bytes(4)))[0])

    def is_closed_by_program(self) -> bool:
        """Return whether the program has closed the socket or shut down both directions, perhaps unseen by the loop."""
        poll = originals.poll()
        poll.register(self.wire_fd, 0)
        return any(events & originals.select_module.POLLHUP for _, events in poll.poll(0))

    def resets_on_close(self) -> bool:
        """Return whether closing the socket resets its connection (SO_LINGER with 0 seconds)."""
        value = self.options.get(LINGER)
        if not isinstance(value, (bytes, bytearray)) or len(value) < 8:
            return False
        on, seconds = struct.unpack_from("ii", value)
        return bool(on) and not seconds

    # ---- the connecting socket

    def fill(self) -> None:
        """Make the program's fd unwritable."""
        with duplicate_of(self) as own:
            if own is not None:
                try:
                    while True:
                        own.send(FILLER, standard.MSG_DONTWAIT)
                except OSError:
                    pass

    def drain(self) -> None:
        """Make the program's fd writable again."""
        try:
            while self.wire.recv(1 << 20):
                pass
        except OSError:
            pass

    def take_error(self) -> int:
        """Return the pending errno and clear it (SO_ERROR)."""
        error, self.error = self.error, 0
        if error and self.state is FAILED:
            self.fill()
        return error

    def break_off(self) -> None:
        """Make the program see a reset. The next send, or the read after the received bytes, raises ECONNRESET.

        Later sends raise EPIPE. If the end of the stream has arrived before the reset, reads return the received bytes,
        and then no bytes, as on Linux.
        A Unix socket reports a reset if its peer is closed with unread bytes. So a byte is sent to the network's end
        before that end is closed.
        """
        with duplicate_of(self) as own:
            if own is not None and not self.at_end:
                try:
                    own.send(b".", standard.MSG_DONTWAIT)
                except OSError:
                    pass
        self.broken_off = True
        for sock in self.objects:
            sock.sends_until_check = 1  # so the next send is not made by the compiled function, which raises EPIPE
        self.close()

    def close(self) -> None:
        """Close the network's end."""
        self.state = CLOSED
        self.wire.close()


class duplicate_of:  # a context manager
    """A duplicate of the program's socket, or None if the program has closed it."""

    def __init__(self, end: End) -> None:
        self.end = end
        self.own: Any = None

    def __enter__(self) -> Any:
        for fd in self.end.fds:
            try:
                if standard_fstat(fd).st_ino == self.end.inode:
                    self.own = plain(standard.AF_UNIX, self.end.kind, 0, standard_dup(fd))
                    break
            except OSError:
                continue
        return self.own

    def __exit__(self, *_: object) -> None:
        if self.own is not None:
            self.own.close()


def os_error(error: int) -> OSError:
    return OSError(error, os.strerror(error))


def covers(own: str, v6_only: bool, address: str) -> bool:
    """Return whether a socket at ``own`` gets packets for an address. "::" also means IPv4 without IPV6_V6ONLY."""
    if own == "::":
        return ":" in address or not v6_only
    return own == address or (own == "0.0.0.0" and ":" not in address)


LINGER = (standard.SOL_SOCKET, standard.SO_LINGER)
REUSE_ADDRESS = (standard.SOL_SOCKET, standard.SO_REUSEADDR)
V6_ONLY = (standard.IPPROTO_IPV6, standard.IPV6_V6ONLY)
REUSE_PORT = (standard.SOL_SOCKET, getattr(standard, "SO_REUSEPORT", -1))

READS = WRITES = ENDS = HANG_UP = 0
if originals.epoll:
    select = originals.select_module
    READS = select.EPOLLIN | select.EPOLLRDHUP | select.EPOLLET
    WRITES = select.EPOLLOUT
    HANG_UP = select.EPOLLHUP
    ENDS = select.EPOLLRDHUP | select.EPOLLHUP | select.EPOLLERR
