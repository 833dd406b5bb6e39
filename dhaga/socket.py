"""The standard ``socket`` on dhagas: where a call would block it parks, within the socket's timeout.

On Linux the fd has the same blocking mode as with the standard, since processes that share it rely on that: each call
passes MSG_DONTWAIT instead. Elsewhere the fd never blocks. Each scheduler that uses a socket watches it through a
``FdWatcher`` of its own; a plain OS thread blocks for real. Any dhaga of any scheduler may use a socket, several at a
time; bytes go to the reader that runs first.

Timeouts and parking are in ``_iowait/socket_base.py``, ``sendfile`` in ``_iowait/socket_sendfile.py``, name resolution
in ``_iowait/dns.py``; all other names are the standard module's own.
"""

from __future__ import annotations

import _socket
import errno
import os
import socket as standard
import sys
from collections.abc import Callable, Iterable
from typing import Any

from ._iowait.dns import getaddrinfo as getaddrinfo
from ._iowait.dns import getfqdn as getfqdn
from ._iowait.dns import gethostbyaddr as gethostbyaddr
from ._iowait.dns import gethostbyname as gethostbyname
from ._iowait.dns import gethostbyname_ex as gethostbyname_ex
from ._iowait.dns import getnameinfo as getnameinfo
from ._iowait.dns import resolve_address, standard_getaddrinfo
from ._iowait.socket_base import DONTWAIT, NOW, OOB, family_of, plain, type_of
from ._iowait.socket_sendfile import SendfileSocket
from ._kernel import outside
from ._kernel.faces.stdlib_face import fall_back_to
from ._kernel.fast.compiled import compiled
from ._kernel.platform.system import system
from ._kernel.run.call_outs import calls_out
from ._kernel.run.turn_budget import yield_if_due
from ._kernel.wait.current import scheduler_of_caller, this_waiter

__all__ = list(standard.__all__)  # pyright: ignore[reportUnsupportedDunderAll]

# The standard library's functions, taken before a patch can replace them.
standard_socket = standard.socket
_standard_socketpair = standard.socketpair
_standard_create_server = standard.create_server

_plain_recv_into, _plain_send = plain.recv_into, plain.send
WAITALL, PEEK = int(standard.MSG_WAITALL), int(standard.MSG_PEEK)
DEFAULT_TIMEOUT: Any = standard._GLOBAL_DEFAULT_TIMEOUT  # type: ignore[attr-defined]

__getattr__: Callable[[str], Any]
__dir__: Callable[[], list[str]]
__getattr__, __dir__ = fall_back_to(standard, globals())


