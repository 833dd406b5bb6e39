"""Datagrams: each finds its way by itself, and may be lost, doubled or overtaken.

A socket of the program holds one datagram at a time, because the sender's address is known only for that one. The
others wait here.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from ._end import CLOSED, Address, End
from ._hosts import ANY, Host, is_loopback

if TYPE_CHECKING:
    from ._network import Network

MOST_WAITING = 256
"""Datagrams that wait for a socket at most; later ones are dropped."""

LONGEST = 65_507
"""Bytes that a datagram over IPv4 may have."""


class Datagrams:
    """The datagram sockets of a network."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.bound: dict[tuple[Host, int], End] = {}

    def __repr__(self) -> str:
        return f"<Datagrams of {len(self.bound)} sockets>"

    def bind(self, end: End, port: int) -> None:
        self.bound[end.host, port] = end

    def unbind(self, end: End) -> None:
        if not end.is_stream and self.bound.get((end.host, end.port)) is end:
            del self.bound[end.host, end.port]

    def collect(self, end: End) -> None:
        """Collect the datagrams that the program has sent with ``send``, to the address that it is connected to."""
        while end.state is not CLOSED:
            try:
                data = end.wire.recv(LONGEST + 1)
            except OSError:
                return
            if end.hung_up and not data:
                return
            if end.remote is not None:
                self.send(end, data, end.remote)

    def send(self, end: End, data: bytes, address: Address) -> None:
        """Send a datagram. Raises: OSError (EMSGSIZE), NotSimulated."""
        network = self.network
        if len(data) > LONGEST:
            raise OSError(errno.EMSGSIZE, "Message too long")
        host = network.host_at(end, address)
        if end.local is None:
            network.ports.bind(end)
        local = host is end.host
        link, draw = network.link_between(end.host, host, local), network.draw
        near = "127.0.0.1" if is_loopback(address[0]) or address[0] in ANY else end.host.address
        source = near, end.port
        network.remark(f"takes a datagram of {len(data)} bytes from {end.name} for {host.name}:{address[1]}")
        for _ in range(2 if link.duplicates and draw.random() < link.duplicates else 1):
            if (not local and (end.host, host) in network.blocked) or (link.loss and draw.random() < link.loss):
                network.tell(f"loses a datagram from {end.name} to {host.name}:{address[1]}")
                continue
            delay = link.draw_latency(draw)
            if link.reordered and draw.random() < link.reordered:
                delay += 3 * link.draw_latency(draw)
            network.at(network.clock.now + delay, self.arrive, host, address[1], data, source)

    def arrive(self, host: Host, port: int, data: bytes, source: Address) -> None:
        end = self.bound.get((host, port))
        if end is None or end.state is CLOSED or (end.remote is not None and end.remote != source):
            return
        if len(end.received) < MOST_WAITING:
            self.network.tell(
                f"brings {end.name} a datagram from {source[0]}:{source[1]}",
                f"brings {end.name} a datagram of {len(data)} bytes from {source[0]}:{source[1]}",
            )
            end.received.append((data, source))
            self.refill(end)

    def refill(self, end: End) -> None:
        """Put the next datagram into the program's socket, if that is empty."""
        if end.state is not CLOSED and end.received and not end.has_unread():
            data, end.source = end.received.popleft()
            end.wire.send(data)
            self.network.watch(end, writable=True)
