"""The methods of simulated sockets that receive data, or that use addresses or options.

``dhaga.socket`` calls these methods through ``outside.new_socket`` and ``outside.sockets``, which a simulation
replaces. For real sockets, they call the real methods. Before a stream is connected, its real fd is neither readable
nor writable. So the methods that receive and send raise the error of such a stream where the real fd raises EAGAIN.
"""

from __future__ import annotations

import _socket
import contextlib
import errno
import os
import socket as standard
from collections.abc import Callable
from operator import index
from typing import Any

from .._base.errors import NotSimulated
from .._base.here import found_network, network_of_caller
from ._end import CLOSED, CONNECTED, FAILED, LISTENING, NEW, Address, End, os_error, standard_fstat
from ._names import numeric

plain = _socket.socket
INTERNET = (standard.AF_INET, standard.AF_INET6)
standard_dup2 = os.dup2
KIND = 0xF
"""The bits of a socket's type without the flags SOCK_NONBLOCK and SOCK_CLOEXEC."""

PASSED_ON = {standard.SO_SNDBUF, standard.SO_RCVBUF, standard.SO_SNDTIMEO, standard.SO_RCVTIMEO}
"""The options of SOL_SOCKET that the fd itself obeys."""


LONGEST_OPTION = 256
"""The largest number of bytes of an option's value that is kept."""


def end_of(sock: Any) -> End | None:
    """Return the ``End`` behind a socket; None for a real socket, such as a Unix socket."""
    found = network_of_caller()
    if found is None:
        return None
    fd = sock.fileno()
    if fd < 0:
        raise os_error(errno.EBADF)
    end = found.ends.get(standard_fstat(fd).st_ino)
    if end is not None:
        end.fds[fd] = None
    return end


def target_of(end: End, address: Any, call: str) -> Address:
    """Return an address with its host name resolved. Raises: TypeError, OverflowError, gaierror, NotSimulated."""
    if not isinstance(address, tuple):
        kind = "AF_INET6" if end.family == standard.AF_INET6 else "AF_INET"
        raise TypeError(f"{call}(): {kind} address must be tuple, not {type(address).__name__}")
    if end.family == standard.AF_INET6:
        if not 2 <= len(address) <= 4:
            raise TypeError("AF_INET6 address must be a tuple (host, port[, flowinfo[, scopeid]])")
    elif len(address) != 2:
        raise TypeError("AF_INET address must be a pair (host, port)")
    host, port = numeric(found_network(), address[0], end.family), index(address[1])
    if not 0 <= port <= 65_535:
        raise OverflowError(f"{call}(): port must be 0-65535.")
    return host, port


# ---- making


def new_socket(sock: Any, family: int, type: int, proto: int, fileno: int | None) -> tuple[int, int, int, int | None]:
    """Return the arguments for a new socket. An IPv4 or IPv6 socket gets the fd of a simulated socket."""
    found = network_of_caller()
    if found is None:
        return family, type, proto, fileno
    end = None
    if fileno is None and family in (-1, *INTERNET):
        family = standard.AF_INET if family == -1 else int(family)
        type = standard.SOCK_STREAM if type == -1 else int(type)
        proto = 0 if proto == -1 else proto
        if type & KIND not in (standard.SOCK_STREAM, standard.SOCK_DGRAM):
            raise NotSimulated("socket() of this type is not simulated: SOCK_STREAM and SOCK_DGRAM are")
        end = found.new_end(found.hosts.of_caller(), family, type & KIND, proto)
        if end.is_stream:
            end.fill()
        fileno = end.fd
    elif fileno is not None and fileno >= 0:
        end = found.ends.get(standard_fstat(fileno).st_ino)
        if end is not None and family == -1:
            family, type, proto = end.family, end.kind, 0
    if end is not None:
        end.objects.add(sock)
    return family, type, proto, fileno


