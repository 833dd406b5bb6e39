"""Standard classes that must keep their standard base under the patch, because they use private names of this base.

``multiprocessing.synchronize.Barrier`` keeps the state of its base class in shared memory, under the private names of
the standard Barrier, and waits with a condition of its own.
"""

from __future__ import annotations

import sys

from .._kernel import originals
from .._sync.barrier import Barrier

__all__ = ["install", "uninstall"]


def install() -> None:
    """Replace Dhaga's Barrier with the standard Barrier as the base of ``multiprocessing.synchronize.Barrier``."""
    kind = sys.modules["multiprocessing.synchronize"].Barrier
    kind.__bases__ = tuple(originals.Barrier if base is Barrier else base for base in kind.__bases__)


def uninstall() -> None:
    """Do nothing, because the standard base is also right without the patch."""
