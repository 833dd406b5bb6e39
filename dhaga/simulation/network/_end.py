"""``End``: one socket of the program. Its fd is one end of a real socketpair; the network holds the other end.

So ``recv``, ``send``, ``select``, TLS and C code work on it as ever. The fd may be duplicated, and other objects may be
made over it: an end is found by the inode of its socket.
"""

from __future__ import annotations

import errno
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
"""Fills the buffer of a connecting socket, which is not writable until it is connected."""

standard_fstat = os.fstat
standard_dup = os.dup


class End:
    """One socket. ``number`` counts the sockets of the run; ``fd``: its first number, the program's to close."""

    def __init__(self, number: int, host: Host, family: int, kind: int, proto: int) -> None:
        self.number = number
        self.host = host
        self.family = family
        self.kind = kind
        self.proto = proto or (standard.IPPROTO_TCP if kind == standard.SOCK_STREAM else standard.IPPROTO_UDP)
        own, self.wire = socketpair(standard.AF_UNIX, kind)
        self.wire.setblocking(False)
        self.fd: int = own.detach()
        self.wire_fd: int = self.wire.fileno()
        self.fds = {self.fd: None}
        self.objects: WeakSet[Any] = WeakSet()
        self.inode: int = standard_fstat(self.fd).st_ino
        self.state = NEW
        self.error = 0
        # Whether the program has shut its sending side down, and whether it has closed the socket.
        self.ended = self.hung_up = self.broken_off = False
        self.local: Address | None = None
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
        """The host and port, for the events."""
        return f"{self.host.name}:{self.local[1] if self.local else 0}"

    def form(self, address: Address | None) -> Any:
        """Return an address in the form of the socket's family."""
        host, port = address or ("0.0.0.0", 0)
        if self.family != standard.AF_INET6:
            return host, port
        host = "::" if host == "0.0.0.0" else "::1" if host == "127.0.0.1" else host
        return (host if ":" in host else f"::ffff:{host}"), port, 0, 0

    def is_local(self) -> bool:
        """Return whether the other end is on the same host by the loopback address."""
        return self.remote is not None and is_loopback(self.remote[0])

    @property
    def port(self) -> int:
        return self.local[1] if self.local else 0

    def accepts(self, address: str) -> bool:
        """Return whether a listener at its own address takes connections to this one."""
        own = self.local[0] if self.local else "0.0.0.0"
        return own in ANY or own == address or (is_loopback(own) and is_loopback(address))

    def has_unread(self) -> bool:
        """Return whether the program has a datagram that it has not read yet."""
        return bool(struct.unpack("i", ioctl(self.wire_fd, TIOCOUTQ, bytes(4)))[0])

    def resets_on_close(self) -> bool:
        """Return whether the program has set SO_LINGER so that to close is to reset."""
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
        """Make the fd writable again."""
        try:
            while self.wire.recv(1 << 20):
                pass
        except OSError:
            pass

    def take_error(self) -> int:
        """Return the pending errno, and clear it (SO_ERROR)."""
        error, self.error = self.error, 0
        return error

    def break_off(self) -> None:
        """Show the program a reset: its next read raises ECONNRESET, its next write EPIPE.

        A Unix socket sees one if its peer is closed before it has read everything.
        """
        with duplicate_of(self) as own:
            if own is not None:
                try:
                    own.send(b".", standard.MSG_DONTWAIT)
                except OSError:
                    pass
        self.error = errno.ECONNRESET
        self.broken_off = True
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


LINGER = (standard.SOL_SOCKET, standard.SO_LINGER)
REUSE_PORT = (standard.SOL_SOCKET, getattr(standard, "SO_REUSEPORT", -1))

READS = WRITES = ENDS = HANG_UP = 0
if originals.epoll:
    select = originals.select_module
    READS = select.EPOLLIN | select.EPOLLRDHUP | select.EPOLLET
    WRITES = select.EPOLLOUT
    HANG_UP = select.EPOLLHUP
    ENDS = select.EPOLLRDHUP | select.EPOLLHUP | select.EPOLLERR
