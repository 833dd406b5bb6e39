"""Cancels that stand, and cancels that are held off: the ``pending`` of a waiter that is in scopes or shields.

Others have a tuple or a list there. The way into each park, ``if me.pending: raise me.pending.pop(0)``, is the same for
all, and costs nothing where no scope is used. What came first is known by numbers, drawn from the sequence of the
scheduler's timers: of blocks when they are entered. Not here: the blocks themselves (``dhaga/scope.py``).
"""

from __future__ import annotations

import math
import sys
from bisect import insort
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, SupportsIndex

from .errors import Cancelled, Expired, ParkError

if TYPE_CHECKING:
    from .waiter import Waiter


class Order:
    """A scope's cancel, which stands: each park of those it is for raises a fresh ``Cancelled`` of that scope."""

    __slots__ = ("number", "reason", "scope")

    def __init__(self, scope: object, number: int, reason: object) -> None:
        self.scope = scope
        self.number = number
        self.reason = reason

    def error(self) -> Cancelled:
        error = Cancelled(self.reason)
        error.scope = self.scope
        return error


class Ban(Order):
    """What stands while its block must not park: each park raises ParkError, within shields, too."""

    __slots__ = ("where",)

    def __init__(self, where: str) -> None:
        super().__init__(None, sys.maxsize, None)
        self.where = where

    def error(self) -> ParkError:  # type: ignore[override]
        return ParkError(f"this call would have to park, within the no_park() of {self.where}")


class Cancels(list[Any]):
    """What the next park raises: errors, each once, then orders, that of the outermost scope first.

    ``held``: what comes from outside the innermost shield, and waits for its end; ``scopes``: those whose blocks the
    waiter is in, ``shields``: the numbers of its shields, both the innermost last.
    """

    __slots__ = ("held", "scopes", "shields")

    def __init__(self, pending: Iterable[BaseException]) -> None:
        super().__init__(pending)
        self.held: list[Any] = []
        self.scopes: list[Any] = []
        self.shields: list[int] = []

    def pop(self, index: SupportsIndex = 0) -> Any:
        first = self[0]
        return first.error() if isinstance(first, Order) else super().pop(0)

    def append(self, cause: BaseException | Order) -> None:
        if self.holds_off(cause):
            self.held.append(cause)
        else:
            insort(self, cause, key=turn)

    def drop(self, cause: BaseException | Order) -> None:
        """Forget what is not to be raised any more, if it is there."""
        for causes in (self, self.held):
            if cause in causes:
                causes.remove(cause)

    def holds_off(self, cause: BaseException | Order) -> bool:
        """Tell whether a shield keeps this from being raised."""
        return bool(self.shields) and origin(cause) < self.shields[-1]

    def shield(self, number: int) -> None:
        """Hold off from now on what comes from outside of the block with this number."""
        self.shields.append(number)
        self.sort_out()

    def unshield(self, number: int) -> None:
        self.shields.remove(number)
        self.sort_out()

    def sort_out(self) -> None:
        if not self.held and not self:  # as nearly always
            return
        causes = [*self.held, *self]
        held = [cause for cause in causes if self.holds_off(cause)]
        free = sorted((cause for cause in causes if not self.holds_off(cause)), key=turn)
        self.held, self[:] = held, free  # with nothing between that a signal handler could cut short


def cancels_of(waiter: Waiter) -> Cancels:
    """Return the waiter's ``pending``, made fit for scopes and shields."""
    if not isinstance(waiter.pending, Cancels):
        waiter.pending = Cancels(waiter.pending)
    return waiter.pending


def origin(cause: BaseException | Order) -> float:
    """Return the number of the block that a cause comes from. A plain cancel is from outside of all.

    Other errors, such as KeyboardInterrupt, are from nowhere: no shield holds them off.
    """
    if isinstance(cause, (Order, Expired)):
        return cause.number
    return -1 if isinstance(cause, Cancelled) else math.inf


def turn(cause: BaseException | Order) -> int:
    """Sort what is raised once before the orders, which would be raised for ever."""
    return cause.number if isinstance(cause, Order) else -1
