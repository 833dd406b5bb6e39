"""Weak references of a dhaga to the mappings that hold a value for it, such as those of ``threading.local``."""

from __future__ import annotations

from typing import Any

# Up to this length, dead references are kept.
SHRINK_ABOVE = 8


class ThreadLocalRefs(list[Any]):
    """Weak references to mappings that hold a value under a dhaga's ident. The removal of a dead reference takes
    amortized O(1).
    """

    # The length above which dead references are removed: twice the number of live references at the last removal, but
    # at least ``SHRINK_ABOVE``.
    limit: int = SHRINK_ABOVE

    def append(self, reference: Any) -> None:
        super().append(reference)
        if len(self) > self.limit:
            self[:] = [each for each in self if each() is not None]
            self.limit: int = max(SHRINK_ABOVE, 2 * len(self))