class socket(SendfileSocket):
    """A socket whose blocking methods park. Source: ``socket.socket``; ``close`` wakes its waiters with EBADF."""

    __slots__ = ()

    sends_until_check: int

    # ---- receiving

    @compiled  # C: no flags, up to 64 KB
    @calls_out
    def recv(self, bufsize: int, flags: int = 0, /) -> bytes:
        """Receive up to ``bufsize`` bytes. Parks: while there are none (``read fd N``). Raises: TimeoutError, OSError.

        ``MSG_WAITALL`` works on streams without a timeout, as in the standard; a cancel then loses the bytes received.
        """
        watcher = self.watcher_
        usual = bufsize.__class__ is int and 0 < bufsize <= sys.maxsize
        if flags or not usual or scheduler_of_caller() is not watcher.scheduler:
            return self.recv_slow_path(bufsize, flags)
        if watcher.readable:
            yield_if_due()
        while True:  # read_when_ready() for a dhaga without timeout: a fifth of an echo
            if watcher.readable:
                try:
                    data = outside.sockets.recv(self, bufsize, DONTWAIT)
                except BlockingIOError:
                    watcher.readable = False
                else:
                    if watcher.short_read_means_empty and len(data) < bufsize:
                        watcher.readable = False  # park next time, without a system call that fails
                        if watcher.may_have_more:
                            watcher.poller.to_recheck.append(watcher)
                    return data
            watcher.wait_readable(this_waiter())

    @calls_out
    def recv_slow_path(self, bufsize: int, flags: int) -> bytes:
        """Receive for flags, timeouts, and callers other than dhagas of the cached watcher's scheduler."""
        if flags & WAITALL and self.waits_for_all(flags):
            buffer = bytearray(bufsize)
            return bytes(buffer[: self.recv_all_(buffer, flags)])
        if bufsize == 0:
            return outside.sockets.recv(self, 0, flags)  # never waits
        data: bytes = self.read_when_ready(flags, outside.sockets.recv, bufsize, flags | DONTWAIT)
        if len(data) < bufsize and not flags:
            self.note_drained()
        return data

    def waits_for_all(self, flags: int) -> bool:
        """Return whether MSG_WAITALL has a meaning here."""
        return self.call_timeout_ is None and not flags & (PEEK | OOB) and type_of(self) == standard.SOCK_STREAM

    def recv_all_(self, buffer: Any, flags: int) -> int:
        """Receive until the buffer is full or the stream ends. Returns: the number of bytes."""
        got = 0
        with memoryview(buffer) as view:
            while got < len(view):
                with view[got:] as rest:  # released: a kept error keeps the frames that have it
                    more = self.read_when_ready(flags, _plain_recv_into, rest, 0, flags | DONTWAIT)
                if not more:
                    break
                got += more
        return got

    @compiled  # C: a bytearray or memoryview of up to 128 KB, no size
    @calls_out
    def recv_into(self, buffer: Any, nbytes: int = 0, flags: int = 0) -> int:
        """Receive into a buffer. Parks: as ``recv``. Returns: the number of bytes."""
        if flags & WAITALL and self.waits_for_all(flags):
            with memoryview(buffer) as view, view.cast("B") as whole, whole[: nbytes or None] as wanted:
                return self.recv_all_(wanted, flags)
        if nbytes == 0 and not len(buffer):
            return _plain_recv_into(self, buffer, 0, flags)  # never waits
        got: int = self.read_when_ready(flags, _plain_recv_into, buffer, nbytes, flags | DONTWAIT)
        if got < (nbytes or len(buffer)) and not flags:
            self.note_drained()
        return got

    @calls_out
    def recvfrom(self, bufsize: int, flags: int = 0, /) -> tuple[bytes, Any]:
        """Receive, with the sender's address. Parks: as ``recv``."""
        return self.read_when_ready(flags, outside.sockets.recvfrom, bufsize, flags | DONTWAIT)  # type: ignore[no-any-return]

    @calls_out
    def recvfrom_into(self, buffer: Any, nbytes: int = 0, flags: int = 0) -> tuple[int, Any]:
        """Receive into a buffer, with the sender's address. Parks: as ``recv``."""
        return self.read_when_ready(flags, outside.sockets.recvfrom_into, buffer, nbytes, flags | DONTWAIT)  # type: ignore[no-any-return]

    @calls_out
    def recvmsg(self, bufsize: int, ancbufsize: int = 0, flags: int = 0, /) -> Any:
        """Receive with ancillary data. Parks: as ``recv``."""
        return self.read_when_ready(flags, outside.sockets.recvmsg, bufsize, ancbufsize, flags | DONTWAIT)

    @calls_out
    def recvmsg_into(self, buffers: Iterable[Any], ancbufsize: int = 0, flags: int = 0, /) -> Any:
        """Receive into buffers, with ancillary data. Parks: as ``recv``."""
        return self.read_when_ready(flags, outside.sockets.recvmsg_into, list(buffers), ancbufsize, flags | DONTWAIT)

    # ---- sending

    @compiled  # C: bytes, up to 64 KB; no flags and the turn's clock is not due, or MSG_DONTWAIT
    @calls_out
    def send(self, data: Any, flags: int = 0, /) -> int:
        """Send; with a timeout, or MSG_DONTWAIT, a part: what fits into the buffer. Parks: while it is full (``write fd
        N``). Returns: the number of bytes."""
        self.sends_until_check -= 1  # count_send(), written out
        if self.sends_until_check <= 0:
            self.check_turn(flags)
        sent: int = self.write_when_ready(flags, _plain_send, data, flags | DONTWAIT)
        return sent if data.__class__ is bytes and sent == len(data) else self.send_whole_(data, sent, flags)

    @compiled  # C: as send(); send_rest() sends what did not fit
    def sendall(self, data: Any, flags: int = 0, /) -> None:
        """Send everything. Parks: while the send buffer is full (``write fd N``). The timeout bounds the whole call."""
        self.sends_until_check -= 1  # count_send(), written out
        if self.sends_until_check <= 0:
            self.check_turn(flags)
        try:
            sent = _plain_send(self, data, flags | DONTWAIT if flags else DONTWAIT)
            if data.__class__ is bytes and sent == len(data):
                return
        except BlockingIOError:
            if self.call_timeout_ == 0 or flags & NOW:
                raise
            sent = 0
        with memoryview(data) as view:
            if sent < view.nbytes:
                with view.cast("B") as rest:
                    self.send_rest(rest, sent, flags)

    def send_rest(self, data: memoryview, sent: int, flags: int) -> None:
        """Send the bytes that the first try has left, parking at each full buffer."""
        watcher: Any = None
        deadline: float | None = None
        while sent < len(data):
            self.check_turn(flags)
            try:
                sent += _plain_send(self, data[sent:], flags | DONTWAIT)
                continue
            except BlockingIOError:
                if self.call_timeout_ == 0 or flags & NOW:
                    raise
            if watcher is None:
                me = this_waiter()
                watcher = self.fd_watcher(me)
            deadline = self.park_within_timeout(watcher.wait_writable, me, deadline)

    @calls_out
    def sendto(self, data: Any, *rest: Any) -> int:
        """Send a datagram: ``sendto(data, [flags,] address)``. Parks: while the buffer is full (``write fd N``).

        Returns: the number of bytes, on a stream as ``send``.
        """
        if not 1 <= len(rest) <= 2:
            return outside.sockets.sendto(self, data, *rest)  # which raises the standard TypeError
        flags = rest[0] if len(rest) == 2 else 0
        address = resolve_address(family_of(self), rest[-1])
        self.count_send(flags)
        sent: int = self.writer_to(address)(flags, outside.sockets.sendto, data, flags | DONTWAIT, address)
        return sent if data.__class__ is bytes and sent == len(data) else self.send_whole_(data, sent, flags)

    def sendmsg(
        self, buffers: Iterable[Any], ancdata: Iterable[Any] = (), flags: int = 0, address: Any = None, /
    ) -> int:
        """Send with ancillary data. Parks: while the send buffer is full (``write fd N``). Returns: as ``send``."""
        address = resolve_address(family_of(self), address)
        self.count_send(flags)
        send, parts = self.writer_to(address), list(buffers)
        sent: int = send(flags, outside.sockets.sendmsg, parts, list(ancdata), flags | DONTWAIT, address)
        whole = sent == sum(memoryview(part).nbytes for part in parts)
        return sent if whole else self.send_whole_(b"".join(parts), sent, flags)

    def writer_to(self, address: Any) -> Any:
        """Return the method that waits for room: no event reports room at a named Unix socket."""
        return (
            self.retry_with_backoff
            if address is not None and family_of(self) == system.AF_UNIX
            else self.write_when_ready
        )

    # ---- connections

    @calls_out
    def accept(self) -> tuple[socket, Any]:
        """Accept a connection. Parks: until one arrives (``read fd N``). Returns: a socket, and the peer's address."""
        fd, address = self.read_when_ready(0, accept_once)
        return socket_factory()(family_of(self), type_of(self), self.proto, fileno=fd), address

    def connect(self, address: Any, /) -> None:
        """Connect. Parks: until connected (``write fd N``); for a name ``offload``. Raises: TimeoutError, OSError."""
        error = self.connect_errno(address)
        if error:
            raise system.socket_error(error)

    def connect_ex(self, address: Any, /) -> int:
        """Connect; return the errno instead of raising it."""
        try:
            return self.connect_errno(address)
        except (BlockingIOError, TimeoutError):
            return errno.EAGAIN
        except OSError as error:
            if error.errno != errno.EBADF:  # a host that was not found, for example
                raise
            return errno.EBADF

    def connect_errno(self, address: Any) -> int:
        """Connect, and return an errno or 0. Raises: BlockingIOError, TimeoutError, and errors of the resolver."""
        address = resolve_address(family_of(self), address)
        plain.setblocking(self, False)
        try:
            if family_of(self) == system.AF_UNIX:
                return self.retry_with_backoff(0, connect_once, address)  # type: ignore[no-any-return]
            error = outside.sockets.connect_ex(self, address)
            if error not in system.CONNECT_IN_PROGRESS or self.call_timeout_ == 0:
                return error
            me = this_waiter()
            try:
                self.park_within_timeout(self.fd_watcher(me).wait_writable, me, None)
            except BlockingIOError:  # SO_SNDTIMEO
                return error
            # connect(2): writability means that the attempt is over, and SO_ERROR says how.
            return self.getsockopt(standard.SOL_SOCKET, standard.SO_ERROR)  # type: ignore[no-any-return]
        finally:
            self.reset_blocking()

    # ---- ends

    def _real_close(self, *args: Any) -> None:
        self.stop_watching()
        super()._real_close(*args)  # type: ignore[misc]

    def detach(self) -> int:
        """Detach the fd, in the blocking mode that the timeout implies. The object is closed; its waiters get EBADF."""
        self.stop_watching()
        if self.call_timeout_ is None:
            self.make_blocking_()
        return super().detach()


