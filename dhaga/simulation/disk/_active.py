"""The disks of the simulation that runs in this process, and the errors of calls that they cannot simulate."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._base.errors import NotSimulated
from .._base.here import here
from ._tree import WAYS_OUT

if TYPE_CHECKING:
    from ._disks import Disks


def disks_of_caller() -> Disks | None:
    """Return the disks, in the OS thread of their simulation and once there is one; None elsewhere."""
    simulation = here()
    return simulation.disks if simulation is not None and simulation.disks.folder else None


def refused(call: str, place: str, reason: str) -> NotSimulated:
    return NotSimulated(f"{call} on the disk of a host, {place}, is not simulated, as {reason}: {WAYS_OUT}")
