"""The dict of running Threads by ident. ``dhaga.threading.enumerate`` returns the dict's values, and the patch
(``dhaga.monkey``) replaces ``threading._active`` with this dict.
"""

from __future__ import annotations

import weakref
from typing import Any

from .._kernel.run.idents import ident_of
from .._kernel.run.microthread import Dhaga


class Active(dict[int, Any]):
    """A dict of running Threads by ident. When a Thread's dhaga ends, the Thread is removed."""

    def __init__(self) -> None:
        # Maps a dhaga's number (``dhaga.ident``) to the ident of its Thread if the two differ. A dhaga that ends passes
        # its number to pop().
        self.by_number: dict[int, int] = {}

    def add(self, dhaga: Dhaga, thread: Any) -> None:
        """Add the Thread of a dhaga. When the dhaga ends, the Thread is removed."""
        ident = ident_of(dhaga)
        if ident != dhaga.ident:
            self.by_number[dhaga.ident] = ident
        self[ident] = thread
        dhaga.drop_at_end(active_ref)

    def pop(self, ident: int, *default: Any) -> Any:
        """Remove a Thread by its ident, or by the number of its dhaga, and return the Thread."""
        return super().pop(self.by_number.pop(ident, ident), *default)

    def __delitem__(self, ident: int) -> None:
        """Remove a Thread; do nothing if the Thread has ended. Source: ``dict``, which would raise KeyError."""
        self.pop(ident, None)


active = Active()
active_ref: weakref.ref[Active] = weakref.ref(active)
