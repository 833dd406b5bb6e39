"""The acceptor of a listener: a dhaga that accepts connections, and pauses while the system has no room for more.

In a round, each runnable dhaga gets one turn. If a listener has only one acceptor, this acceptor accepts all waiting
connections in one turn. A burst of clients then waits for only one round, which may be long if other dhagas compute. If
a listener has several acceptors, in OS threads or worker processes, this rule would give the whole burst to the first
acceptor that runs. So each acceptor first accepts its share. In its next turn, the acceptor accepts the connections
that the others have left. In both cases a burst is accepted within two rounds.

A rejected rule accepted one connection per round, plus one for each 16 open connections. When ten clients kept the
server busy with requests that compute for 5 ms, the last of 30 new clients waited until 400 requests were answered.
With the present rule, the last client waited for 20 answers. A second test had 64 connections to 8 OS threads whose
handlers block for 5 ms. The rejected rule gave 950 to 1,340 answers per second, and the present rule gives 970 to 1,560
answers per second.
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
"""Assumed number of waiting connections if the system does not report their number: for Unix sockets, and on systems
other than Linux.
"""

TCP_INFO: int | None = getattr(standard, "TCP_INFO", None)
ACCEPT_QUEUE = slice(24, 28)
"""Bytes of ``struct tcp_info`` that hold ``tcpi_unacked``, which is the length of a listener's accept queue."""


class Sharers:
    """The acceptors of this process that share one listener.

    ``served``: the number of acceptors that have accepted their share of the current burst. If two threads increment
    ``served`` at the same time, one increment may be lost. Then a share is too small, and the acceptors accept the rest
    in their next turns.
    """

    def __init__(self) -> None:
        self.acceptors: set[Acceptor] = set()
        self.served = 0


sharers_at: dict[tuple[int, int, int], Sharers] = {}


class Acceptor(Dhaga):
    """The dhaga that accepts connections from one listener. When the dhaga ends, the server stops."""

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
        """Accept connections until the listener is closed. Each burst takes at most two turns."""
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

    def accept_one(self, flags: int = 0) -> bool:
        """Accept the next connection and start its dhaga.

        Parks: until a client connects (``read fd N``), unless ``flags`` is ``NOW``. Returns: False if the system has no
        room for a connection, or with ``NOW`` if no connection waits.
        """
        try:
            self.listener.read_when_ready(flags, self.accept_with_permit)
        except BlockingIOError:
            return False
        except OSError as error:
            if error.errno in PEER_ERRORS:
                return True
            if error.errno not in EXHAUSTED:
                raise
            self.back_off(error)
            return False
        return True

    def accept_with_permit(self, listener: socket) -> None:
        """Acquire a permit, accept a waiting connection and start its dhaga.

        If an error of accept(2) occurs, the permit is released. Parks: while ``max_connections`` connections are open.
        Raises: BlockingIOError if no connection waits; other errors of accept(2).
        """
        permits = self.server.permits
        permits.acquire()
        try:
            fd, peer = accept_once(listener)
        except BaseException as error:
            permits.release()
            if isinstance(error, BlockingIOError):
                self.exhausted = False
            raise
        sock = socket(family_of(listener), type_of(listener), listener.proto, fileno=fd)
        self.server.admit(sock, peer)

    def back_off(self, error: OSError) -> None:
        """Sleep before the next accept. After a logged error, no further error is logged until the backlog is empty."""
        if not self.exhausted:
            self.exhausted = True
            logger.error(
                "%s cannot accept more connections: %s. %d are open; it keeps trying. To make clients wait earlier, "
                "lower max_connections; to serve more of them, raise the limit of open files (ulimit -n)",
                *(self.server.name, error, len(self.server.connections)),
            )
        sleep(ACCEPT_RETRY_SECONDS)

    def share_of_waiting(self) -> int:
        """Return the number of connections to accept in this turn, including the connection just accepted."""
        sharers = len(self.sharers.acceptors) * self.server.processes
        if sharers < 2:
            return BACKLOG
        self.sharers.served += 1
        return math.ceil((waiting_at(self.listener) + 1) / max(1, sharers - self.sharers.served + 1))

    def accept_up_to(self, most: int) -> bool:
        """Accept the waiting connections, at most ``most``.

        Returns: False if fewer than ``most`` connections waited (the burst has ended), or if the system has no room.
        """
        for _ in range(most):
            if not self.accept_one(NOW):
                self.sharers.served = 0
                return False
        return True


def identity(listener: socket) -> tuple[int, int, int]:
    """Return a key that is equal for all duplicates of a listener in this process, and different in a forked child."""
    return originals.getpid(), *system.identity_of_socket(listener.fileno())


def waiting_at(listener: standard.socket) -> int:
    """Return the number of connections that wait to be accepted."""
    if TCP_INFO is None or listener.family not in (standard.AF_INET, standard.AF_INET6):
        return ASSUMED_WAITING
    try:
        info = listener.getsockopt(standard.IPPROTO_TCP, TCP_INFO, ACCEPT_QUEUE.stop)
    except OSError:  # an MPTCP socket, or a sandbox
        return ASSUMED_WAITING
    return int.from_bytes(info[ACCEPT_QUEUE], sys.byteorder)
