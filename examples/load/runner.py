"""A test from beginning to end: runs begin in one of the two ways; what is under way at the end is awaited."""

from __future__ import annotations

from dataclasses import dataclass

import dhaga

from .closed_loop import ClosedLoop
from .load import Load
from .open_loop import MOST, OpenLoop
from .statistics import Statistics


@dataclass(frozen=True)
class OpenLoad:
    """Runs are due at a rate."""

    rate: float
    seconds: float
    ramp: float = 0.0
    most: int = MOST

    def come(self, load: Load, scope: dhaga.Scope) -> None:
        """Start the runs. Parks: until the last one is due."""
        OpenLoop(load, scope, self.most).come(self.rate, self.seconds, self.ramp)

    def __str__(self) -> str:
        return f"{self.rate:,g} runs due a second for {self.seconds:g} s{after(self.ramp)}"


@dataclass(frozen=True)
class ClosedLoad:
    """So many users repeat their runs."""

    users: int
    seconds: float
    ramp: float = 0.0
    pause: float = 0.0

    def come(self, load: Load, scope: dhaga.Scope) -> None:
        """Start the users. Parks: until their time is over."""
        ClosedLoop(load, scope, self.pause).come(self.users, self.seconds, self.ramp)

    def __str__(self) -> str:
        pause = f", {self.pause:g} s between two runs" if self.pause else ""
        return f"{self.users:,} users for {self.seconds:g} s{after(self.ramp)}{pause}"


LoadShape = OpenLoad | ClosedLoad


def after(ramp: float) -> str:
    return f" after a ramp of {ramp:g} s" if ramp else ""


def conduct(load: Load, shape: LoadShape) -> Statistics:
    """Carry a test out; runs that are under way at its end have as long as a request, then they are cut off.

    Parks: until then. Returns: the Statistics of the time after the ramp. Raises: NoRequestMade. A Ctrl-C closes them.
    """
    load.begin(shape.ramp + shape.seconds)
    try:
        with dhaga.move_on_after(shape.ramp + shape.seconds + load.timeout), dhaga.Scope() as scope:
            shape.come(load, scope)
    except BaseExceptionGroup as group:
        raise first(group) from None
    finally:
        load.book.close()
    return load.book


def first(error: BaseException) -> BaseException:
    """Return what a scope has been ended by."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
