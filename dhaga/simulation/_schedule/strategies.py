"""Strategies: who runs next. A strategy makes one ``Chooser`` for each run, which decides by the draws of a seed.

A chooser is asked when a member parks (``next_of``), and at points between two lines or instructions (``at_point``),
when its countdown ``points_left`` has reached 0: so most points cost a subtraction.

Source: S. Burckhardt, P. Kothari, M. Musuvathi, S. Nagarakatte: A Randomized Scheduler with Probabilistic Guarantees of
Finding Bugs (2010), for PCT. Differences: a yield lowers the priority, and so does a long stretch without a park, as a
loop that polls would starve all others; without the length of the program, early steps are more likely to be changes.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any

from .._base.ranges import is_number
from .members import Clock, Member

LONGEST_STRETCH = 10_000
"""Points of one member without a park, after which the others run: it may poll for what they do."""

LONGEST = 12
"""The last change of PCT, as a power of 2, where the length of the program is not known."""

RATES = (1, 5)
"""Bounds of the drawn rate of preemptions, as negative powers of 2."""


class Chooser:
    """Decides for one run; this one is FIFO, with preemptions only where a member may poll."""

    points_left: int = LONGEST_STRETCH

    stalls: bool = False
    """Whether the last of the ready members at a point may be the clock."""

    clock: Member = Clock()
    """The clock of the run."""

    def next_of(self, parked: Member, ready: Sequence[Member]) -> int:
        """Return the index of the member that runs next. ``ready`` is in the order of the wakes."""
        self.points_left = LONGEST_STRETCH
        return 0

    def at_point(self, running: Member, ready: Sequence[Member]) -> int | None:
        """Return the index of the member that runs instead of the running one; None: it goes on."""
        self.points_left = LONGEST_STRETCH
        return 0 if ready else None

    def ask_again(self) -> None:
        """Ask at the next point, as no switch was possible at this one."""
        self.points_left = 1

    def became_ready(self, member: Member) -> None:
        """Note that a member was woken."""

    def has_yielded(self, member: Member) -> None:
        """Note that a member has given its turn up, without waiting for anything."""


class RandomChooser(Chooser):
    """Any member may be next, and each point may be a preemption, or let time pass."""

    stalls = True

    def __init__(self, draw: random.Random, rate: float) -> None:
        self.draw = draw
        self.scale = math.log1p(-rate) if 0 < rate < 1 else None
        self.rate = rate
        self.points_left = self.gap()

    def gap(self) -> int:
        """Return the number of points up to the next preemption."""
        if self.scale is None:
            return 1 if self.rate else LONGEST_STRETCH
        return 1 + int(math.log(1 - self.draw.random()) / self.scale)

    def next_of(self, parked: Member, ready: Sequence[Member]) -> int:
        return int(self.draw.random() * len(ready))

    def at_point(self, running: Member, ready: Sequence[Member]) -> int | None:
        self.points_left = self.gap()
        return int(self.draw.random() * len(ready)) if ready else None


def draw_step(draw: random.Random, length: int | None) -> int:
    """Draw the step of a change.

    Half of the draws are uniform. In the others, and without a length, each power of 2 is as likely: a race at the
    beginning of a long program is also hit, and one in a run that is longer than the measured one.
    """
    if length is None or draw.random() < 1 / 2:
        return int(2 ** draw.uniform(0, LONGEST))
    return draw.randint(1, length)


priority_of: Callable[[Member], Any] = attrgetter("priority")


class PCTChooser(Chooser):
    """The ready member of the highest priority runs; at ``depth - 1`` steps the running one gets the lowest.

    After half of these steps the clock comes before it, once: time passes when no other member can run.
    """

    stalls = True

    def __init__(self, draw: random.Random, depth: int, length: int | None) -> None:
        self.draw = draw
        self.changes = {draw_step(draw, length): -place for place in range(1, depth)}
        self.lowest = float(-depth)
        self.steps = self.stretch = self.planned = self.points_left = 0
        self.plan()

    def priority(self, member: Member) -> float:
        if member.priority is None:
            member.priority = self.draw.random()
        return member.priority

    def plan(self) -> None:
        """Count down to the next change."""
        to_change = min((at - self.steps for at in self.changes if at > self.steps), default=LONGEST_STRETCH)
        self.planned = self.points_left = min(to_change, LONGEST_STRETCH)

    def count(self) -> int:
        """Count the steps since the last plan. Returns: their number."""
        done = self.planned - self.points_left
        self.steps += done
        self.planned = self.points_left
        return done

    def take_step(self, member: Member) -> None:
        """Change the priority of a member that has come to a change."""
        if self.points_left <= 0:
            change = self.changes.get(self.steps)
            if change is not None:
                member.priority = change
                # The step was drawn: whether it is odd is the toss of a coin.
                self.clock.priority = change + 1 / 2 if self.steps % 2 else -math.inf
            self.plan()

    def next_of(self, parked: Member, ready: Sequence[Member]) -> int:
        self.points_left -= 1
        self.count()
        self.take_step(parked)
        self.stretch = 0
        best = self.best(ready)
        if self.priority(ready[best]) < self.priority(self.clock):
            self.ask_again()
        return best

    def at_point(self, running: Member, ready: Sequence[Member]) -> int | None:
        self.stretch += self.count()
        self.take_step(running)
        if self.stretch >= LONGEST_STRETCH:
            self.stretch = 0
            self.has_yielded(running)
        if not ready:
            return None
        best = self.best(ready)
        if self.priority(ready[best]) <= self.priority(running):
            return None
        if ready[best] is self.clock:
            self.clock.priority = -math.inf
        return best

    def ask_again(self) -> None:
        self.planned = self.points_left = 1

    def best(self, ready: Sequence[Member]) -> int:
        # Each has got its priority in became_ready(). Of 500 in 19 µs, and in 30 by a list of the priorities.
        return ready.index(max(ready, key=priority_of))

    def became_ready(self, member: Member) -> None:
        """Ask at the next point: this member may have a higher priority than the running one."""
        self.priority(member)
        self.count()
        self.planned = self.points_left = min(self.points_left, 1)
        if self.points_left < 1:
            self.plan()

    def has_yielded(self, member: Member) -> None:
        self.lowest -= 1
        member.priority = self.lowest


# ---- the strategies, as users name them


class Strategy:
    """Makes the chooser of each run. ``str()`` is its name on the command line."""

    def chooser(self, draw: random.Random) -> Chooser:
        raise NotImplementedError

    def for_length(self, length: int) -> Strategy:
        """Return this strategy for a program of this length, in points and parks."""
        return self


@dataclass(frozen=True)
class FIFO(Strategy):
    """Each member runs until it parks or may poll, in the order of the wakes."""

    def chooser(self, draw: random.Random) -> Chooser:
        return Chooser()

    def __str__(self) -> str:
        return "fifo"


@dataclass(frozen=True)
class Random(Strategy):
    """Any ready member may be next. ``rate``: the share of points that are preemptions; None: drawn for each run."""

    rate: float | None = None

    def __post_init__(self) -> None:
        if self.rate is not None and not (is_number(self.rate) and 0 <= self.rate <= 1):
            raise ValueError(f"the rate of preemptions is a number from 0 to 1, and not {self.rate!r}")

    def chooser(self, draw: random.Random) -> Chooser:
        return RandomChooser(draw, 2.0 ** -draw.uniform(*RATES) if self.rate is None else self.rate)

    def __str__(self) -> str:
        return "random" if self.rate is None else f"random:{self.rate:g}"


@dataclass(frozen=True)
class PCT(Strategy):
    """Probabilistic concurrency testing: finds a bug that needs ``depth`` ordered steps with a known probability.

    That is at least 1 / (n * length ** (depth - 1)), for n members. ``length``: of the program, in points and parks;
    None: not known.
    """

    depth: int = 3
    length: int | None = None

    def __post_init__(self) -> None:
        check_whole("depth of PCT", self.depth)
        check_whole("length of a program", self.length)

    def chooser(self, draw: random.Random) -> Chooser:
        return PCTChooser(draw, self.depth, self.length)

    def for_length(self, length: int) -> Strategy:
        return self if self.length is not None else replace(self, length=length)

    def __str__(self) -> str:
        return f"pct:{self.depth}" + ("" if self.length is None else f":{self.length}")


@dataclass(frozen=True)
class Mixed(Strategy):
    """A third of the runs is random, the others are PCT with depths of 2 to 5: none of them finds all races."""

    length: int | None = None

    def __post_init__(self) -> None:
        check_whole("length of a program", self.length)

    def chooser(self, draw: random.Random) -> Chooser:
        strategy = Random() if draw.random() < 1 / 3 else PCT(draw.choice((2, 2, 3, 3, 4, 5)), self.length)
        return strategy.chooser(draw)

    def for_length(self, length: int) -> Strategy:
        return self if self.length is not None else Mixed(length)

    def __str__(self) -> str:
        return "mixed" if self.length is None else f"mixed:{self.length}"


@dataclass(frozen=True)
class Exhaustive(Strategy):
    """Every schedule with at most ``preemptions`` preemptions, one after the other: for small programs.

    Only ``search`` can use it, as each run depends on the earlier ones.
    """

    preemptions: int = 2

    def __post_init__(self) -> None:
        if not isinstance(self.preemptions, int) or isinstance(self.preemptions, bool) or self.preemptions < 0:
            raise ValueError(f"the number of preemptions is a whole number from 0, and not {self.preemptions!r}")

    def chooser(self, draw: random.Random) -> Chooser:
        raise ValueError("an exhaustive strategy needs dhaga.simulation.search(): one seed is not one of its runs")

    def __str__(self) -> str:
        return f"exhaustive:{self.preemptions}"


NAMES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "fifo": (FIFO, ()),
    "random": (Random, (float,)),
    "pct": (PCT, (int, int)),
    "mixed": (Mixed, (int,)),
    "exhaustive": (Exhaustive, (int,)),
}
"""By name: the class, and the types of its parameters."""


def strategy_of(value: Strategy | str) -> Strategy:
    """Return a strategy, or the one of that name: ``pct``, ``pct:3``, ``random:0.1``. Raises: ValueError, TypeError."""
    if isinstance(value, Strategy):
        return value
    if not isinstance(value, str):
        raise TypeError(f"a strategy is one of dhaga.simulation, or its name, and not {value!r}")
    name, *parameters = value.split(":")
    if name not in NAMES or len(parameters) > len(NAMES[name][1]):
        raise ValueError(f"there is no strategy {value!r}: name one of {', '.join(NAMES)}, such as pct:3 or random:0.1")
    kind, types = NAMES[name]
    try:
        values = [convert(text) for convert, text in zip(types, parameters, strict=False)]
    except ValueError:
        raise ValueError(f"the parameters of a strategy are numbers, pct:3 or random:0.1, and not {value!r}") from None
    return kind(*values)  # type: ignore[no-any-return]


def check_whole(name: str, value: object) -> None:
    """Check a whole number from 1, or None. Raises: ValueError."""
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
        raise ValueError(f"the {name} is a whole number from 1, and not {value!r}")
