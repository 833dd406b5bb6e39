"""Listeners: sockets that wait for connections, made from what a user calls an address. Who accepts: ``servers.py``."""

from __future__ import annotations

import errno
import os
import socket as standard
import stat
from typing import Any, TypeAlias

from .socket import create_server, fromfd, socket

Address: TypeAlias = "tuple[str | None, int] | str | os.PathLike[str] | standard.socket | list[Address]"
"""(host, port), the path of a Unix socket ("\\0…": one without a file), a socket that listens already; or a list."""

BACKLOG = 4096
"""How many connections may wait to be accepted; what Linux cuts it to by default (net.core.somaxconn) since 5.4.

One too many is answered by nobody, and its client tries again after a second.
"""

UNAVAILABLE = errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT

# The standard library's own, taken before anybody can patch them.
standard_socket = standard.socket
standard_getaddrinfo = standard.getaddrinfo


def listen(address: Address, backlog: int = BACKLOG, reuse_port: bool = False) -> list[socket]:
    """Listen at an address; a host may have several. The host "" or None means every interface, of IPv4 and IPv6.

    A socket is used through a duplicate, so that several servers may have it, and stays the caller's to close.
    Parks: never; the name of a host is looked up at once. Raises: OSError, ValueError, TypeError.
    """
    if isinstance(address, list):
        return listen_at_all(address, backlog, reuse_port)
    if isinstance(address, standard_socket):
        return [duplicate(address)]
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
    """Listen at each address that a host has here, all with the same port."""
    try:
        found = standard_getaddrinfo(host or None, port, type=standard.SOCK_STREAM, flags=standard.AI_PASSIVE)
    except standard.gaierror as error:
        raise standard.gaierror(error.errno, f"{error.strerror}: the host {host!r}") from None
    listeners: list[socket] = []
    missing: OSError | None = None
    for family, target in dict.fromkeys((family, target[:2]) for family, _, _, _, target in found):
        there = (target[0], port or (listeners[0].getsockname()[1] if listeners else 0))
        try:
            listeners.append(create_server(there, family=family, backlog=backlog, reuse_port=reuse_port))
        except OSError as error:
            if error.errno not in UNAVAILABLE:  # as ::1 of localhost is where IPv6 is turned off
                close_all(listeners)
                raise
            missing = error
    if not listeners and missing is not None:
        raise missing
    for listener in listeners:  # its connections inherit it: an answer in two pieces would wait for an ACK, 40 ms
        listener.setsockopt(standard.IPPROTO_TCP, standard.TCP_NODELAY, 1)
    return listeners


def close_all(listeners: list[socket]) -> None:
    for listener in listeners:
        listener.close()


# ---- Unix sockets


class UnixListener(socket):
    """A listening Unix socket whose file goes with it, unless another server has taken its place meanwhile."""

    __slots__ = ("file", "path", "pid")

    def __init__(self, path: str) -> None:
        super().__init__(standard.AF_UNIX)
        self.path = path
        self.pid = os.getpid()
        self.file: tuple[int, int] | None = None

    def bind(self, path: Any, /) -> None:
        super().bind(path)
        self.file = identity(self.path)

    def _real_close(self, *args: Any) -> None:
        if self.file is not None and self.pid == os.getpid() and identity(self.path) == self.file:
            os.unlink(self.path)
        self.file = None
        super()._real_close(*args)


def identity(path: str) -> tuple[int, int] | None:
    """Tell a file from another one that has its name later."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):  # it is gone, or none: the name begins with a zero byte
        return None
    return status.st_dev, status.st_ino


def listen_at_path(path: str, backlog: int) -> socket:
    """Listen at a Unix socket; the file that a dead server has left there is taken over."""
    remove_stale(path)
    listener = UnixListener(path)
    try:
        listener.bind(path)
        listener.listen(backlog)
    except OSError as error:
        listener.close()
        raise OSError(error.errno, f"{os.strerror(error.errno or 0)}: the Unix socket {path!r}") from None
    return listener


def remove_stale(path: str) -> None:
    """Remove a socket's file if nobody listens there any more."""
    try:
        if not stat.S_ISSOCK(os.stat(path).st_mode):
            return
    except (OSError, ValueError):
        return
    with standard_socket(standard.AF_UNIX) as probe:
        probe.setblocking(False)
        if probe.connect_ex(path) == errno.ECONNREFUSED:
            os.unlink(path)


# ---- names


def name_of_address(address: Any) -> str:
    """Return an address as one writes it: ``127.0.0.1:80``, ``[::1]:80``, ``unix:/run/app``."""
    if not isinstance(address, tuple):
        text = address.decode(errors="replace") if isinstance(address, bytes) else str(address)
        return f"unix:{text}"
    host, port = address[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