class Calls:
    """The functions of ``_socket.socket`` for simulated and real sockets."""

    @staticmethod
    def accept_fd(sock: Any) -> tuple[int, Any]:
        end = end_of(sock)
        if end is None:
            return plain._accept(sock)  # type: ignore[attr-defined,no-any-return]
        if end.backlog is None:
            raise OSError(errno.EINVAL, "Invalid argument")
        waiting = end.backlog.ends
        if not plain.recv(sock, 1, standard.MSG_DONTWAIT | (standard.MSG_PEEK if len(waiting) > 1 else 0)):
            raise OSError(errno.EINVAL, "Invalid argument")  # the listener was shut down
        other = waiting.popleft()
        return other.fd, other.form(other.remote)

    @staticmethod
    def connect_ex(sock: Any, address: Any) -> int:
        end = end_of(sock)
        if end is None:
            return plain.connect_ex(sock, address)
        found = found_network()
        try:
            return found.connect(end, target_of(end, address, "connect"))
        except NotSimulated:
            if not found.allows_real:
                raise
        make_real(sock, end)
        return plain.connect_ex(sock, address)

    @staticmethod
    def sendto(sock: Any, data: Any, *rest: Any) -> int:
        end = end_of(sock)
        if end is None or len(rest) not in (1, 2):
            return plain.sendto(sock, data, *rest)
        return send_datagram(end, sock, memoryview(data).tobytes(), rest[-1])

    @staticmethod
    def sendmsg(sock: Any, buffers: Any, ancdata: Any, flags: int, address: Any) -> int:
        end = end_of(sock)
        if end is None or address is None:
            return sent(plain.sendmsg, sock, buffers, ancdata, flags, address)
        return send_datagram(end, sock, b"".join(buffers), address)

    @staticmethod
    def recvfrom(sock: Any, size: int, flags: int = 0) -> tuple[bytes, Any]:
        data, address = called(errno.ENOTCONN, plain.recvfrom, sock, size, flags)
        return data, source_of(sock, address, flags)

    @staticmethod
    def recvfrom_into(sock: Any, buffer: Any, nbytes: int = 0, flags: int = 0) -> tuple[int, Any]:
        got, address = called(errno.ENOTCONN, plain.recvfrom_into, sock, buffer, nbytes, flags)
        return got, source_of(sock, address, flags)

    @staticmethod
    def recvmsg(sock: Any, size: int, ancillary: int = 0, flags: int = 0) -> Any:
        *found, address = called(errno.ENOTCONN, plain.recvmsg, sock, size, ancillary, flags)
        return (*found, source_of(sock, address, flags))

    @staticmethod
    def recvmsg_into(sock: Any, buffers: Any, ancillary: int = 0, flags: int = 0) -> Any:
        *found, address = called(errno.ENOTCONN, plain.recvmsg_into, sock, buffers, ancillary, flags)
        return (*found, source_of(sock, address, flags))

    @staticmethod
    def recv(sock: Any, size: int, flags: int = 0) -> bytes:
        return called(errno.ENOTCONN, plain.recv, sock, size, flags)  # type: ignore[no-any-return]

    @staticmethod
    def recv_into(sock: Any, buffer: Any, nbytes: int = 0, flags: int = 0) -> int:
        return called(errno.ENOTCONN, plain.recv_into, sock, buffer, nbytes, flags)  # type: ignore[no-any-return]

    @staticmethod
    def send(sock: Any, data: Any, flags: int = 0) -> int:
        return sent(plain.send, sock, data, flags)

    @staticmethod
    def shutdown(sock: Any, how: int) -> None:
        end = end_of(sock)
        if end is not None and (end.is_over or end.state in (NEW, FAILED)):
            raise os_error(errno.ENOTCONN)
        if end is None or end.state is not LISTENING or how != standard.SHUT_WR:
            plain.shutdown(sock, how)

    @staticmethod
    def bind(sock: Any, address: Any) -> None:
        end = end_of(sock)
        if end is None:
            plain.bind(sock, address)
            return
        found_network().ports.bind(end, *target_of(end, address, "bind"))

    @staticmethod
    def listen(sock: Any, backlog: int = 128) -> None:
        end = end_of(sock)
        if end is None:
            plain.listen(sock, backlog)
            return
        found_network().ports.listen(end, backlog)

    @staticmethod
    def getsockname(sock: Any) -> Any:
        end = end_of(sock)
        return plain.getsockname(sock) if end is None else end.form(end.local)

    @staticmethod
    def getpeername(sock: Any) -> Any:
        end = end_of(sock)
        if end is None:
            return plain.getpeername(sock)
        if end.remote is None or end.state not in (CONNECTED, CLOSED) or end.is_over:
            raise OSError(errno.ENOTCONN, "Transport endpoint is not connected")
        return end.form(end.remote)

    @staticmethod
    def setsockopt(sock: Any, level: int, option: int, *value: Any) -> None:
        end = end_of(sock)
        if end is None:
            plain.setsockopt(sock, level, option, *value)
            return
        if level == standard.SOL_SOCKET and option in PASSED_ON:
            plain.setsockopt(sock, level, option, *value)
            if end.is_stream and end.state not in (CONNECTED, CLOSED):
                end.fill()  # the send buffer may be larger now
        else:
            end.options[level, option] = set_on_model(end, level, option, value)

    @staticmethod
    def getsockopt(sock: Any, level: int, option: int, buflen: int | None = None) -> Any:
        end = end_of(sock)
        size = () if buflen is None else (buflen,)
        if end is None or (level == standard.SOL_SOCKET and option in PASSED_ON):
            return plain.getsockopt(sock, level, option, *size)
        if level == standard.SOL_SOCKET and option == standard.SO_ERROR and end.state is CLOSED:
            return plain.getsockopt(sock, level, option, *size)  # the reset that the real fd has seen
        found = option_of(end, level, option)
        if found is None or size:
            with model_of(end) as model:
                usual = plain.getsockopt(model, level, option, *size)
        if found is None:
            return usual
        if buflen is None:
            return found if isinstance(found, int) else int.from_bytes(found[:4], "little", signed=True)
        return (found if isinstance(found, bytes) else found.to_bytes(4, "little", signed=True))[:buflen]


