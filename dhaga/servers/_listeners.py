"""Creation of the listening sockets of a server, for a TCP address, a Unix socket, or a socket that already listens.

Each server has its own listeners. A socket passed by the caller is duplicated: several servers can accept from the same
socket, and each server closes only its duplicate. The process that created the file of a Unix socket also removes the
file, unless the inode has changed. Connections are accepted in ``_acceptor``.
"""

from __future__ import annotations

import errno
import logging
import os
import socket as standard
import stat
from typing import Any, TypeAlias

from .._iowait.dns import getaddrinfo_at_once
from ..socket import create_server, fromfd, socket

logger = logging.getLogger("dhaga")

Address: TypeAlias = "tuple[str | None, int] | str | os.PathLike[str] | standard.socket | list[Address]"
"""An address: (host, port), the path of a Unix socket, a listening socket, or a list of these.

The path of an abstract Unix socket begins with a zero byte.
"""

BACKLOG = 4096
"""Maximum number of connections that wait to be accepted.

Linux limits this number to net.core.somaxconn, whose default is 4096 since Linux 5.4. The kernel drops the SYN packets
of further clients, which retry after one second.
"""

ADVICE = {
    errno.EADDRINUSE: ". Choose another port, or end the program that listens there: `lsof -i :{port}` or `ss -ltnp` "
    "shows it. Servers share a port only if each of them sets reuse_port (--reuse-port)",
    errno.EACCES: ". A port below 1024 needs a privilege: choose another port, or pass a socket that already listens",
    errno.EADDRNOTAVAIL: ". No interface of this machine has this address: 127.0.0.1 is the local one, and 0.0.0.0 "
    "stands for all",
}
"""Advice for a user whose address the system refuses, by the number of the error."""

UNAVAILABLE = errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT

# Copied at import, before a patch can replace the class.
standard_socket = standard.socket


def listen(address: Address, backlog: int = BACKLOG, reuse_port: bool = False) -> list[socket]:
    """Return the listeners for an address, one for each address of a host.

    The host "" or None means all interfaces, with IPv4 and IPv6. A listening socket is duplicated, and the caller must
    close the original. Parks: never; the lookup of a host name blocks the OS thread. Raises: OSError, ValueError,
    TypeError.
    """
    if isinstance(address, list):
        return listen_at_all(address, backlog, reuse_port)
    if isinstance(address, standard_socket):
        return [duplicate(address)]
    if isinstance(address, str):
        refuse_host_and_port(address)
    if isinstance(address, (str, os.PathLike)):
        return [listen_at_path(os.fspath(address), backlog)]
    if not isinstance(address, tuple) or len(address) != 2:
        raise TypeError(f"an address is (host, port), the path of a Unix socket or a listening socket, not {address!r}")
    return listen_at_host(*address, backlog, reuse_port)


def listen_at_all(addresses: list[Address], backlog: int, reuse_port: bool) -> list[socket]:
    listeners: list[socket] = []
    try:
        for address in addresses:
            listeners += listen(address, backlog, reuse_port)
    except BaseException:
        close_all(listeners)
        raise
    return listeners


def duplicate(listener: standard.socket) -> socket:
    if not listener.getsockopt(standard.SOL_SOCKET, standard.SO_ACCEPTCONN):
        raise ValueError(f"{listener!r} does not listen: call its listen() first")
    return fromfd(listener.fileno(), listener.family, listener.type, listener.proto)


# ---- TCP


def listen_at_host(host: str | None, port: int, backlog: int, reuse_port: bool) -> list[socket]:
    """Listen at each address of a host. If the port is 0, the kernel chooses a port for the first listener, and the
    others use the same port.
    """
    try:
        found = getaddrinfo_at_once(host or None, port, type=standard.SOCK_STREAM, flags=standard.AI_PASSIVE)
    except standard.gaierror as error:
        raise standard.gaierror(error.errno, f"{error.strerror}: the host {host!r}") from None
    listeners: list[socket] = []
    unavailable: OSError | None = None
    for family, (name, _, *scope) in dict.fromkeys((family, target) for family, _, _, _, target in found):
        target = (name, port or (listeners[0].getsockname()[1] if listeners else 0), *scope)
        try:
            listeners.append(listen_at_target(family, target, backlog, reuse_port))
        except OSError as error:
            if error.errno not in UNAVAILABLE:  # for example, ::1 while IPv6 is turned off
                close_all(listeners)
                raise
            unavailable = error
    if not listeners and unavailable is not None:
        raise unavailable
    return listeners


