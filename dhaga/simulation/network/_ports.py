"""The ports of hosts: which sockets are bound to them, and which of these listen."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from ._end import LISTENING, NEW, REUSE_PORT, Address, End, os_error
from ._hosts import Host
from ._listening import Backlog

if TYPE_CHECKING:
    from ._network import Network

ANY_PORT: Address = ("0.0.0.0", 0)


class Ports:
    """The ports of all hosts of a network."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.listeners: dict[tuple[Host, int], list[End]] = {}

    def __repr__(self) -> str:
        return f"<Ports with {sum(map(len, self.listeners.values()))} listeners>"

    def is_taken(self, host: Host, port: int, end: End) -> bool:
        """Return whether a port of a host is in use by another socket of the same kind."""
        if not end.is_stream:
            return (host, port) in self.network.datagrams.bound
        return any(
            other is not end and other.is_stream and other.local is not None and other.local[1] == port
            for other in self.network.ends.values()
            if other.host is host and other.state in (NEW, LISTENING)
        )

    def bind(self, end: End, address: Address = ANY_PORT) -> None:
        """Bind a socket. Raises: OSError (EADDRINUSE, EADDRNOTAVAIL, EINVAL)."""
        host, port = address
        if end.local is not None:
            raise os_error(errno.EINVAL)
        if not end.host.owns(host):
            raise os_error(errno.EADDRNOTAVAIL)
        if port and self.is_taken(end.host, port, end) and not end.options.get(REUSE_PORT):
            raise os_error(errno.EADDRINUSE)
        port = port or end.host.next_port(lambda port: self.is_taken(end.host, port, end))
        end.local = host, port
        if not end.is_stream:
            self.network.datagrams.bind(end, port)

    def listen(self, end: End, size: int) -> None:
        """Make a socket listen. Raises: OSError."""
        if not end.is_stream:
            raise os_error(errno.EOPNOTSUPP)
        if end.state not in (NEW, LISTENING):
            raise os_error(errno.EINVAL)
        if end.local is None:
            self.bind(end)
        if end.backlog is None:
            end.backlog = Backlog(end, size)
            end.state = LISTENING
            self.listeners.setdefault((end.host, end.port), []).append(end)

    def stop_listening(self, end: End) -> None:
        """Remove a listener that is closed."""
        self.listeners[end.host, end.port].remove(end)

    def listener_at(self, host: Host, address: Address) -> End | None:
        """Return the listener for an address of a host; one of several by a draw (SO_REUSEPORT)."""
        found = [each for each in self.listeners.get((host, address[1]), ()) if each.accepts(address[0])]
        if not found:
            return None
        return found[0] if len(found) == 1 else found[int(self.network.draw.random() * len(found))]
