"""The installation of simulated functions for files. For files outside the disks, they call the usual functions."""

from __future__ import annotations

import builtins
import io
import os
import sys

from ... import os as ours
from ..._kernel import outside
from ...io import open as ours_open
from ...monkey._rebind import Replacement
from .._base.undoing import Undoing
from . import _audit, _naming, _writing
from ._disks import Disks
from ._files import OffloadedDiskFile, simulated_open, standard_open

REPLACED = [
    Replacement(os, name, function, getattr(ours, name))
    for name, function in (_writing.FUNCTIONS | _naming.FUNCTIONS).items()
] + [
    Replacement(os.path, "realpath", _naming.realpath, _naming.standard_realpath),
    *(Replacement(io, "open", simulated_open, replaced) for replaced in (standard_open, ours_open)),
]
"""The replacements of functions of ``os`` and ``os.path``, and of ``open``."""

SUPPORTING = ("supports_dir_fd", "supports_fd", "supports_follow_symlinks", "supports_effective_ids")


def install_disks(disks: Disks, undoing: Undoing) -> None:
    """Install the functions for ``disks`` until the calls of ``undoing`` are made."""
    undoing.callback(disks.end)
    undoing.set(builtins, "open", simulated_open)
    undoing.set(sys.modules["_io"], "open", simulated_open)
    undoing.set(outside, "open_file", simulated_open)
    undoing.set(outside, "offloaded_file", OffloadedDiskFile)
    for name in SUPPORTING:
        known = getattr(os, name)
        undoing.set(os, name, known | {each.ours for each in REPLACED if each.standard in known})
    _audit.watch()