def accept_once(sock: socket) -> Any:
    """Try to accept once. Raises: BlockingIOError if no connection waits."""
    # At each accept: a process that shares the listener may have made it blocking, and would stop this thread.
    plain.setblocking(sock, False)
    return outside.sockets._accept(sock)  # type: ignore[attr-defined]


def accept_in_burst(sock: Any) -> tuple[Any, Any]:
    """Accept as ``sock.accept()`` does, but never end the caller's turn. From: a loop that yields by itself."""
    try:
        fd, address = accept_once(sock)
    except BlockingIOError:
        return sock.accept()  # type: ignore[no-any-return]
    return socket_factory()(family_of(sock), type_of(sock), sock.proto, fileno=fd), address


def connect_once(sock: socket, address: Any) -> int:
    """Try to connect a Unix socket once; return an errno. Raises: BlockingIOError while the backlog is full."""
    error = outside.sockets.connect_ex(sock, address)
    if error == errno.EAGAIN:
        raise BlockingIOError(error, os.strerror(error))
    return error


def adopt(other: Any) -> Any:
    """Return a socket that takes over the fd and timeout of a standard one; anything else unchanged."""
    if type(other) is not standard_socket:  # of a program's ``socket.socket``
        return other
    timeout = other.gettimeout()
    sock = socket(other.family, other.type, other.proto, fileno=other.detach())
    sock.settimeout(timeout)
    return sock


