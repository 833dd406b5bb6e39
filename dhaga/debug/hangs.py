"""What a Deadlock tells besides: where in the code each one stands, and who waits for each other in a circle."""

from __future__ import annotations

from collections.abc import Sequence

from dhaga.kernel.waiter import Waiter

from . import holders
from .stacks import stack_of


def place_of(waiter: Waiter) -> str:
    """Return where somebody parked stands in the code that uses Dhaga; empty if that is not to be seen."""
    greenlet = getattr(waiter, "greenlet", waiter)
    stack = [frame for frame in stack_of(getattr(greenlet, "gr_frame", None)) if not frame.of_dhaga]
    return f"{stack[-1]}: {stack[-1].source}".removesuffix(": ") if stack else ""


def circles_of(waiters: Sequence[Waiter]) -> list[str]:
    """Name those who wait for each other in a circle, a line each."""
    return [words_of([waiter.name for waiter in circle]) for circle in holders.circles(waiters)]


def words_of(circle: Sequence[str]) -> str:
    """Write a circle of names, the first one at its end, too."""
    return " waits for ".join([*circle, circle[0]])