Calls._accept = Calls.accept_fd  # type: ignore[attr-defined]


def make_real(sock: Any, end: End) -> None:
    """Replace a simulated socket with a real one under the same fd, because real calls are allowed."""
    with contextlib.closing(plain(end.family, end.kind)) as real:
        real.setblocking(False)
        standard_dup2(real.fileno(), sock.fileno(), False)


def called(unconnected: int, call: Callable[..., Any], sock: Any, *arguments: Any) -> Any:
    """Make a call on a socket's real fd. ``unconnected``: the errno if the socket is a stream that is not connected."""
    try:
        return call(sock, *arguments)
    except BlockingIOError:
        end = end_of(sock)
        if end is not None and end.is_stream and end.state in (NEW, LISTENING, FAILED):
            raise os_error(end.take_error() or unconnected) from None
        raise


def sent(call: Callable[..., int], sock: Any, *arguments: Any) -> int:
    """Make a call that sends on a socket's real fd.

    Raises: after a reset, ECONNRESET if no earlier call has raised it, else EPIPE.
    """
    try:
        return called(errno.EPIPE, call, sock, *arguments)  # type: ignore[no-any-return]
    except BrokenPipeError:
        error = 0 if end_of(sock) is None else plain.getsockopt(sock, standard.SOL_SOCKET, standard.SO_ERROR)
        if error:
            raise os_error(error) from None
        raise


def send_datagram(end: End, sock: Any, data: bytes, address: Any) -> int:
    if end.is_stream:
        return Calls.send(sock, data, standard.MSG_DONTWAIT)
    found = found_network()
    try:
        found.datagrams.send(end, data, target_of(end, address, "sendto"))
    except NotSimulated:
        if not found.allows_real:
            raise
        make_real(sock, end)
        return plain.sendto(sock, data, standard.MSG_DONTWAIT, address)
    return len(data)


def source_of(sock: Any, address: Any, flags: int) -> Any:
    """Return the source address of a received datagram, and give the next datagram to the socket."""
    end = end_of(sock)
    if end is None:
        return address
    if end.is_stream:
        return None
    source = end.form(end.source)
    if not flags & standard.MSG_PEEK:
        found_network().datagrams.refill(end)
    return source


def option_of(end: End, level: int, option: int) -> Any:
    if level == standard.SOL_SOCKET:
        if option == standard.SO_ERROR:
            return end.take_error()
        own = {
            standard.SO_TYPE: end.kind,
            standard.SO_PROTOCOL: end.proto,
            standard.SO_DOMAIN: end.family,
            standard.SO_ACCEPTCONN: int(end.state is LISTENING),
        }
        if option in own:
            return own[option]
    return end.options.get((level, option))


def model_of(end: End) -> contextlib.closing[Any]:
    """Return a real socket of the end's family and kind. It knows the options, their first values and their errors."""
    return contextlib.closing(plain(end.family, end.kind))


def set_on_model(end: End, level: int, option: int, value: tuple[Any, ...]) -> int | bytes:
    """Set an option on a real socket. Returns: the value that the socket then has. Raises: OSError, TypeError."""
    with model_of(end) as model:
        plain.setsockopt(model, level, option, *value)
        try:
            found = plain.getsockopt(model, level, option, LONGEST_OPTION)
        except OSError:  # it cannot be read
            return 0
    return int.from_bytes(found, "little", signed=True) if len(found) == 4 else found
