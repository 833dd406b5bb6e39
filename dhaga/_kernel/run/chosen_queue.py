"""A run queue that chooses its next entry: the one place where tests and simulations decide which dhaga runs next.

It takes the place of a scheduler's run queue, a plain deque. Compiled functions leave any other queue to their Python
twins, so that the choice costs nothing where it is not used.
"""

from __future__ import annotations

import random
from collections import deque
from typing import Any

from .run_queues import HighQueue


class ChosenQueue(deque[Any]):
    """A run queue whose next entry is chosen by ``choose``. HIGH dhagas stay first."""

    def choose(self) -> int:
        """Return the index of the next entry. From: ``popleft``, with at least one entry that is not HIGH."""
        raise NotImplementedError

    def take(self, index: int) -> Any:
        """Remove and return the entry at an index, which runs now."""
        entry = self[index]
        del self[index]
        return entry

    def popleft(self) -> Any:
        # An empty queue has no first entry: IndexError, as from a plain deque.
        return self.take(0 if type(self[0]) is HighQueue else self.choose())


class ShuffledQueue(ChosenQueue):
    """A run queue that yields a random entry, by a seed: correctness must not depend on order."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.random: random.Random = random.Random(seed)

    def choose(self) -> int:
        return self.random.randrange(len(self))
