"""The methods of sockets, on the network of the simulation. Other sockets keep their real methods.

``dhaga.socket`` calls them through the doors ``outside.new_socket`` and ``outside.sockets``. ``send`` works on the real
fd of the program's end.
"""

from __future__ import annotations

import _socket
import contextlib
import errno
import os
import socket as standard
from typing import Any

from .._base.errors import NotSimulated
from .._base.here import found_network, network_of_caller
from ._end import CLOSED, CONNECTED, LISTENING, NEW, Address, End, standard_fstat
from ._names import numeric

plain = _socket.socket
INTERNET = (standard.AF_INET, standard.AF_INET6)
standard_dup2 = os.dup2
KIND = 0xF
"""The bits of a socket's type without SOCK_NONBLOCK and SOCK_CLOEXEC."""

PASSED_ON = {standard.SO_SNDBUF, standard.SO_RCVBUF}


def end_of(sock: Any) -> End | None:
    """Return the end behind a socket; None for real ones and for Unix sockets."""
    found = network_of_caller()
    if found is None:
        return None
    fd = sock.fileno()
    if fd < 0:
        return None
    end = found.ends.get(standard_fstat(fd).st_ino)
    if end is not None:
        end.fds[fd] = None
    return end


def target_of(end: End, address: Any, call: str) -> Address:
    """Return an address with its host resolved. Raises: TypeError, OverflowError, gaierror, NotSimulated."""
    if not isinstance(address, tuple) or len(address) < 2:
        raise TypeError(f"{call}(): AF_INET address must be tuple, not {type(address).__name__}")
    host, port = address[:2]
    if not isinstance(port, int) or not 0 <= port <= 65_535:
        raise OverflowError(f"{call}(): port must be 0-65535.")
    return numeric(found_network(), host), port


# ---- making


def new_socket(sock: Any, family: int, type: int, proto: int, fileno: int | None) -> tuple[int, int, int, int | None]:
    """Return the arguments for a new socket: one of the internet families is a socket of the simulation."""
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
        fileno = end.fd
    elif fileno is not None and fileno >= 0:
        end = found.ends.get(standard_fstat(fileno).st_ino)
        if end is not None and family == -1:
            family, type, proto = end.family, end.kind, 0
    if end is not None:
        end.objects.add(sock)
    return family, type, proto, fileno


class Calls:
    """The functions of ``_socket.socket`` that ``dhaga.socket`` calls with addresses and options, and to receive."""

    @staticmethod
    def accept_fd(sock: Any) -> tuple[int, Any]:
        end = end_of(sock)
        if end is None:
            return plain._accept(sock)  # type: ignore[attr-defined,no-any-return]
        if end.backlog is None:
            raise OSError(errno.EINVAL, "Invalid argument")
        waiting = end.backlog.ends
        if not plain.recv(sock, 1, standard.MSG_DONTWAIT | (standard.MSG_PEEK if len(waiting) > 1 else 0)):
            raise OSError(errno.EINVAL, "Invalid argument")  # shut down
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
        return send_datagram(end, sock, bytes(data), rest[-1])

    @staticmethod
    def sendmsg(sock: Any, buffers: Any, ancdata: Any, flags: int, address: Any) -> int:
        end = end_of(sock)
        if end is None or address is None:
            return plain.sendmsg(sock, buffers, ancdata, flags, address)
        return send_datagram(end, sock, b"".join(buffers), address)

    @staticmethod
    def recvfrom(sock: Any, size: int, flags: int = 0) -> tuple[bytes, Any]:
        data, address = plain.recvfrom(sock, size, flags)
        return data, source_of(sock, address, flags)

    @staticmethod
    def recvfrom_into(sock: Any, buffer: Any, nbytes: int = 0, flags: int = 0) -> tuple[int, Any]:
        got, address = plain.recvfrom_into(sock, buffer, nbytes, flags)
        return got, source_of(sock, address, flags)

    @staticmethod
    def recvmsg(sock: Any, size: int, ancillary: int = 0, flags: int = 0) -> Any:
        *found, address = plain.recvmsg(sock, size, ancillary, flags)
        return (*found, source_of(sock, address, flags))

    @staticmethod
    def recvmsg_into(sock: Any, buffers: Any, ancillary: int = 0, flags: int = 0) -> Any:
        *found, address = plain.recvmsg_into(sock, buffers, ancillary, flags)
        return (*found, source_of(sock, address, flags))

    @staticmethod
    def recv(sock: Any, size: int, flags: int = 0) -> bytes:
        """Receive. Raises: OSError (ENOTCONN) for a stream that is not connected, which its fd cannot say."""
        try:
            return plain.recv(sock, size, flags)
        except BlockingIOError:
            end = end_of(sock)
            if end is not None and end.is_stream and end.state in (NEW, LISTENING):
                raise OSError(errno.ENOTCONN, "Transport endpoint is not connected") from None
            raise

    @staticmethod
    def bind(sock: Any, address: Any) -> None:
        end = end_of(sock)
        if end is None:
            plain.bind(sock, address)
            return
        found_network().ports.bind(end, target_of(end, address, "bind"))

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
        if end.remote is None or end.state not in (CONNECTED, CLOSED):
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
        end.options[int(level), int(option)] = value[0] if value else None

    @staticmethod
    def getsockopt(sock: Any, level: int, option: int, buflen: int | None = None) -> Any:
        end = end_of(sock)
        size = () if buflen is None else (buflen,)
        if end is None or (level == standard.SOL_SOCKET and option in PASSED_ON):
            return plain.getsockopt(sock, level, option, *size)
        found = option_of(end, level, option)
        if buflen is None:
            return found if isinstance(found, int) else int.from_bytes(found[:4], "little")
        return (found if isinstance(found, bytes) else int(found).to_bytes(4, "little", signed=True))[:buflen]


Calls._accept = Calls.accept_fd  # type: ignore[attr-defined]


def make_real(sock: Any, end: End) -> None:
    """Put a real socket in place of one of the simulation, under the same fd: the program allows it."""
    with contextlib.closing(plain(end.family, end.kind)) as real:
        real.setblocking(False)
        standard_dup2(real.fileno(), sock.fileno(), False)


def send_datagram(end: End, sock: Any, data: bytes, address: Any) -> int:
    if end.is_stream:
        return plain.send(sock, data, standard.MSG_DONTWAIT)
    found_network().datagrams.send(end, data, target_of(end, address, "sendto"))
    return len(data)


def source_of(sock: Any, address: Any, flags: int) -> Any:
    """Return the address that a received datagram came from, and put the next one in place."""
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
    return end.options.get((level, option), 0)
