"""The disks of a simulation: durable and unsynced contents, the losses at a kill, and the faults of each disk."""

from __future__ import annotations

from ._disk import CALLS, Disk, check_calls
from ._disks import Disks, remove_folders_of
from ._real import own_calls
from ._survival import check_unsynced

__all__ = ["CALLS", "Disk", "Disks", "check_calls", "check_unsynced", "own_calls", "remove_folders_of"]
