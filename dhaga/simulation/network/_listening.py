"""Listening and connecting: the backlogs of listeners, and the attempts to connect."""

from __future__ import annotations

import errno
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ._end import ANSWERED, CONNECTED, CONNECTING, FAILED, Address, End
from ._wire import Wire

if TYPE_CHECKING:
    from ._hosts import Host
    from ._network import Network

SYN_PAUSES = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
"""The seconds between tries to connect: Linux's tcp_syn_retries of 6. After the last pause, the attempt fails."""

SOMAXCONN = 4096
"""The largest size of a backlog, in connections: Linux's net.core.somaxconn."""


class Backlog:
    """The connections that a listener has not accepted yet, at most ``size + 1``.

    While there are such connections, the listener's socket contains a byte, which makes it readable.
    """

    def __init__(self, listener: End, size: int) -> None:
        self.listener = listener
        self.resize(size)
        self.ends: deque[End] = deque()

    def __repr__(self) -> str:
        return f"<Backlog of {self.listener.name}, {len(self.ends)} wait>"

    def resize(self, size: int) -> None:
        """Set the size. Connections that are waiting stay, even if they exceed the size."""
        self.room: int = max(0, min(size, SOMAXCONN)) + 1

    def add(self, end: End) -> bool:
        """Add a connection, which makes the listener readable. Returns: False if the backlog is full."""
        if len(self.ends) >= self.room:
            return False
        if not self.ends:
            self.listener.wire.send(b"!")
        self.ends.append(end)
        return True


class Attempt:
    """An attempt to connect ``end``, with repeated packets to the other host until an answer arrives."""

    def __init__(self, network: Network, end: End, host: Host, address: Address) -> None:
        self.network = network
        self.end = end
        self.address = address
        self.host = host
        self.local = host is end.host
        self.pauses: Iterator[float] = iter(SYN_PAUSES)
        end.state = CONNECTING
        self.send()

    def __repr__(self) -> str:
        return f"<Attempt of {self.end.name} to connect to {self.host.name}:{self.address[1]}>"

    def latency(self) -> float:
        network = self.network
        there = self.host, self.end.host
        return network.link_between(*there, self.local).draw_latency(network.draw)

    def is_lost(self, back: bool) -> bool:
        if self.local:
            return False
        network = self.network
        pair = (self.host, self.end.host) if back else (self.end.host, self.host)
        link = network.link_between(*pair, False)
        return pair in network.blocked or (link.loss > 0 and network.draw.random() < link.loss)

    def send(self) -> None:
        """Send the packet that asks for a connection, and plan the next try."""
        if self.end.state is not CONNECTING:
            return
        now = self.network.clock.now
        if not self.is_lost(back=False):
            self.network.at(now + self.latency(), self.arrive)
        pause = next(self.pauses, None)
        if pause is None:
            self.fail(errno.ETIMEDOUT)
        else:
            self.network.at(now + pause, self.send)

    def arrive(self) -> None:
        """Deliver the packet. A listener of the other host takes the connection, or the host refuses it."""
        network, end = self.network, self.end
        if end.state is not CONNECTING:
            return
        listener = network.ports.listener_at(self.host, self.address)
        if listener is None:
            if not self.is_lost(back=True):
                network.at(network.clock.now + self.latency(), self.fail, errno.ECONNREFUSED)
            return
        assert listener.backlog is not None
        if len(listener.backlog.ends) >= listener.backlog.room or self.is_lost(back=True):
            return  # the next try might succeed
        other = self.make_other_end(listener)
        at = network.clock.now + self.latency()
        assert other.outgoing is not None
        other.outgoing.last_arrival = at  # the bytes of ``other`` arrive after the answer
        network.at(at, self.establish)

    def make_other_end(self, listener: End) -> End:
        """Create the listener's end of the connection, which the program can accept at once."""
        network, end = self.network, self.end
        other = network.new_end(listener.host, listener.family, listener.kind, listener.proto)
        other.local, other.remote = self.address, end.local
        other.state = CONNECTED
        other.options = dict(listener.options)
        network.ports.add(other)
        other.outgoing = Wire(network, other, end)
        end.outgoing = Wire(network, end, other)
        end.state = ANSWERED
        assert listener.backlog is not None
        listener.backlog.add(other)
        network.tell(f"{end.name} connects to {other.name}")
        return other

    def establish(self) -> None:
        """Make the connecting socket writable, which shows the program that the socket is connected."""
        if self.end.state is ANSWERED:
            self.end.drain()
            self.end.state = CONNECTED

    def fail(self, error: int) -> None:
        end = self.end
        if end.state is CONNECTING:
            end.state, end.error = FAILED, error
            end.outgoing = None
            end.drain()
            self.network.tell(f"{end.name} cannot connect: {errno.errorcode[error]}")


def abandon_backlog(network: Network, backlog: Backlog) -> None:
    """Reset the connections that a closed listener has not accepted."""
    for end in backlog.ends:
        network.close_unaccepted(end)
    backlog.ends.clear()
