"""The standard ``socket`` on dhagas: where a blocking call would have to wait, it parks, within the socket's timeout.

On Linux the fd is as blocking as the standard's would be, on which those rely who share it (a child process, say): each
call asks for itself not to wait. Elsewhere the fd never blocks. Each scheduler that uses a socket watches it through a
``Channel`` of its own; a plain OS thread waits for real.

How a socket waits is in ``patience.py``, the look-ups of names are in ``resolve.py``. Whatever is defined in none of
them is the standard module's own (``__getattr__``).
"""

from __future__ import annotations

import _socket
import errno
import os
import socket as standard
from collections.abc import Iterable
from typing import Any

from greenlet import getcurrent

from .kernel.channel import READ
from .kernel.waiting import this_waiter
from .patience import DONTWAIT, NOW, OOB, PatientSocket, family_of, plain, type_of
from .resolve import getaddrinfo as getaddrinfo
from .resolve import getfqdn as getfqdn
from .resolve import gethostbyaddr as gethostbyaddr
from .resolve import gethostbyname as gethostbyname
from .resolve import gethostbyname_ex as gethostbyname_ex
from .resolve import getnameinfo as getnameinfo
from .resolve import look_up_address, resolved

__all__ = list(standard.__all__)  # pyright: ignore[reportUnsupportedDunderAll]

# The standard library's own, taken before anybody can patch them.
standard_socketpair = standard.socketpair
standard_create_server = standard.create_server
os_sendfile = getattr(os, "sendfile", None)

plain_recv, plain_recv_into, plain_send = plain.recv, plain.recv_into, plain.send
WAITALL, PEEK = int(standard.MSG_WAITALL), int(standard.MSG_PEEK)
UNDER_WAY = (errno.EINPROGRESS, errno.EALREADY)
SENDFILE_BLOCK = 1 << 22
DEFAULT_TIMEOUT: Any = standard._GLOBAL_DEFAULT_TIMEOUT  # type: ignore[attr-defined]


def __getattr__(name: str) -> Any:
    return getattr(standard, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *dir(standard)})


