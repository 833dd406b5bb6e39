"""The ``exhaustive`` strategy: every schedule of a small program, beginning with the fewest preemptions.

A run follows a prefix, which is a list of choices, and then takes the first choice at each decision. The run reports
all its decisions. Each other choice that the run could have taken after the prefix gives a new prefix. A prefix with
too many preemptions is left out.

Source: M. Musuvathi, S. Qadeer: Iterative Context Bounding for Systematic Testing of Multithreaded Programs (2007).
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence

from .members import Member
from .strategies import LONGEST_STRETCH, Chooser

Decision = tuple[int, int, bool]
"""One decision: the number of choices, the choice taken, and whether all choices except the first are preemptions."""


class ExhaustiveChooser(Chooser):
    """The chooser that follows the choices of a prefix, and then takes the first choice at each decision."""

    stalls = True

    def __init__(self, prefix: Sequence[int], preemptions: int) -> None:
        self.prefix = prefix
        self.preemptions_left = preemptions
        self.points_left = 1 if preemptions else LONGEST_STRETCH
        self.decisions: list[Decision] = []

    def choose(self, options: int, preempts: bool) -> int:
        place = len(self.decisions)
        taken = self.prefix[place] if place < len(self.prefix) else 0
        self.decisions.append((options, taken, preempts))
        return taken

    def next_of(self, parked: Member, ready: Sequence[Member]) -> int:
        return self.choose(len(ready), False)

    def at_point(self, running: Member, ready: Sequence[Member]) -> int | None:
        if not self.preemptions_left:
            return super().at_point(running, ready)
        self.points_left = 1
        if not ready:
            return None
        taken = self.choose(1 + len(ready), True)
        if not taken:
            return None
        self.preemptions_left -= 1
        if not self.preemptions_left:
            self.points_left = LONGEST_STRETCH
        return taken - 1


class Schedules:
    """The prefixes that have not run yet, as an iterator. Prefixes with the fewest preemptions come first."""

    def __init__(self, preemptions: int) -> None:
        self.preemptions = preemptions
        self.heap: list[tuple[int, int, list[int]]] = [(0, 0, [])]
        self.number = 0

    def __iter__(self) -> Iterator[list[int]]:
        return self

    def __next__(self) -> list[int]:
        if not self.heap:
            raise StopIteration
        return heapq.heappop(self.heap)[2]

    def add(self, prefix_length: int, decisions: Iterable[Decision]) -> None:
        """Add a new prefix for each choice that a run did not take after its own prefix."""
        taken: list[int] = []
        preemptions = 0
        for place, (options, choice, preempts) in enumerate(decisions):
            cost = preemptions + preempts
            if place >= prefix_length and cost <= self.preemptions:
                for other in range(1, options):
                    self.number += 1
                    heapq.heappush(self.heap, (cost, self.number, [*taken, other]))
            taken.append(choice)
            preemptions += preempts and bool(choice)
