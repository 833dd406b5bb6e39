"""Switches: a schedule as its differences from FIFO, so that it can be replayed, shortened and shown.

A switch says who runs next after a step of a member: after its nth park (``2/5>1``), or at its nth point instead of it,
which is a preemption (``2.31>1``). Steps are counted by member, so that a switch keeps its meaning when others are
taken away. Instead of a member, the clock may follow (``2.31>clock``): time passes up to the next deadline.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from .members import CLOCK, Member
from .strategies import LONGEST_STRETCH, Chooser

STRETCH = 10 * LONGEST_STRETCH
"""Points of one member without a park, after which a replay lets the others run: only where the schedule did not."""

SWITCH = re.compile(r"(\d+)([./])(\d+)>(\d+|clock)")


class Switch(NamedTuple):
    """Member ``number`` has taken ``steps`` parks, or points if ``preempts``, and ``following`` runs next."""

    number: int
    preempts: bool
    steps: int
    following: int

    def __str__(self) -> str:
        following = "clock" if self.following == CLOCK else self.following
        return f"{self.number}{'.' if self.preempts else '/'}{self.steps}>{following}"


def switches_from(text: str) -> list[Switch]:
    """Return the switches of a text, as a report prints them: ``2.31>1,1/4>2``. Raises: ValueError."""
    switches = []
    for part in filter(None, text.replace(" ", "").split(",")):
        found = SWITCH.fullmatch(part)
        if found is None:
            raise ValueError(f"a switch is written as 2.31>1 (at a point) or 2/5>1 (after a park), and not {part!r}")
        following = CLOCK if found[4] == "clock" else int(found[4])
        switches.append(Switch(int(found[1]), found[2] == ".", int(found[3]), following))
    return switches


class ReplayingChooser(Chooser):
    """FIFO, with the given switches. One whose member is not ready is left out."""

    def __init__(self, switches: Iterable[Switch]) -> None:
        self.following = {each[:3]: each.following for each in switches}
        self.gap = 1 if any(preempts for _, preempts, _ in self.following) else LONGEST_STRETCH
        self.points_left = self.gap
        self.stretch = 0
        self.stalls = CLOCK in self.following.values()

    def index_of(self, step: tuple[int, bool, int], ready: Sequence[Member]) -> int | None:
        number = self.following.get(step)
        if number is None:
            return None
        return next((index for index, member in enumerate(ready) if member.number == number), None)

    def next_of(self, parked: Member, ready: Sequence[Member]) -> int:
        self.stretch = 0
        return self.index_of((parked.number, False, parked.parks), ready) or 0

    def at_point(self, running: Member, ready: Sequence[Member]) -> int | None:
        self.points_left = self.gap
        self.stretch += self.gap
        index = self.index_of((running.number, True, running.points), ready)
        if index is None and self.stretch >= STRETCH and ready and ready[0].number != CLOCK:
            index = 0
        if index is not None:
            self.stretch = 0
        return index
