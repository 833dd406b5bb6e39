"""The virtual network of a simulation: hosts, names, ports, and the faults of the wires between them."""

from __future__ import annotations

from ._faults import Faults
from ._hosts import Host
from ._link import Link
from ._network import Network
from ._partition import Partition

__all__ = ["Faults", "Host", "Link", "Network", "Partition"]
