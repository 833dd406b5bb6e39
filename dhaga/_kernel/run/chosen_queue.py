"""A run queue that chooses its next entry. Tests and simulations use only this queue to decide which dhaga runs next.

A ``ChosenQueue`` replaces a scheduler's run queue, which is otherwise a plain deque. The compiled functions use only
plain deques, and leave all other run queues to the Python functions. So programs without a chosen queue pay nothing.
"""

from __future__ import annotations

import random
from collections import deque
from typing import Any

from .run_queues import HighQueue


class ChosenQueue(deque[Any]):
    """A run queue whose method ``choose`` selects the next entry. Dhagas of priority HIGH still run first."""

    def choose(self) -> int:
        """Return the index of the next entry. From: ``popleft``, unless the first entry stands for a HIGH dhaga."""
        raise NotImplementedError

    def take(self, index: int) -> Any:
        """Remove and return the entry at an index. The caller runs this entry next."""
        entry = self[index]
        del self[index]
        return entry

    def popleft(self) -> Any:
        # On an empty queue, self[0] raises IndexError, as ``popleft`` of a plain deque does.
        return self.take(0 if type(self[0]) is HighQueue else self.choose())


class ShuffledQueue(ChosenQueue):
    """A run queue that returns its entries in an order that a seed determines. Programs must work in any order."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.random: random.Random = random.Random(seed)

    def choose(self) -> int:
        return self.random.randrange(len(self))
