"""The standard ``socket`` for dhagas: a call that would block parks, at most for the socket's timeout.

On Linux, the fd of a socket without a timeout stays in blocking mode, because processes that share the fd may rely on
that mode. So each call passes MSG_DONTWAIT. Elsewhere the fd is non-blocking. Each scheduler that uses a socket has a
``FdWatcher`` for the socket; a plain OS thread blocks. Dhagas of any schedulers may use a socket at the same time;
bytes go to the reader that runs first.

Timeouts and parking are in ``_iowait/socket_base.py``, ``sendfile`` is in ``_iowait/socket_sendfile.py``, and name
resolution is in ``_iowait/dns.py``. All other names are the standard module's own.
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
from ._iowait.socket_base import DONTWAIT, family_of, plain, type_of
from ._iowait.socket_wait_all import WAITALL, WaitAllSocket
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

DEFAULT_TIMEOUT: Any = standard._GLOBAL_DEFAULT_TIMEOUT  # type: ignore[attr-defined]

__getattr__: Callable[[str], Any]
__dir__: Callable[[], list[str]]
__getattr__, __dir__ = fall_back_to(standard, globals())


class socket(WaitAllSocket):
    """A socket whose blocking methods park. Source: ``socket.socket``; ``close`` wakes its waiters with EBADF."""

    __slots__ = ()

    sends_until_check: int

    # ---- receiving

    @compiled  # in C only without flags, for up to 64 KB
    @calls_out
    def recv(self, bufsize: int, flags: int = 0, /) -> bytes:
        """Receive up to ``bufsize`` bytes. Parks: until data arrives (``read fd N``). Raises: TimeoutError, OSError.

        As in the standard, ``MSG_WAITALL`` works on streams without a timeout. A cancel during such a call loses the
        bytes received.
        """
        watcher = self.watcher_
        usual = bufsize.__class__ is int and 0 < bufsize <= sys.maxsize
        if flags or not usual or scheduler_of_caller() is not watcher.scheduler:
            return self.recv_slow_path(bufsize, flags)
        if watcher.readable:
            yield_if_due()
        # The body of read_when_ready() without a timeout is repeated here: a call would take a fifth of an echo's time.
        while True:
            if watcher.readable:
                try:
                    data = outside.sockets.recv(self, bufsize, DONTWAIT)
                except BlockingIOError:
                    watcher.readable = False
                else:
                    if watcher.short_read_means_empty and len(data) < bufsize:
                        watcher.readable = False  # the next recv() parks without a failing system call
                        if watcher.may_have_more:
                            watcher.poller.to_recheck.append(watcher)
                    return data
            watcher.wait_readable(this_waiter())

    @calls_out
    def recv_slow_path(self, bufsize: int, flags: int) -> bytes:
        """Receive with flags or a timeout, or for a caller outside the cached watcher's scheduler."""
        if flags & WAITALL:
            if self.waits_for_all(flags):
                buffer = bytearray(bufsize)
                return bytes(buffer[: self.recv_all_(buffer, flags)])
            self.wait_to_peek_(bufsize, flags)
        if bufsize == 0:
            return outside.sockets.recv(self, 0, flags)  # never waits
        data: bytes = self.read_when_ready(flags, outside.sockets.recv, bufsize, flags | DONTWAIT)
        if len(data) < bufsize and not flags:
            self.note_drained()
        return data

    @compiled  # in C only for a bytearray or memoryview of up to 128 KB, without a size
    @calls_out
    def recv_into(self, buffer: Any, nbytes: int = 0, flags: int = 0) -> int:
        """Receive into a buffer. Parks: like ``recv``. Returns: the number of bytes."""
        if flags & WAITALL and self.waits_for_all(flags):
            with memoryview(buffer) as view, view.cast("B") as whole, whole[: nbytes or None] as wanted:
                if 0 <= nbytes <= len(whole):  # the plain call below refuses other sizes
                    return self.recv_all_(wanted, flags)
        size = nbytes or memoryview(buffer).nbytes  # a ctypes structure has no len()
        if size == 0:
            return outside.sockets.recv_into(self, buffer, 0, flags)  # never waits
        if flags & WAITALL:
            self.wait_to_peek_(size, flags)
        got: int = self.read_when_ready(flags, outside.sockets.recv_into, buffer, nbytes, flags | DONTWAIT)
        if got < size and not flags:
            self.note_drained()
        return got

    # ---- sending

    @compiled  # in C only for up to 64 KB of bytes, with MSG_DONTWAIT or (if no check of the turn is due) no flags
    @calls_out
    def send(self, data: Any, flags: int = 0, /) -> int:
        """Send data; with a timeout or MSG_DONTWAIT, only the part that fits into the buffer. Parks: while the buffer
        is full (``write fd N``). Returns: the number of bytes sent.
        """
        self.sends_until_check -= 1  # the body of count_send(), repeated to save a call
        if self.sends_until_check <= 0:
            self.check_turn(flags)
        sent: int = self.write_when_ready(flags, outside.sockets.send, data, flags | DONTWAIT)
        return sent if data.__class__ is bytes and sent == len(data) else self.send_whole_(data, sent, flags)

    @compiled  # in C only for up to 64 KB of bytes without flags, if no check of the turn is due; send_rest() continues
    def sendall(self, data: Any, flags: int = 0, /) -> None:
        """Send all data. Parks: while the send buffer is full (``write fd N``). The timeout is for the whole call."""
        self.sends_until_check -= 1  # the body of count_send(), repeated to save a call
        if self.sends_until_check <= 0:
            self.check_turn(flags)
        try:
            sent = outside.sockets.send(self, data, flags | DONTWAIT if flags else DONTWAIT)
            if data.__class__ is bytes and sent == len(data):
                return
        except BlockingIOError:
            if self.never_waits_(flags):
                raise
            sent = 0
        with memoryview(data) as view:
            if sent < view.nbytes:
                with view.cast("B") as rest:
                    self.send_rest(rest, sent, flags)

    def send_rest(self, data: memoryview, sent: int, flags: int) -> None:
        """Send the bytes that the first try has not sent. Parks: while the send buffer is full."""
        watcher: Any = None
        deadline: float | None = None
        while sent < len(data):
            self.check_turn(flags)
            try:
                sent += outside.sockets.send(self, data[sent:], flags | DONTWAIT)
                continue
            except BlockingIOError:
                if self.never_waits_(flags):
                    raise
            if watcher is None:
                me = this_waiter()
                watcher = self.fd_watcher(me)
            deadline = self.park_within_timeout(watcher.wait_writable, me, deadline)

    @calls_out
    def sendto(self, data: Any, *rest: Any) -> int:
        """Send a datagram: ``sendto(data, [flags,] address)``. Returns: the number of bytes; on a stream like ``send``.

        Parks: while the buffer is full (``write fd N``, or ``sleep`` for a Unix address); ``offload`` for a name.
        """
        if not 1 <= len(rest) <= 2:
            return outside.sockets.sendto(self, data, *rest)  # raises the standard TypeError
        flags = rest[0] if len(rest) == 2 else 0
        address = resolve_address(family_of(self), rest[-1])
        self.count_send(flags)
        sent: int = self.writer_to(address)(flags, outside.sockets.sendto, data, flags | DONTWAIT, address)
        return sent if data.__class__ is bytes and sent == len(data) else self.send_whole_(data, sent, flags)

    def sendmsg(
        self, buffers: Iterable[Any], ancdata: Iterable[Any] = (), flags: int = 0, address: Any = None, /
    ) -> int:
        """Send data and ancillary data. Parks: while the buffer is full (``write fd N``). Returns: like ``send``."""
        address = resolve_address(family_of(self), address)
        self.count_send(flags)
        send, parts = self.writer_to(address), list(buffers)
        sent: int = send(flags, outside.sockets.sendmsg, parts, list(ancdata), flags | DONTWAIT, address)
        whole = sent == sum(memoryview(part).nbytes for part in parts)
        return sent if whole else self.send_whole_(b"".join(parts), sent, flags)

    def writer_to(self, address: Any) -> Any:
        """Return a method that waits for room. At a Unix address, the method retries: no event reports room."""
        return (
            self.retry_with_backoff
            if address is not None and family_of(self) == system.AF_UNIX
            else self.write_when_ready
        )

    # ---- connections

    @calls_out
    def accept(self) -> tuple[socket, Any]:
        """Accept a connection. Parks: until one arrives (``read fd N``). Returns: a socket and the peer's address."""
        fd, address = self.read_when_ready(0, accept_once)
        return socket_factory()(family_of(self), type_of(self), self.proto, fileno=fd), address

    def connect(self, address: Any, /) -> None:
        """Connect. Parks: ``write fd N``, ``offload`` (name), ``sleep`` (Unix path). Raises: TimeoutError, OSError."""
        error = self.connect_errno(address)
        if error:
            raise system.socket_error(error)

    def connect_ex(self, address: Any, /) -> int:
        """Connect like ``connect``, but return the errno of most errors instead of raising them; 0 after success."""
        try:
            return self.connect_errno(address)
        except (BlockingIOError, TimeoutError):
            return errno.EAGAIN
        except OSError as error:
            if error.errno != errno.EBADF:  # for example, the host was not found
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
            me, deadline = this_waiter(), None
            while error in system.CONNECT_IN_PROGRESS:
                try:
                    deadline = self.park_within_timeout(self.fd_watcher(me).wait_writable, me, deadline)
                except BlockingIOError:  # SO_SNDTIMEO
                    return error
                error = self.connect_result_(address)
            return error
        finally:
            self.reset_blocking()

    def connect_result_(self, address: Any) -> int:
        """Return the errno of an attempt to connect, or 0. From: a caller that the writable fd has woken."""
        if sys.platform == "linux" and self.proto in (0, standard.IPPROTO_TCP):
            # With TCP, Linux regards the socket as connecting until another call of connect() returns the result.
            error = outside.sockets.connect_ex(self, address)
            return 0 if error == errno.EISCONN else error
        # connect(2): the fd becomes writable when the attempt is over, and SO_ERROR is its result.
        return self.getsockopt(standard.SOL_SOCKET, standard.SO_ERROR)  # type: ignore[no-any-return]

    # ---- ends

    def _real_close(self, *args: Any) -> None:
        self.stop_watching()
        super()._real_close(*args)  # type: ignore[misc]

    def detach(self) -> int:
        """Detach and return the fd, in the blocking mode that the timeout implies. Waiters of the socket get EBADF."""
        self.stop_watching()
        if self.call_timeout_ is None:
            self.make_blocking_()
        return super().detach()


