"""Listening sockets for an address: TCP, a Unix socket, or a socket that already listens.

A listener always belongs to the server: a caller's socket is duplicated, so that several servers accept from one socket
and each closes its own duplicate. The process that created a Unix socket's file removes it, and only if it still has
the same inode. This module does not accept: ``_tcp`` does, and ``_prefork`` only keeps listeners open.
"""

from __future__ import annotations

import errno
import os
import socket as standard
import stat
from typing import Any, TypeAlias

from .._iowait.dns import getaddrinfo_at_once
from ..socket import create_server, fromfd, socket

Address: TypeAlias = "tuple[str | None, int] | str | os.PathLike[str] | standard.socket | list[Address]"
"""(host, port), the path of a Unix socket ("\\0…": an abstract one), a listening socket, or a list of these."""

BACKLOG = 4096
"""Connections that may wait to be accepted; Linux limits it to net.core.somaxconn, 4096 by default since 5.4.

The kernel drops the SYN of further ones, and their clients retry after a second.
"""

UNAVAILABLE = errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT

# Taken at import, before a patch can replace it.
standard_socket = standard.socket


def listen(address: Address, backlog: int = BACKLOG, reuse_port: bool = False) -> list[socket]:
    """Return listeners at an address; a host may have several addresses. "" or None: every interface, IPv4 and IPv6.

    Parks: never; a host name is resolved synchronously. A socket is duplicated; closing it is up to the caller.
    Raises: OSError, ValueError, TypeError.
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
    """Listen at each address of a host, on one port; for port 0, all use the port of the first listener."""
    try:
        found = getaddrinfo_at_once(host or None, port, type=standard.SOCK_STREAM, flags=standard.AI_PASSIVE)
    except standard.gaierror as error:
        raise standard.gaierror(error.errno, f"{error.strerror}: the host {host!r}") from None
    listeners: list[socket] = []
    unavailable: OSError | None = None
    for family, target in dict.fromkeys((family, target[:2]) for family, _, _, _, target in found):
        target_address = (target[0], port or (listeners[0].getsockname()[1] if listeners else 0))
        try:
            listeners.append(create_server(target_address, family=family, backlog=backlog, reuse_port=reuse_port))
        except OSError as error:
            if error.errno not in UNAVAILABLE:  # such as ::1 of localhost where IPv6 is turned off
                close_all(listeners)
                raise
            unavailable = error
    if not listeners and unavailable is not None:
        raise unavailable
    for listener in listeners:  # inherited by connections: otherwise a second write waits 40 ms for a delayed ACK
        listener.setsockopt(standard.IPPROTO_TCP, standard.TCP_NODELAY, 1)
    return listeners


def close_all(listeners: list[socket]) -> None:
    for listener in listeners:
        listener.close()


# ---- Unix sockets


class UnixListener(socket):
    """A listening Unix socket that unlinks its file when closed, unless another server has replaced that file."""

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
        if self.file_id is not None and self.pid == os.getpid() and file_identity(self.path) == self.file_id:
            os.unlink(self.path)
        self.file_id = None
        super()._real_close(*args)


def file_identity(path: str) -> tuple[int, int] | None:
    """Return device and inode of a file, or None without a file: a later file of that name has another inode."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):  # removed, or abstract: the name begins with a zero byte
        return None
    return status.st_dev, status.st_ino


def listen_at_path(path: str, backlog: int) -> socket:
    """Listen at a Unix socket; the file of a dead server is replaced."""
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
    """Unlink a socket's file if it refuses a connect, which means that no server listens there."""
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
