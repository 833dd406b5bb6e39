"""The acceptor of a listener: the number of connections accepted per turn, and pauses when the system has no room for
more.

A single acceptor of a listener accepts all waiting connections in one turn: a burst of clients then waits for only one
round of the other dhagas, however long these compute. Where several acceptors share a listener, in OS threads or worker
processes, the first acceptor to run would get a whole burst. So each accepts its share first, and in its next turn the
connections that the others have left. In either case a burst is accepted within two rounds.

Rejected: one connection a round, and one more for each 16 open connections, in favour of the sharing acceptors. Beside
ten clients that compute 5 ms each, the last of 30 new clients waited for 400 answers to those; now it waits for 20.
With 64 connections to 8 OS threads whose handlers block for 5 ms, there were 950 to 1,340 answers a second; now there
are 970 to 1,560.
"""

from __future__ import annotations

import logging
import math
import socket as standard
import sys
from typing import TYPE_CHECKING, Any

from .._iowait.accept_errors import ACCEPT_RETRY_SECONDS, EXHAUSTED, PEER_ERRORS
from .._iowait.socket_base import NOW, family_of, type_of
from .._kernel import originals
from .._kernel.api import sleep
from .._kernel.platform.system import system
from .._kernel.run.microthread import Dhaga
from ..socket import accept_once, socket
from ._listeners import BACKLOG, format_address

if TYPE_CHECKING:
    from ._tcp import TCPServer

logger = logging.getLogger("dhaga")

ASSUMED_WAITING = 64
"""Assumed number of waiting connections where the system does not report it: at Unix sockets, and off Linux."""

TCP_INFO: int | None = getattr(standard, "TCP_INFO", None)
ACCEPT_QUEUE = slice(24, 28)
"""Bytes of ``tcpi_unacked`` in the kernel's ``struct tcp_info``: for a listener, the length of its accept queue."""


class Sharers:
    """The acceptors of this process at one listener. ``served``: the number of acceptors that have had their share of a
    burst.

    If two threads count at once, a step may be lost: then one share is too small, and the next turn accepts the rest.
    """

    def __init__(self) -> None:
        self.acceptors: set[Acceptor] = set()
        self.served = 0


sharers_at: dict[tuple[int, int, int], Sharers] = {}


class Acceptor(Dhaga):
    """The dhaga that accepts from one listener; its end stops the server."""

    __slots__ = ("exhausted", "listener", "listener_id", "server", "sharers")

    def __init__(self, server: TCPServer, listener: socket) -> None:
        super().__init__(server.scheduler, self.accept_forever, daemon=True)
        self.server: TCPServer = server
        self.listener: Any = listener
        self.exhausted: bool = False
        self.listener_id: tuple[int, int, int] = identity(listener)
        self.sharers: Sharers = sharers_at.setdefault(self.listener_id, Sharers())
        self.sharers.acceptors.add(self)
        self.own_name: str = f"{server.name}, acceptor at {format_address(listener.getsockname())}"

    def _end(self) -> None:
        super()._end()
        self.sharers.acceptors.discard(self)
        if not self.sharers.acceptors:
            sharers_at.pop(self.listener_id, None)
        self.server.on_acceptor_end(self)

    def accept_forever(self) -> None:
        """Accept until the listener is closed: a share of the waiting connections, and in the next turn the others."""
        try:
            while True:
                self.accept_one()
                if self.accept_up_to(self.share_of_waiting() - 1):
                    sleep(0)
                    self.accept_up_to(BACKLOG)
                sleep(0)
        except OSError:
            if not self.server.stopping:
                logger.exception("%s accepts no more connections", self.server.name)

    def share_of_waiting(self) -> int:
        """Return this acceptor's number of connections, including the one just accepted."""
        sharers = len(self.sharers.acceptors) * self.server.processes
        if sharers < 2:
            return BACKLOG
        self.sharers.served += 1
        return math.ceil((waiting_at(self.listener) + 1) / max(1, sharers - self.sharers.served + 1))

    def accept_up_to(self, most: int) -> bool:
        """Accept without waiting. Returns: whether ``most`` connections waited; otherwise the burst is over."""
        for _ in range(most):
            if not self.accept_one(NOW):
                self.sharers.served = 0
                return False
        return True

    def accept_one(self, flags: int = 0) -> bool:
        """Admit the dhaga of the next connection. Parks: until a client connects (``read fd N``), unless ``NOW``.

        Returns: False with ``NOW`` if no connection waits, or if the system has no room for one.
        """
        try:
            fd, peer = self.listener.read_when_ready(flags, self.accept_with_permit)
        except BlockingIOError:
            return False
        except OSError as error:
            if error.errno in PEER_ERRORS:
                return True
            if error.errno not in EXHAUSTED:
                raise
            self.back_off(error)
            return False
        sock = socket(family_of(self.listener), type_of(self.listener), self.listener.proto, fileno=fd)
        self.server.admit(sock, peer)
        return True

    def accept_with_permit(self, listener: socket) -> Any:
        """Accept a waiting connection and keep a permit for it; release the permit if no connection waits.

        Parks: while ``max_connections`` are open. Raises: BlockingIOError.
        """
        permits = self.server.permits
        permits.acquire()
        try:
            return accept_once(listener)
        except BaseException as error:
            permits.release()
            if isinstance(error, BlockingIOError):
                self.exhausted = False
            raise

    def back_off(self, error: OSError) -> None:
        """Sleep before the next accept; log the shortage once, until the backlog is empty again."""
        if not self.exhausted:
            self.exhausted = True
            logger.error(
                "%s cannot accept more connections: %s. %d are open; it keeps trying. To make clients wait earlier, "
                "lower max_connections; to serve more of them, raise the limit of open files (ulimit -n)",
                *(self.server.name, error, len(self.server.connections)),
            )
        sleep(ACCEPT_RETRY_SECONDS)


def identity(listener: socket) -> tuple[int, int, int]:
    """Return a key that duplicates of a listener share in this process; a forked child has its own acceptors."""
    return originals.getpid(), *system.identity_of_socket(listener.fileno())


def waiting_at(listener: standard.socket) -> int:
    """Return the number of connections that wait to be accepted."""
    if TCP_INFO is None or listener.family not in (standard.AF_INET, standard.AF_INET6):
        return ASSUMED_WAITING
    try:
        info = listener.getsockopt(standard.IPPROTO_TCP, TCP_INFO, ACCEPT_QUEUE.stop)
    except OSError:  # MPTCP, a sandbox
        return ASSUMED_WAITING
    return int.from_bytes(info[ACCEPT_QUEUE], sys.byteorder)
