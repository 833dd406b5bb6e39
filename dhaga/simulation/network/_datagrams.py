"""Datagrams: each travels independently of others, and can be lost, duplicated or overtaken.

``End.source`` keeps the source address of one datagram. So the network puts one datagram at a time into the program's
socket, and further datagrams wait in ``End.received``.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from .._base.excerpt import Excerpt
from ._end import CLOSED, Address, End
from ._hosts import Host, this_host

if TYPE_CHECKING:
    from ._network import Network

MOST_WAITING = 256
"""The largest number of datagrams that wait until a socket is empty. Later datagrams are dropped."""

LONGEST = 65_507
"""The largest number of bytes in a datagram over IPv4."""


class Datagrams:
    """The datagram sockets of a network."""

    def __init__(self, network: Network) -> None:
        self.network = network

    def __repr__(self) -> str:
        return f"<Datagrams of {self.network!r}>"

    def collect(self, end: End) -> None:
        """Collect the datagrams that the program has sent with ``send`` from a connected socket."""
        while end.state is not CLOSED:
            try:
                data = end.wire.recv(LONGEST + 1)
            except ConnectionResetError:  # reported once if the program has closed the socket with an unread datagram
                continue
            except OSError:
                return
            if end.ended and not data:
                return
            if end.remote is not None:
                self.send(end, data, end.remote)

    def send(self, end: End, data: bytes, address: Address) -> None:
        """Send a datagram. Raises: OSError (EINVAL, EMSGSIZE), NotSimulated."""
        network = self.network
        if not address[1]:
            raise OSError(errno.EINVAL, "Invalid argument")
        if len(data) > LONGEST:
            raise OSError(errno.EMSGSIZE, "Message too long")
        address = this_host(address)
        host = network.host_at(end, address)
        if end.local is None:
            network.ports.bind(end, end.wildcard)
        local = host is end.host
        link, draw = network.link_between(end.host, host, local), network.draw
        source = end.near_address(address[0]), end.port
        way = f"takes a datagram of {len(data)} bytes from {end.name} for {host.name}:{address[1]}: "
        network.remark((way, Excerpt(data)))
        for _ in range(2 if link.duplicates and draw.random() < link.duplicates else 1):
            if (not local and (end.host, host) in network.blocked) or (link.loss and draw.random() < link.loss):
                network.tell(f"loses a datagram from {end.name} to {host.name}:{address[1]}")
                continue
            delay = link.draw_latency(draw)
            if link.reordered and draw.random() < link.reordered:
                delay += 3 * link.draw_latency(draw)
            network.at(network.clock.now + delay, self.arrive, host, address, data, source)

    def arrive(self, host: Host, address: Address, data: bytes, source: Address) -> None:
        end = self.network.ports.receiver_at(host, address, source)
        if end is None or end.state is CLOSED:
            return
        if len(end.received) < MOST_WAITING:
            self.network.tell(
                f"brings {end.name} a datagram from {source[0]}:{source[1]}",
                f"brings {end.name} a datagram of {len(data)} bytes from {source[0]}:{source[1]}",
            )
            end.received.append((data, source))
            self.refill(end)

    def refill(self, end: End) -> None:
        """Put the next datagram into the program's socket if the socket is empty."""
        if end.state is not CLOSED and end.received and not end.has_unread():
            data, end.source = end.received.popleft()
            try:
                end.wire.send(data)
            except OSError:  # the program has closed the socket
                end.received.clear()
                return
            self.network.watch(end, writable=True)
