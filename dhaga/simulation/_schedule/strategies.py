"""Strategies: rules for who runs next. For each run, a strategy makes a ``Chooser``, which makes the decisions.

The members of a run are its dhagas, its main code and other participants (``members.py``). A chooser decides who runs
next each time that a member parks (``next_of``), and at points (``at_point``). Points are the places between two lines
or instructions of the program. Most points only lower the chooser's countdown ``points_left``.

Source: S. Burckhardt, P. Kothari, M. Musuvathi, S. Nagarakatte: A Randomized Scheduler with Probabilistic Guarantees of
Finding Bugs (2010), for PCT (probabilistic concurrency testing). Differences: a yield lowers the member's priority. A
long stretch without a park also lowers the priority, because a loop that polls would otherwise starve all other
members. Priorities change more often at early steps, because the length of the program may be unknown.
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
"""The number of points that a member may pass without a park. Then others run, because this member may be polling."""

LONGEST = 12
"""The largest exponent for the steps that PCT draws as ``2 ** exponent``, without using the program's length."""

RATES = (1, 5)
"""The bounds of a drawn rate of preemptions. A bound of 5 means the rate 2 to the power of -5."""


class Chooser:
    """The decisions of one run. This base class runs the members in FIFO order, and preempts a member only after
    ``LONGEST_STRETCH`` points without a park.
    """

    points_left: int = LONGEST_STRETCH

    stalls: bool = False
    """Whether ``at_point`` can choose the clock, which is then the last of the ready members."""

    clock: Member = Clock()
    """The member that represents the time of the run."""

    def next_of(self, parked: Member, ready: Sequence[Member]) -> int:
        """Return the index of the member that runs after ``parked``. ``ready`` is in the order of the wakes."""
        self.points_left = LONGEST_STRETCH
        return 0

    def at_point(self, running: Member, ready: Sequence[Member]) -> int | None:
        """Return the index of the member that runs instead of ``running``, or None if ``running`` continues."""
        self.points_left = LONGEST_STRETCH
        return 0 if ready else None

    def ask_again(self) -> None:
        """Schedule a decision at the next point, because the best switch is not possible now."""
        self.points_left = 1

    def became_ready(self, member: Member) -> None:
        """Note that a member has become ready to run."""

    def has_yielded(self, member: Member) -> None:
        """Note that a member has ended its turn without waiting for anything."""


class RandomChooser(Chooser):
    """The chooser that draws each decision. At any point it can preempt the running member or let time pass."""

    stalls = True

    def __init__(self, draw: random.Random, rate: float) -> None:
        self.draw = draw
        self.scale = math.log1p(-rate) if 0 < rate < 1 else None
        self.rate = rate
        self.points_left = self.gap()

    def gap(self) -> int:
        """Return a drawn number of points up to the next preemption."""
        if self.scale is None:
            return 1 if self.rate else LONGEST_STRETCH
        return 1 + int(math.log(1 - self.draw.random()) / self.scale)

    def next_of(self, parked: Member, ready: Sequence[Member]) -> int:
        return int(self.draw.random() * len(ready))

    def at_point(self, running: Member, ready: Sequence[Member]) -> int | None:
        self.points_left = self.gap()
        return int(self.draw.random() * len(ready)) if ready else None


def draw_step(draw: random.Random, length: int | None) -> int:
    """Return a drawn step at which PCT changes a priority. ``length``: the steps of the program, None if unknown.

    Half of the draws are uniform up to the length. In all other draws, the ranges of steps 1, 2 to 3, 4 to 7 and so on
    are equally likely. Without a length, all draws are of this second sort. Draws of this sort also find races at the
    start of long programs, and races after ``length`` steps if a run takes more steps than that.
    """
    if length is None or draw.random() < 1 / 2:
        return int(2 ** draw.uniform(0, LONGEST))
    return draw.randint(1, length)


priority_of: Callable[[Member], Any] = attrgetter("priority")