class socket(PatientSocket):
    """A socket whose blocking methods park. Source: ``socket.socket``; ``close`` wakes its waiters with EBADF."""

    __slots__ = ()

    # ---- receiving

    def recv(self, bufsize: int, flags: int = 0, /) -> bytes:
        """Receive up to ``bufsize`` bytes. Parks: while there are none (``read fd N``). Raises: TimeoutError, OSError.

        ``MSG_WAITALL`` counts for streams without a timeout, as in the standard; a cancel then loses what has come.
        """
        me: Any = getcurrent()
        channel = self.channel
        try:
            scheduler = me.scheduler
        except AttributeError:  # main code, a plain thread, an event loop
            scheduler = None
        if scheduler is not channel.scheduler or flags:
            return self.recv_long(bufsize, flags)
        while True:  # reading(), written out for a dhaga without timeout: 15 % of an echo
            if channel.readable:
                try:
                    data = plain_recv(self, bufsize, DONTWAIT)
                except BlockingIOError:
                    channel.readable = False
                else:
                    if channel.drains and len(data) < bufsize:
                        channel.readable = False  # park next time, without a system call that fails
                        if channel.doubtful:
                            channel.poller.doubts.append(channel)
                    return data
            elif bufsize <= 0:
                return plain_recv(self, bufsize)  # which has nothing to wait for
            if me.pending:  # Channel.wait_readable()
                raise me.pending.pop(0)
            me.place = channel
            me.parked.append(channel.reading)
            channel.readers.append(me)
            if not channel.watched:
                channel.begin(me, READ)
            scheduler.park(me)

    def recv_long(self, bufsize: int, flags: int) -> bytes:
        if flags & WAITALL and self.fills(flags):
            buffer = bytearray(bufsize)
            return bytes(buffer[: self.fill(buffer, flags)])
        data: bytes = self.reading(flags, plain_recv, bufsize, flags | DONTWAIT)
        if len(data) < bufsize and not flags:
            self.note_drained()
        return data

    def fills(self, flags: int) -> bool:
        """Tell whether MSG_WAITALL means anything here."""
        return self.patience is None and not flags & (PEEK | OOB) and type_of(self) == standard.SOCK_STREAM

    def fill(self, buffer: Any, flags: int) -> int:
        """Receive until the buffer is full or the stream ends."""
        got = 0
        with memoryview(buffer) as view:
            while got < len(view):
                more = self.reading(flags, plain_recv_into, view[got:], 0, flags | DONTWAIT)
                if not more:
                    break
                got += more
        return got

    def recv_into(self, buffer: Any, nbytes: int = 0, flags: int = 0) -> int:
        """Receive into a buffer. Parks: as ``recv``. Returns: how many bytes."""
        me: Any = getcurrent()
        channel = self.channel
        if getattr(me, "scheduler", None) is not channel.scheduler or flags or nbytes or not len(buffer):
            return self.recv_into_long(buffer, nbytes, flags)
        while True:  # as in recv()
            if channel.readable:
                try:
                    got = plain_recv_into(self, buffer, 0, DONTWAIT)
                except BlockingIOError:
                    channel.readable = False
                else:
                    if channel.drains and got < len(buffer):
                        channel.readable = False
                        if channel.doubtful:
                            channel.poller.doubts.append(channel)
                    return got
            channel.wait_readable(me)

    def recv_into_long(self, buffer: Any, nbytes: int, flags: int) -> int:
        if flags & WAITALL and self.fills(flags):
            with memoryview(buffer) as view, view.cast("B") as whole:
                return self.fill(whole[: nbytes or None], flags)
        got: int = self.reading(flags, plain_recv_into, buffer, nbytes, flags | DONTWAIT)
        if got < (nbytes or len(buffer)) and not flags:
            self.note_drained()
        return got

    def recvfrom(self, bufsize: int, flags: int = 0, /) -> tuple[bytes, Any]:
        """Receive, with the sender's address. Parks: as ``recv``."""
        return self.reading(flags, plain.recvfrom, bufsize, flags | DONTWAIT)  # type: ignore[no-any-return]

    def recvfrom_into(self, buffer: Any, nbytes: int = 0, flags: int = 0) -> tuple[int, Any]:
        """Receive into a buffer, with the sender's address. Parks: as ``recv``."""
        return self.reading(flags, plain.recvfrom_into, buffer, nbytes, flags | DONTWAIT)  # type: ignore[no-any-return]

    def recvmsg(self, bufsize: int, ancbufsize: int = 0, flags: int = 0, /) -> Any:
        """Receive with ancillary data. Parks: as ``recv``."""
        return self.reading(flags, plain.recvmsg, bufsize, ancbufsize, flags | DONTWAIT)

    def recvmsg_into(self, buffers: Iterable[Any], ancbufsize: int = 0, flags: int = 0, /) -> Any:
        """Receive into buffers, with ancillary data. Parks: as ``recv``."""
        return self.reading(flags, plain.recvmsg_into, list(buffers), ancbufsize, flags | DONTWAIT)

    # ---- sending

    def send(self, data: Any, flags: int = 0, /) -> int:
        """Send what fits into the buffer. Parks: while it is full (``write fd N``). Returns: how many bytes."""
        return self.writing(flags, plain_send, data, flags | DONTWAIT)  # type: ignore[no-any-return]

    def sendall(self, data: Any, flags: int = 0, /) -> None:
        """Send everything. Parks: while the buffer is full (``write fd N``). The timeout bounds the whole call."""
        try:
            sent = plain_send(self, data, flags | DONTWAIT if flags else DONTWAIT)
            if data.__class__ is bytes and sent == len(data):
                return
        except BlockingIOError:
            if self.patience == 0 or flags & NOW:
                raise
            sent = 0
        with memoryview(data) as view:
            if sent < view.nbytes:
                with view.cast("B") as rest:
                    self.send_rest(rest, sent, flags)

    def send_rest(self, data: memoryview, sent: int, flags: int) -> None:
        channel: Any = None
        deadline: float | None = None
        while sent < len(data):
            try:
                sent += plain_send(self, data[sent:], flags | DONTWAIT)
                continue
            except BlockingIOError:
                if self.patience == 0 or flags & NOW:
                    raise
            if channel is None:
                me = this_waiter()
                channel = self.channel_of(me)
            deadline = self.bounded(channel.wait_writable, me, deadline)

    def sendto(self, data: Any, *rest: Any) -> int:
        """Send a datagram: ``sendto(data, [flags,] address)``. Parks: while the buffer is full (``write fd N``)."""
        if not 1 <= len(rest) <= 2:
            return plain.sendto(self, data, *rest)  # which refuses it
        flags = rest[0] if len(rest) == 2 else 0
        address = resolved(family_of(self), rest[-1])
        return self.sending_to(address)(flags, plain.sendto, data, flags | DONTWAIT, address)  # type: ignore[no-any-return]

    def sendmsg(
        self, buffers: Iterable[Any], ancdata: Iterable[Any] = (), flags: int = 0, address: Any = None, /
    ) -> int:
        """Send with ancillary data. Parks: while the buffer is full (``write fd N``)."""
        address = resolved(family_of(self), address)
        send = self.sending_to(address)
        return send(flags, plain.sendmsg, list(buffers), list(ancdata), flags | DONTWAIT, address)  # type: ignore[no-any-return]

    def sending_to(self, address: Any) -> Any:
        """Choose how to wait for room: at a named Unix socket it shows by no event."""
        return self.insisting if address is not None and family_of(self) == standard.AF_UNIX else self.writing

    def _sendfile_use_sendfile(self, file: Any, offset: int = 0, count: int | None = None) -> int:
        """Do what the standard's ``sendfile`` tries first. Parks: while the buffer is full, each time in bounds."""
        self._check_sendfile_params(file, offset, count)  # type: ignore[attr-defined]
        give_up = standard._GiveupOnSendfile  # type: ignore[attr-defined]
        try:
            fileno = file.fileno()
            size = os.fstat(fileno).st_size
        except (AttributeError, OSError) as error:
            raise give_up(error) from error
        if os_sendfile is None:
            raise give_up("this platform has none")
        if not size:
            return 0
        if self.patience == 0:
            raise ValueError("non-blocking sockets are not supported")
        return self.send_by_kernel(file, fileno, offset, count)

    def send_by_kernel(self, file: Any, fileno: int, offset: int, count: int | None) -> int:
        sent = 0
        plain.setblocking(self, False)
        try:
            while count is None or sent < count:
                block = SENDFILE_BLOCK if count is None else min(count - sent, SENDFILE_BLOCK)
                now = self.writing(0, send_file_once, fileno, offset + sent, block)
                if not now:
                    break
                sent += now
        except OSError as error:
            if sent or isinstance(error, TimeoutError) or self.channels.closed:
                raise
            raise standard._GiveupOnSendfile(error) from error  # type: ignore[attr-defined]
        finally:
            self.reset_blocking()
            if sent and hasattr(file, "seek"):
                file.seek(offset + sent)
        return sent

    # ---- connections

    def accept(self) -> tuple[socket, Any]:
        """Take a connection. Parks: until one comes (``read fd N``). Returns: a socket, and the peer's address."""
        fd, address = self.reading(0, accept_once)
        return socket(family_of(self), type_of(self), self.proto, fileno=fd), address

    def connect(self, address: Any, /) -> None:
        """Connect. Parks: until it is done (``write fd N``), for a name ``offload``. Raises: TimeoutError, OSError."""
        error = self.connecting(address)
        if error:
            raise OSError(error, os.strerror(error))

    def connect_ex(self, address: Any, /) -> int:
        """Connect, and return the errno instead of raising it."""
        try:
            return self.connecting(address)
        except (BlockingIOError, TimeoutError):
            return errno.EAGAIN
        except OSError as error:
            if error.errno != errno.EBADF:  # a host that was not found, say
                raise
            return errno.EBADF

    def connecting(self, address: Any) -> int:
        address = resolved(family_of(self), address)
        plain.setblocking(self, False)
        try:
            if family_of(self) == standard.AF_UNIX:
                return self.insisting(0, connect_once, address)  # type: ignore[no-any-return]
            error = plain.connect_ex(self, address)
            if error not in UNDER_WAY or self.patience == 0:
                return error
            me = this_waiter()
            self.bounded(self.channel_of(me).wait_writable, me, None)
            return self.getsockopt(standard.SOL_SOCKET, standard.SO_ERROR)
        finally:
            self.reset_blocking()

    # ---- ends

    def reset_blocking(self) -> None:
        """Leave the fd as blocking as the standard's would be."""
        if self.patience is None and DONTWAIT:
            self.make_blocking()

    def make_blocking(self) -> None:
        try:
            plain.setblocking(self, True)
        except OSError:  # closed meanwhile
            pass

    def _real_close(self, *args: Any) -> None:
        self.leave()
        super()._real_close(*args)  # type: ignore[misc]

    def detach(self) -> int:
        """Give the fd away, as blocking as the timeout says; the object is closed, its waiters get EBADF."""
        self.leave()
        if self.patience is None:
            self.make_blocking()
        return super().detach()


