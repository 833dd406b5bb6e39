"""Switches: the differences of a schedule from FIFO, with which the schedule can be replayed, shortened and shown.

``2/5>1`` means that member 1 runs after the 5th park of member 2. ``2.31>1`` means that member 1 preempts member 2 at
the 31st point (place between two lines) of member 2. ``2.31>clock`` means that member 2 stands still at this point
until the next deadline. Each member's steps are counted separately. So a switch keeps its meaning when other switches
are removed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from .members import CLOCK, Member
from .strategies import LONGEST_STRETCH, Chooser

STRETCH = 10 * LONGEST_STRETCH
"""The number of points that a member may pass without a park in a replay. Then other members run.

In the original run the limit was a tenth of this number. So a replay reaches this number only if a switch of the
original run was removed.
"""

SWITCH = re.compile(r"(\d+)([./])(\d+)>(\d+|clock)")


class Switch(NamedTuple):
    """After ``steps`` parks (points if ``preempts`` is true) of member ``number``, member ``following`` runs next."""

    number: int
    preempts: bool
    steps: int
    following: int

    def __str__(self) -> str:
        following = "clock" if self.following == CLOCK else self.following
        return f"{self.number}{'.' if self.preempts else '/'}{self.steps}>{following}"


def switches_from(text: str) -> list[Switch]:
    """Return the switches in a text. The text has the form that reports print: ``2.31>1,1/4>2``. Raises: ValueError."""
    switches = []
    for part in filter(None, text.replace(" ", "").split(",")):
        found = SWITCH.fullmatch(part)
        if found is None:
            raise ValueError(f"a switch is written as 2.31>1 (at a point) or 2/5>1 (after a park), and not {part!r}")
        following = CLOCK if found[4] == "clock" else int(found[4])
        switches.append(Switch(int(found[1]), found[2] == ".", int(found[3]), following))
    return switches


class ReplayingChooser(Chooser):
    """The chooser that follows the given switches, and otherwise is FIFO. Switches to a member that is not ready are
    ignored.
    """

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