def accept_once(sock: socket) -> Any:
    """Try once to accept a connection. Raises: BlockingIOError if no connection is pending."""
    # Repeated at each accept: another process may have made a shared listener blocking, and accept would then block.
    plain.setblocking(sock, False)
    return outside.sockets._accept(sock)  # type: ignore[attr-defined]


def accept_in_burst(sock: Any) -> tuple[Any, Any]:
    """Accept like ``sock.accept()``, but without ending the caller's turn. From: a loop with its own yields."""
    try:
        fd, address = accept_once(sock)
    except BlockingIOError:
        return sock.accept()  # type: ignore[no-any-return]
    return socket_factory()(family_of(sock), type_of(sock), sock.proto, fileno=fd), address


def connect_once(sock: socket, address: Any) -> int:
    """Try once to connect a Unix socket, and return an errno or 0. Raises: BlockingIOError if the backlog is full."""
    error = outside.sockets.connect_ex(sock, address)
    if error == errno.EAGAIN:
        raise BlockingIOError(error, os.strerror(error))
    return error


def adopt(other: Any) -> Any:
    """Return a socket of ours that takes over a standard socket's fd and timeout. Return other objects unchanged."""
    if type(other) is not standard_socket:  # a class that a program has put in place of ``socket.socket``
        return other
    timeout = other.gettimeout()
    sock = socket(other.family, other.type, other.proto, fileno=other.detach())
    sock.settimeout(timeout)
    return sock


