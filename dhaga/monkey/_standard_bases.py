"""Standard classes that must derive from the standard class and not from ours, because they replace its private parts.

``multiprocessing.synchronize.Barrier`` keeps the state of its base class in shared memory, under the private names of
the standard Barrier, and waits by a condition of its own.
"""

from __future__ import annotations

import sys

from .._kernel import originals
from .._sync.barrier import Barrier

__all__ = ["install", "uninstall"]


def install() -> None:
    """Derive ``multiprocessing.synchronize.Barrier`` from the standard Barrier; no-op if it does already."""
    kind = sys.modules["multiprocessing.synchronize"].Barrier
    kind.__bases__ = tuple(originals.Barrier if base is Barrier else base for base in kind.__bases__)


def uninstall() -> None:
    """No-op: the standard class is right without the patch too."""
