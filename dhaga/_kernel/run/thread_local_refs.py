"""References of a dhaga to the mappings that keep a value for it, such as those of ``threading.local``."""

from __future__ import annotations

from typing import Any

# Below this length, dead references stay.
SHRINK_ABOVE = 8


class ThreadLocalRefs(list[Any]):
    """Weak references to mappings that keep a value under a dhaga's ident. Dead ones are dropped: O(1) each in all."""

    # Length at which dead references are dropped: twice the number that were alive last time.
    limit: int = SHRINK_ABOVE

    def append(self, reference: Any) -> None:
        super().append(reference)
        if len(self) > self.limit:
            self[:] = [each for each in self if each() is not None]
            self.limit: int = max(SHRINK_ABOVE, 2 * len(self))
