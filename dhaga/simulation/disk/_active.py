"""The disks of the simulation that runs in this process, and the errors of calls that they cannot simulate."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..._kernel import originals
from .._errors import NotSimulated
from ._tree import WAYS_OUT

if TYPE_CHECKING:
    from ._disks import Disks

disks: Disks | None = None


def use(simulated: Disks | None) -> None:
    global disks
    disks = simulated


def disks_of_caller() -> Disks | None:
    """Return the disks, in the OS thread of their simulation and once there is one; None elsewhere."""
    return disks if disks is not None and disks.folder and disks.thread == originals.get_ident() else None


def refused(call: str, place: str, reason: str) -> NotSimulated:
    return NotSimulated(f"{call} on the disk of a host, {place}, is not simulated, as {reason}: {WAYS_OUT}")
