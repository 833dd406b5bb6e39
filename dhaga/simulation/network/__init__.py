"""The virtual network of a simulation: its hosts, their names and ports, and the faulty wires between hosts."""

from __future__ import annotations

from ._faults import Faults
from ._hosts import Host
from ._link import Link
from ._network import Network
from ._partition import Partition

__all__ = ["Faults", "Host", "Link", "Network", "Partition"]
