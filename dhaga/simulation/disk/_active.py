"""The disks of the simulation that runs in this process, and the error for calls that the disks cannot simulate."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._base.errors import NotSimulated
from .._base.here import here
from ._tree import WAYS_OUT

if TYPE_CHECKING:
    from ._disks import Disks


def disks_of_caller() -> Disks | None:
    """Return the disks of the caller's simulation; None outside a simulation, or before its first disk."""
    simulation = here()
    return simulation.disks if simulation is not None and simulation.disks.folder else None


def refused(call: str, place: str, reason: str) -> NotSimulated:
    return NotSimulated(f"{call} on the disk of a host, {place}, is not simulated, because {reason}: {WAYS_OUT}")
