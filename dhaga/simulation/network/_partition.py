"""Partitions: groups of hosts that cannot reach each other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from ..._kernel.faces.foreign_names import refuse_async_with
from ._hosts import Host

if TYPE_CHECKING:
    from ._network import Network

Pair = tuple[Host, Host]
"""A direction: from the first host to the second."""


@refuse_async_with()
class Partition:
    """Hosts that cannot reach each other until ``heal()`` is called, or until the end of a ``with`` block."""

    def __init__(self, network: Network, pairs: frozenset[Pair]) -> None:
        self.network = network
        self.pairs = pairs
        network.partitions.append(self)
        network.update_blocked()
        network.tell(f"partitions {self.names()}")

    def __repr__(self) -> str:
        return f"<Partition of {self.names()}{'' if self in self.network.partitions else ', healed'}>"

    def names(self) -> str:
        return ", ".join(sorted({f"{one.name} -> {other.name}" for one, other in self.pairs}))

    def heal(self) -> None:
        """Connect the groups again. Streams then send lost segments again. No-op on a healed partition."""
        if self in self.network.partitions:
            self.network.partitions.remove(self)
            self.network.update_blocked()
            self.network.tell(f"heals the partition {self.names()}")

    def __enter__(self) -> Partition:
        return self

    def __exit__(self, *_: object) -> None:
        self.heal()


def pairs_between(groups: Sequence[Sequence[Host]], hosts: Iterable[Host], one_way: bool) -> frozenset[Pair]:
    """Return the pairs of hosts that a partition separates. A single group is separated from all other hosts. Raises:
    ValueError.
    """
    if not groups:
        raise ValueError("a partition needs at least one group of hosts")
    sets = list(groups)
    if len(sets) == 1:
        sets.append([host for host in hosts if host not in sets[0]])
    if len({host for each in sets for host in each}) < sum(map(len, sets)):
        raise ValueError("a host is in one group of a partition only")
    senders = sets[:1] if one_way else sets
    return frozenset((a, b) for one in senders for other in sets if other is not one for a in one for b in other)
