"""libpq's ``connect_timeout`` for psycopg2: libpq applies it only where it waits itself, so here the callback does.

It holds for each address of each host, like libpq's own: an address that is silent for so long is given up, and the
connection is made anew with the addresses that follow it. Until then libpq chooses among the hosts.
Difference: a further pass over the hosts (``target_session_attrs=prefer-standby``) begins with those that follow.
"""

from __future__ import annotations

import os
import socket as standard
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from psycopg2 import OperationalError, extensions

from ..socket import getaddrinfo

LEAST_SECONDS = 0 if extensions.libpq_version() >= 170000 else 2
"""Before version 17, libpq raises a shorter limit to this."""


class Address(NamedTuple):
    """One place to connect to. ``address`` is empty for a Unix socket, whose folder is the host."""

    host: str
    address: str
    port: str


class ConnectTimeout(OperationalError):  # type: ignore[misc]
    """A server has been silent for ``connect_timeout``. ``rest``: makes the addresses that libpq has not tried."""

    def __init__(self, message: str, rest: Callable[[], list[Address]]) -> None:
        super().__init__(message)
        self.rest = rest


class ConnectLimit:
    """The limit of one connection under way: it starts anew at each address."""

    def __init__(self, connection: Any, clock: Callable[[], float]) -> None:
        self.connection = connection
        self.clock = clock
        self.options: dict[str, str] = connection.info.dsn_parameters
        self.seconds = limit_of(self.options.get("connect_timeout", "0"))
        self.sockets: dict[tuple[str, int], set[int]] = {}
        self.deadline = 0.0

    def left(self) -> float | None:
        """Return the seconds left for the present address; None without a limit."""
        if self.seconds is None:
            return None
        info = self.connection.info
        seen = self.sockets.setdefault((info.host, info.port), set())
        # Each address has a socket of its own, perhaps with the same number.
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
    """Return the seconds that an option means; None: no limit. Raises: OperationalError, as libpq's own."""
    try:
        seconds = int(option)
    except ValueError:
        message = f'invalid integer value "{option}" for connection option "connect_timeout"\n'
        raise OperationalError(message) from None
    return max(seconds, LEAST_SECONDS) if seconds > 0 else None


def peer_of(fd: int) -> str:
    """Return the address to which a socket is connected; empty before that, and for a Unix socket."""
    try:
        with standard.socket(fileno=os.dup(fd)) as sock:
            return str(sock.getpeername()[0])
    except (OSError, IndexError):
        return ""


def is_folder(host: str) -> bool:
    """Return whether a host is the folder of a Unix socket, or an abstract one."""
    return not host or host[0] in "/@"


def addresses(options: dict[str, str]) -> Iterator[Address]:
    """Yield the places of a connection string in order. Parks: while names are looked up, like libpq before it."""
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
    """Return the places that follow the present one: the host's one of this peer, else as many as were tried."""
    same = [
        index for index, place in enumerate(places)
        if (place.host or place.address) == host and (place.port or port) == port
    ]  # fmt: skip
    exact = [index for index in same if peer and places[index].address == peer]
    present = exact[-1] if exact else same[min(tried, len(same)) - 1] if same else len(places)
    return places[present + 1 :]


def connect_to_rest(connect: Callable[[str], Any], dsn: str) -> Any:
    """Return ``connect(dsn)``, with the addresses that follow each silent one. Raises: OperationalError of them all."""
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