def fromfd(fd: int, family: int, type: int, proto: int = 0) -> socket:
    """Make a socket over a duplicate of ``fd``. Source: ``socket.fromfd``."""
    return socket_factory()(family, type, proto, fileno=_socket.dup(fd))  # type: ignore[no-any-return]


def socketpair(family: int | None = None, type: int = standard.SOCK_STREAM, proto: int = 0) -> tuple[socket, socket]:
    """Make two connected sockets. Source: ``socket.socketpair``."""
    one, other = _standard_socketpair(system.PAIR_FAMILY if family is None else family, type, proto)
    return adopt(one), adopt(other)


def create_server(address: Any, **options: Any) -> socket:
    """Make a listening socket. Source: ``socket.create_server``, with its options."""
    return adopt(_standard_create_server(address, **options))  # type: ignore[no-any-return]


def socket_factory() -> Any:
    """Return the class of new sockets: ours, or the replacement of ``socket.socket`` by a proxy or test."""
    factory: Any = standard.socket
    return socket if factory is standard_socket else factory


def lookup_function() -> Any:
    """Return ``getaddrinfo``: ours, or its replacement by a proxy or test."""
    lookup: Any = standard.getaddrinfo
    return getaddrinfo if lookup is standard_getaddrinfo else lookup


def create_connection(
    address: tuple[str | None, int],
    timeout: float | None = DEFAULT_TIMEOUT,
    source_address: Any = None,
    *,
    all_errors: bool = False,
) -> socket:
    """Connect to the first address of a host that answers. Parks: as ``connect``. Source: the standard one."""
    host, port = address
    errors: list[Exception] = []
    new_socket, lookup = socket_factory(), lookup_function()
    for family, kind, proto, _, target in lookup(host, port, 0, standard.SOCK_STREAM):
        sock = None
        try:
            sock = new_socket(family, kind, proto)
            if timeout is not DEFAULT_TIMEOUT:
                sock.settimeout(timeout)
            if source_address:
                sock.bind(source_address)
            sock.connect(target)
            errors.clear()  # an error's traceback holds this frame, and this frame the errors
            return sock  # type: ignore[no-any-return]
        except BaseException as error:
            if sock is not None:
                sock.close()
            if not isinstance(error, OSError):
                raise
            if not all_errors:
                errors.clear()  # only the last error is raised
            errors.append(error)
    if not errors:
        raise OSError("getaddrinfo returns an empty list")
    try:
        raise ExceptionGroup("create_connection failed", errors) if all_errors else errors[0]
    finally:
        errors.clear()