def fromfd(fd: int, family: int, type: int, proto: int = 0) -> socket:
    """Return a socket over a duplicate of ``fd``. Source: ``socket.fromfd``."""
    return socket_factory()(family, type, proto, fileno=_socket.dup(fd))  # type: ignore[no-any-return]


def socketpair(family: int | None = None, type: int = standard.SOCK_STREAM, proto: int = 0) -> tuple[socket, socket]:
    """Return two connected sockets. Source: ``socket.socketpair``."""
    one, other = _standard_socketpair(system.PAIR_FAMILY if family is None else family, type, proto)
    return adopt(one), adopt(other)


def create_server(address: Any, **options: Any) -> socket:
    """Return a listening socket. Source: ``socket.create_server``, with its options."""
    return adopt(_standard_create_server(address, **options))  # type: ignore[no-any-return]


def socket_factory() -> Any:
    """Return the class of new sockets: ours, unless a proxy library or test has replaced ``socket.socket``."""
    factory: Any = standard.socket
    return socket if factory is standard_socket else factory


def lookup_function() -> Any:
    """Return ``getaddrinfo``: ours, unless a proxy library or test has replaced the standard function."""
    lookup: Any = standard.getaddrinfo
    return getaddrinfo if lookup is standard_getaddrinfo else lookup


def create_connection(
    address: tuple[str | None, int],
    timeout: float | None = DEFAULT_TIMEOUT,
    source_address: Any = None,
    *,
    all_errors: bool = False,
) -> socket:
    """Connect to a host's first address that answers. Parks: like ``connect``. Source: ``socket.create_connection``."""
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
            errors.clear()  # breaks the reference cycle between the errors' tracebacks and this frame
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