def accept_once(sock: socket) -> Any:
    plain.setblocking(sock, False)  # just now: whoever shares the listener may set it to block, and this thread with it
    return plain._accept(sock)  # type: ignore[attr-defined]


def connect_once(sock: socket, address: Any) -> int:
    """Return an errno. Raises: BlockingIOError while the listener's backlog is full."""
    error = plain.connect_ex(sock, address)
    if error == errno.EAGAIN:
        raise BlockingIOError(error, os.strerror(error))
    return error


def send_file_once(sock: socket, fileno: int, offset: int, count: int) -> int:
    assert os_sendfile is not None
    return os_sendfile(sock.fileno(), fileno, offset, count)  # type: ignore[no-any-return]


def adopt(other: standard.socket) -> socket:
    """Take over a standard socket's fd."""
    timeout = other.gettimeout()
    sock = socket(other.family, other.type, other.proto, fileno=other.detach())
    sock.settimeout(timeout)
    return sock


def fromfd(fd: int, family: int, type: int, proto: int = 0) -> socket:
    """Make a socket over a duplicate of ``fd``. Source: ``socket.fromfd``."""
    return socket(family, type, proto, fileno=_socket.dup(fd))


def socketpair(family: int | None = None, type: int = standard.SOCK_STREAM, proto: int = 0) -> tuple[socket, socket]:
    """Make two connected sockets. Source: ``socket.socketpair``."""
    one, other = standard_socketpair(family, type, proto)
    return adopt(one), adopt(other)