class PCTChooser(Chooser):
    """The chooser of PCT: the ready member with the highest priority runs.

    At ``depth - 1`` drawn steps, the running member gets a priority below all drawn priorities. In about half of these
    cases, the clock gets a priority just above this low priority. Time then passes once, when no member with a
    higher priority is ready.
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
        """Start the countdown to the next change of a priority."""
        to_change = min((at - self.steps for at in self.changes if at > self.steps), default=LONGEST_STRETCH)
        self.planned = self.points_left = min(to_change, LONGEST_STRETCH)

    def count(self) -> int:
        """Count the steps since the last count. Returns: the number of these steps."""
        done = self.planned - self.points_left
        self.steps += done
        self.planned = self.points_left
        return done

    def take_step(self, member: Member) -> None:
        """Lower the member's priority if this step was drawn for a change. Then plan the next change."""
        if self.points_left <= 0:
            change = self.changes.get(self.steps)
            if change is not None:
                member.priority = change
                # About half of the drawn steps are odd, so this choice needs no further draw.
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
        # became_ready() has set all priorities. For 500 members this line takes 19 µs; a list of priorities took 30 µs.
        return ready.index(max(ready, key=priority_of))

    def became_ready(self, member: Member) -> None:
        """Schedule a decision at the next point: this member may have a higher priority than the running member."""
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
    """A rule that decides which thread runs next. ``str()`` returns the strategy's name on the command line."""

    def chooser(self, draw: random.Random) -> Chooser:
        raise NotImplementedError

    def for_length(self, length: int) -> Strategy:
        """Return this strategy for a program of a known length, in points and parks."""
        return self


@dataclass(frozen=True)
class FIFO(Strategy):
    """Threads run in the order in which they became ready. Each thread runs until it waits or seems to poll."""

    def chooser(self, draw: random.Random) -> Chooser:
        return Chooser()

    def __str__(self) -> str:
        return "fifo"


@dataclass(frozen=True)
class Random(Strategy):
    """Any ready thread can run next. ``rate``: the share of points with a preemption; None: a drawn rate for each run.

    Points are the places between two lines or instructions of the program.
    """

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
    """Probabilistic concurrency testing, for bugs that need ``depth`` steps in a certain order.

    The published algorithm finds such a bug in one run with a probability of at least 1 / (n * length ** (depth - 1))
    for n threads. ``length``: the length of the program in points and parks; None: unknown.
    """

    depth: int = 3
    length: int | None = None

    def __post_init__(self) -> None:
        check_whole("depth of PCT", self.depth)
        if self.length is not None:
            check_whole("length of a program", self.length)

    def chooser(self, draw: random.Random) -> Chooser:
        return PCTChooser(draw, self.depth, self.length)

    def for_length(self, length: int) -> Strategy:
        return self if self.length is not None else replace(self, length=length)

    def __str__(self) -> str:
        return f"pct:{self.depth}" + ("" if self.length is None else f":{self.length}")


@dataclass(frozen=True)
class Mixed(Strategy):
    """A third of the runs use ``Random``, the others ``PCT`` with depths of 2 to 5, because neither finds all races."""

    length: int | None = None

    def __post_init__(self) -> None:
        if self.length is not None:
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
    """Every schedule of a small program with at most ``preemptions`` preemptions, one schedule in each run.

    Only ``search`` can use this strategy, because each run depends on the earlier runs.
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
"""The strategies by name, each with its class and the types of its parameters."""


def strategy_of(value: Strategy | str) -> Strategy:
    """Return a strategy. ``value``: a strategy, or a name such as ``pct:3`` or ``random:0.1``.

    Raises: ValueError, TypeError.
    """
    if isinstance(value, Strategy):
        return value
    if not isinstance(value, str):
        raise TypeError(f"a strategy is an object of dhaga.simulation, or a name such as pct:3, and not {value!r}")
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
    """Check that a value is a whole number from 1. Raises: ValueError."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError(f"the {name} is a whole number from 1, and not {value!r}")
