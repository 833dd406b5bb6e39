"""The running Threads by ident, which ``threading.enumerate`` returns; under the patch, this dict is
``threading._active``.
"""

from __future__ import annotations

import weakref
from typing import Any

from .._kernel.run.idents import ident_of
from .._kernel.run.microthread import Dhaga


class Active(dict[int, Any]):
    """Threads by ident. The end of a Thread's dhaga removes it."""

    def __init__(self) -> None:
        # The idents of dhagas whose ident differs from their number, by that number: the end of a dhaga passes the
        # number to pop().
        self.by_number: dict[int, int] = {}

    def add(self, dhaga: Dhaga, thread: Any) -> None:
        """Add the Thread of a dhaga until its end."""
        ident = ident_of(dhaga)
        if ident != dhaga.ident:
            self.by_number[dhaga.ident] = ident
        self[ident] = thread
        dhaga.drop_at_end(active_ref)

    def pop(self, ident: int, *default: Any) -> Any:
        """Remove a Thread by its ident, or by the number of its dhaga, and return it."""
        return super().pop(self.by_number.pop(ident, ident), *default)

    def __delitem__(self, ident: int) -> None:
        """Remove a Thread. Unlike in the standard's dict, this is a no-op if the thread's end has removed it."""
        self.pop(ident, None)


active = Active()
active_ref: weakref.ref[Active] = weakref.ref(active)
