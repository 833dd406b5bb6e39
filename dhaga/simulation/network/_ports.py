"""The ports of hosts, and the sockets that are bound to them.

Streams and datagrams have ports of their own. Sockets share a port if their addresses do not overlap, or if their
options allow it: the rules are those of Linux.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ._end import LISTENING, NEW, REUSE_ADDRESS, REUSE_PORT, V6_ONLY, Address, End, covers, os_error
from ._hosts import Host
from ._listening import Backlog

if TYPE_CHECKING:
    from ._network import Network


class Ports:
    """The ports of all hosts of a network. ``bound``: the sockets by host, kind (stream or not) and port."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.bound: dict[tuple[Host, bool, int], list[End]] = {}

    def __repr__(self) -> str:
        return f"<Ports with {sum(map(len, self.bound.values()))} sockets>"

    def in_conflict(self, end: End, address: str, port: int) -> bool:
        """Return whether other sockets keep a socket from an address and a port."""
        return any(
            other is not end and overlap(end, address, other) and not share_port(end, other)
            for other in self.bound.get((end.host, end.is_stream, port), ())
        )

    def bind(self, end: End, host: str, port: int = 0) -> None:
        """Bind a socket to an address. Raises: OSError (EADDRINUSE, EADDRNOTAVAIL, EINVAL)."""
        if end.local is not None:
            raise os_error(errno.EINVAL)
        if not end.host.owns(host):
            raise os_error(errno.EADDRNOTAVAIL)
        if port and self.in_conflict(end, host, port):
            self.network.collect()  # the program may have closed the other socket meanwhile
            if self.in_conflict(end, host, port):
                raise os_error(errno.EADDRINUSE)
        port = port or end.host.next_port(lambda port: (end.host, end.is_stream, port) in self.bound)
        end.local, end.bound_address = (host, port), host
        self.add(end)

    def add(self, end: End) -> None:
        """Add a socket that has a port."""
        self.bound.setdefault((end.host, end.is_stream, end.port), []).append(end)

    def unbind(self, end: End) -> None:
        """Free the port of a closed socket."""
        key = end.host, end.is_stream, end.port
        ends = self.bound.get(key, [])
        if end in ends:
            ends.remove(end)
        if not ends:
            self.bound.pop(key, None)

    def listen(self, end: End, size: int) -> None:
        """Make a socket listen, or change the size of its backlog. Raises: OSError."""
        if not end.is_stream:
            raise os_error(errno.EOPNOTSUPP)
        if end.state not in (NEW, LISTENING):
            raise os_error(errno.EINVAL)
        if end.local is None:
            self.bind(end, end.wildcard)
        if end.backlog is not None:
            end.backlog.resize(size)
            return
        assert end.local is not None
        if self.in_conflict(end, *end.local):
            raise os_error(errno.EADDRINUSE)
        end.backlog = Backlog(end, size)
        end.state = LISTENING

    def listener_at(self, host: Host, address: Address) -> End | None:
        """Return the listener at an address of a host, or None."""
        ends = self.bound.get((host, True, address[1]), ())
        return self.nearest([each for each in ends if each.state is LISTENING and each.covers(address[0])], address[0])

    def receiver_at(self, host: Host, address: Address, source: Address) -> End | None:
        """Return the datagram socket that gets packets from ``source`` for an address of a host, or None."""
        ends = self.bound.get((host, False, address[1]), ())
        return self.nearest(
            [each for each in ends if each.remote in (None, source) and each.covers(address[0])], address[0]
        )

    def nearest(self, ends: Sequence[End], address: str) -> End | None:
        """Return the socket that Linux prefers at an address; a drawn one if several share the port by SO_REUSEPORT."""
        if not ends:
            return None
        ranks = [each.rank_at(address) for each in ends]
        best = [each for each, rank in zip(ends, ranks, strict=True) if rank == max(ranks)]
        if len(best) == 1 or not best[-1].options.get(REUSE_PORT):
            return best[-1]  # the socket that was bound last
        return best[int(self.network.draw.random() * len(best))]


def overlap(end: End, address: str, other: End) -> bool:
    """Return whether ``other`` is bound to an address that ``end`` would also get at ``address``."""
    assert other.local is not None
    v6_only = bool(end.options.get(V6_ONLY))
    return other.covers(address) or covers(address, v6_only, other.local[0])


def share_port(one: End, other: End) -> bool:
    """Return whether two sockets may have overlapping addresses at one port."""
    return both(one, other, REUSE_PORT) or (both(one, other, REUSE_ADDRESS) and other.state is not LISTENING)


def both(one: End, other: End, option: tuple[int, int]) -> bool:
    return bool(one.options.get(option) and other.options.get(option))