def create_server(address: Any, **options: Any) -> socket:
    """Make a listening socket. Source: ``socket.create_server``, with its options."""
    return adopt(standard_create_server(address, **options))


def what_programs_replace() -> tuple[Any, Any]:
    """Return what makes sockets and looks names up: ours, or what a program has put over it, a proxy's or a test's."""
    kind: Any = standard.socket
    own_kind = isinstance(kind, type) and issubclass(kind, socket)
    look_up: Any = standard.getaddrinfo
    return (kind if own_kind else socket), getaddrinfo if look_up is look_up_address else look_up


def create_connection(
    address: tuple[str | None, int],
    timeout: Any = DEFAULT_TIMEOUT,
    source_address: Any = None,
    *,
    all_errors: bool = False,
) -> Any:
    """Connect to the first address of a host that answers. Parks: as ``connect``. Source: the standard one."""
    host, port = address
    errors: list[Exception] = []
    new_socket, look_up = what_programs_replace()
    for family, kind, proto, _, target in look_up(host, port, 0, standard.SOCK_STREAM):
        sock = None
        try:
            sock = new_socket(family, kind, proto)
            if timeout is not DEFAULT_TIMEOUT:
                sock.settimeout(timeout)
            if source_address:
                sock.bind(source_address)
            sock.connect(target)
            errors.clear()  # an error's traceback holds this frame
            return sock
        except BaseException as error:
            if sock is not None:
                sock.close()
            if not isinstance(error, OSError):
                raise
            if not all_errors:
                errors.clear()  # the last one is raised
            errors.append(error)
    if not errors:
        raise OSError("getaddrinfo returns an empty list")
    try:
        raise ExceptionGroup("create_connection failed", errors) if all_errors else errors[0]
    finally:
        errors.clear()
