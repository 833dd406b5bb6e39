"""Applies libpq's option ``connect_timeout`` in psycopg2's wait callback. libpq itself applies it only to waits in C.

As in libpq, the limit applies to each address of each host. libpq tries the addresses until one is silent for longer
than the limit. Then this module opens a new connection to the addresses that follow. Difference: after a silent
address, libpq's second pass over the hosts (``target_session_attrs=prefer-standby``) begins at the next address, not at
the first.
"""

from __future__ import annotations

import os
import socket as standard
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from psycopg2 import OperationalError, extensions

from ..socket import getaddrinfo

LEAST_SECONDS = 0 if extensions.libpq_version() >= 170000 else 2
"""The shortest limit in seconds. Before version 17, libpq raises shorter limits to 2 s."""


class Address(NamedTuple):
    """A place to connect to. For a Unix socket, ``host`` is its folder, and ``address`` is empty."""

    host: str
    address: str
    port: str


class ConnectTimeout(OperationalError):  # type: ignore[misc]
    """Raised when a server is silent for too long. ``rest()`` returns the addresses that libpq has not tried."""

    def __init__(self, message: str, rest: Callable[[], list[Address]]) -> None:
        super().__init__(message)
        self.rest = rest


class ConnectLimit:
    """The time limit of a connection that is being opened. The limit starts again at each address."""

    def __init__(self, connection: Any, clock: Callable[[], float]) -> None:
        self.connection = connection
        self.clock = clock
        self.options: dict[str, str] = connection.info.dsn_parameters
        self.seconds = limit_of(self.options.get("connect_timeout", "0"))
        self.sockets: dict[tuple[str, int], set[int]] = {}
        self.deadline = 0.0

    def left(self) -> float | None:
        """Return the seconds left for the current address, or None if there is no limit."""
        if self.seconds is None:
            return None
        info = self.connection.info
        seen = self.sockets.setdefault((info.host, info.port), set())
        # libpq opens a new socket for each address, perhaps with the same fd number.
        if (inode := os.fstat(self.connection.fileno()).st_ino) not in seen:
            seen.add(inode)
            self.deadline = self.clock() + self.seconds
        return max(0.0, self.deadline - self.clock())

    def expired(self) -> ConnectTimeout:
        """Return the error for a silent server."""
        host, port = self.connection.info.host, self.connection.info.port
        tried = len(self.sockets[host, port])
        peer, options = peer_of(self.connection.fileno()), self.options
        place = f'on socket "{host}/.s.PGSQL.{port}"' if is_folder(host) else f'at "{host}", port {port}'
        return ConnectTimeout(
            f"connection to server {place} failed: timeout expired\n",
            lambda: after(list(addresses(options)), host, str(port), peer, tried),
        )


def limit_of(option: str) -> int | None:
    """Return the limit in seconds for an option's value, or None. Raises: OperationalError with libpq's message."""
    try:
        seconds = int(option)
    except ValueError:
        message = f'invalid integer value "{option}" for connection option "connect_timeout"\n'
        raise OperationalError(message) from None
    return max(seconds, LEAST_SECONDS) if seconds > 0 else None


def peer_of(fd: int) -> str:
    """Return the remote IP address of a socket. For a Unix socket, return ``/``, ``0`` or an empty text."""
    try:
        with standard.socket(fileno=os.dup(fd)) as sock:
            return str(sock.getpeername()[0])
    except (OSError, IndexError):
        return ""


def is_folder(host: str) -> bool:
    """Return whether a host is a Unix socket's folder or abstract name. An empty host means libpq's default folder."""
    return not host or host[0] in "/@"


def addresses(options: dict[str, str]) -> Iterator[Address]:
    """Yield the places of a connection string in libpq's order. Parks: while names are looked up."""
    hosts, numbers, ports = (options.get(name, "").split(",") for name in ("host", "hostaddr", "port"))
    count = max(len(hosts), len(numbers))
    for index in range(count):
        host, number = (items[index] if len(items) == count else "" for items in (hosts, numbers))
        port = ports[index] if len(ports) == count else ports[0]
        if number or is_folder(host):
            yield Address(host, number, port)
            continue
        for *_, found in getaddrinfo(host, port or None, type=standard.SOCK_STREAM):
            yield Address(host, str(found[0]), port)


def after(places: list[Address], host: str, port: str, peer: str, tried: int) -> list[Address]:
    """Return the places that follow the current one.

    The current place is the place of ``host`` with the address ``peer``. If there is no such place, it is the last of
    the first ``tried`` places of ``host``.
    """
    same = [
        index for index, place in enumerate(places)
        if (place.host or place.address) == host and (place.port or port) == port
    ]  # fmt: skip
    exact = [index for index in same if peer and places[index].address == peer]
    present = exact[-1] if exact else same[min(tried, len(same)) - 1] if same else len(places)
    return places[present + 1 :]


def connect_to_rest(connect: Callable[[str], Any], dsn: str) -> Any:
    """Return ``connect(dsn)``. After a silent address, try the next ones. Raises: OperationalError with all errors."""
    errors = ""
    while True:
        try:
            return connect(dsn)
        except ConnectTimeout as late:
            errors += str(late)
            rest = late.rest()
        except OperationalError as error:
            if not errors:
                raise
            raise type(error)(errors + str(error)) from None
        if not rest:
            raise OperationalError(errors)
        columns = (",".join(column) for column in zip(*rest, strict=True))
        dsn = extensions.make_dsn(dsn, **dict(zip(("host", "hostaddr", "port"), columns, strict=True)))