def listen_at_target(family: int, target: Any, backlog: int, reuse_port: bool) -> socket:
    """Listen at one address in the form of ``getaddrinfo`` and ``getsockname``: with flow and scope for IPv6."""
    try:
        listener = create_server(target, family=family, backlog=backlog, reuse_port=reuse_port)
    except OSError as error:
        raise error_of_address(error, target) from None
    # Connections inherit the option; without it, a second write waits 40 ms for an ACK.
    listener.setsockopt(standard.IPPROTO_TCP, standard.TCP_NODELAY, 1)
    return listener


def error_of_address(error: OSError, target: Any) -> OSError:
    """Return an error that names the address, and what its user can do."""
    reason, *_ = str(error.strerror or error).partition(" (while")  # create_server appends the address as a tuple
    advice = ADVICE.get(error.errno or 0, "").format(port=target[1])
    return OSError(error.errno, f"{reason}: {format_address(target)}{advice}")


def close_all(listeners: list[socket]) -> None:
    for listener in listeners:
        listener.close()


# ---- Unix sockets


class UnixListener(socket):
    """A listening Unix socket. A close unlinks the socket's file, unless another server has replaced the file.

    If the file cannot be removed, a warning is logged, and the socket is closed nevertheless.
    """

    __slots__ = ("file_id", "path", "pid")

    def __init__(self, path: str) -> None:
        super().__init__(standard.AF_UNIX)
        self.path = path
        self.pid = os.getpid()
        self.file_id: tuple[int, int] | None = None

    def bind(self, path: Any, /) -> None:
        super().bind(path)
        self.file_id = file_identity(self.path)

    def _real_close(self, *args: Any) -> None:
        try:
            if self.file_id is not None and self.pid == os.getpid() and file_identity(self.path) == self.file_id:
                os.unlink(self.path)
        except OSError as error:  # for example, the process may no longer write to the directory
            logger.warning("the file of a closed Unix socket remains: %s", error)
        finally:
            self.file_id = None
            super()._real_close(*args)


def file_identity(path: str) -> tuple[int, int] | None:
    """Return the device and inode of a file, or None if there is no file. The two numbers identify the file."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):  # removed, or an abstract socket, whose name begins with a zero byte
        return None
    return status.st_dev, status.st_ino


def refuse_host_and_port(path: str) -> None:
    """Raise ValueError if a path has the form ``host:port``: no client would connect to a Unix socket of this name."""
    host, colon, port = path.rpartition(":")
    if colon and port.isdecimal() and not {"/", "\0"}.intersection(host):
        raise ValueError(
            f"{path!r} is not an address: write ({host.strip('[]')!r}, {port}), or './{path}' for a Unix socket"
        )


def listen_at_path(path: str, backlog: int) -> socket:
    """Listen at a Unix socket. The file of a server that no longer listens is replaced."""
    remove_stale(path)
    listener = UnixListener(path)
    try:
        listener.bind(path)
        listener.listen(backlog)
    except OSError as error:
        listener.close()
        # If the path is too long, Python itself raises an error, which has a text but no errno.
        why = error.strerror or str(error)
        if error.errno == errno.EADDRINUSE:
            why += " (choose another path, or end the server that listens there)"
        raise OSError(error.errno or errno.ENAMETOOLONG, f"{why}: the Unix socket {path!r}") from None
    return listener


def remove_stale(path: str) -> None:
    """Unlink the file of a Unix socket if the socket refuses a connection, because then no server listens there."""
    try:
        if not stat.S_ISSOCK(os.stat(path).st_mode):
            return
    except (OSError, ValueError):
        return
    with standard_socket(standard.AF_UNIX) as probe:
        probe.setblocking(False)
        if probe.connect_ex(path) == errno.ECONNREFUSED:
            os.unlink(path)


# ---- formatting


def format_address(address: Any) -> str:
    """Return an address in its usual notation: ``127.0.0.1:80``, ``[::1]:80``, ``unix:/run/app``."""
    if not isinstance(address, tuple):
        text = address.decode(errors="replace") if isinstance(address, bytes) else str(address)
        return f"unix:{text}"
    host, port = address[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
