"""Pending cancels of a waiter: standing cancels of scopes, and errors that a shield holds off.

A waiter has an empty tuple in ``pending_errors`` until its first scope, shield or late cancel, which puts a
``PendingErrors`` there for good. The entry of each park, ``if me.pending_errors: raise me.pending_errors.pop(0)``, is
the same for both, so that scopes cost nothing where none is used.
Any OS thread may add a cause at any moment, and a signal handler between any two bytecodes. So each step is one
operation of a list or a dict: no cause is lost, with the interpreter lock or without.
An error is raised once and is gone. A ``ScopeCancel`` is level-triggered: it stands until its scope ends and raises a
``Cancelled`` at each park, a fresh one each time, because a traceback grows whenever its error is raised again. Which
of two blocks is the outer one is told by numbers drawn from the sequence of the scheduler's timers when a block is
entered: the smaller number is further out. A shield holds off the causes whose number is smaller than its own.
Not here: the blocks themselves (``dhaga/_structured/``).
"""

from __future__ import annotations

import math
import sys
from bisect import insort
from typing import TYPE_CHECKING, Any, SupportsIndex

from ..errors import Cancelled, Expired, ParkError

if TYPE_CHECKING:
    from .waiter import Waiter


class ScopeCancel:
    """Standing cancel of a scope: each park inside that scope raises a fresh ``Cancelled`` of it."""

    __slots__ = ("number", "reason", "scope")

    def __init__(self, scope: object, number: int, reason: object) -> None:
        self.scope: object = scope
        self.number: int = number
        self.reason: object = reason

    def error(self) -> Cancelled:
        error = Cancelled(self.reason)
        error.scope = self.scope
        return error


class NoPark(ScopeCancel):
    """Marker of a ``no_park()`` block: each park in it raises ParkError, including those within shields."""

    __slots__ = ("where",)

    def __init__(self, where: str) -> None:
        # The highest number there is: it sorts behind every cancel, and no shield holds it off.
        super().__init__(None, sys.maxsize, None)
        self.where = where

    def error(self) -> ParkError:  # type: ignore[override]
        return ParkError(f"this call would have to park, within the no_park() of {self.where}")


class PendingErrors(list[Any]):
    """The errors of the next parks: each error once, then the scope cancels, the outermost scope's first.

    ``held``: causes from outside the innermost shield, which wait for its end; ``scopes``: the scopes that the waiter
    is in; ``shields``: the numbers of its shields. In both lists the innermost is last.
    """

    __slots__ = ("held", "scopes", "shields")

    def __init__(self) -> None:
        self.held: list[Any] = []
        self.scopes: list[Any] = []
        self.shields: list[int] = []

    def pop(self, index: SupportsIndex = 0) -> Any:
        # A scope cancel stays in the list, because it applies to every further park of its block.
        first = self[0]
        return first.error() if isinstance(first, ScopeCancel) else super().pop(0)

    def pop_asynchronous(self) -> Any:
        """Remove and return the first error that belongs to no block, or None."""
        error = next((cause for cause in self if block_number(cause) == math.inf), None)
        if error is not None:
            self.remove(error)
        return error

    def append(self, cause: BaseException | ScopeCancel) -> None:
        if self.holds_off(cause):
            self.held.append(cause)
        else:
            insort(self, cause, key=raise_order)

    def drop(self, cause: BaseException | ScopeCancel) -> None:
        """Discard a cause, held off or not; no-op if it is absent."""
        for causes in (self, self.held):
            if cause in causes:
                causes.remove(cause)

    def holds_off(self, cause: BaseException | ScopeCancel) -> bool:
        """Return whether a shield keeps this cause from being raised."""
        return bool(self.shields) and block_number(cause) < self.shields[-1]

    def shield(self, number: int) -> None:
        """Hold off causes from outside the block with this number from now on."""
        self.shields.append(number)
        self.reapply_shields()

    def unshield(self, number: int) -> None:
        self.shields.remove(number)
        self.reapply_shields()

    def reapply_shields(self) -> None:
        # Almost every call ends here: shields are entered far more often than cancels are pending.
        if not self.held and not self:
            return
        # One by one, because others may come meanwhile. Appending them again in order keeps their order.
        for cause in [*self.held, *self]:
            self.drop(cause)
            self.append(cause)


# First lists of pending errors that are about to be set, by the id of the waiter.
first_lists: dict[int, PendingErrors] = {}


def pending_errors_of(waiter: Waiter) -> PendingErrors:
    """Return the waiter's list of pending errors, made at the first call."""
    if isinstance(waiter.pending_errors, tuple):
        # Two threads that call at once set the same list, in either order. A third thread, which makes another list as
        # this entry is gone again, finds the first list set.
        made = first_lists.setdefault(id(waiter), PendingErrors())
        if isinstance(waiter.pending_errors, tuple):
            waiter.pending_errors = made
        first_lists.pop(id(waiter), None)
    return waiter.pending_errors


def block_number(cause: BaseException | ScopeCancel) -> float:
    """Return the number of the block that a cause comes from. A plain cancel comes from outside all blocks: -1.

    Other errors, such as KeyboardInterrupt, belong to no block: infinity, which no shield holds off.
    """
    if isinstance(cause, (ScopeCancel, Expired)):
        return cause.number
    return -1 if isinstance(cause, Cancelled) else math.inf


def raise_order(cause: BaseException | ScopeCancel) -> int:
    """Return the sort key of a cause: errors raised once come before scope cancels, which are raised for ever."""
    return cause.number if isinstance(cause, ScopeCancel) else -1


def raise_interrupt(me: Waiter) -> None:
    """Raise a pending error of a Ctrl-C or a signal handler; cancels stay pending."""
    for error in list(me.pending_errors):
        if isinstance(error, BaseException) and not isinstance(error, (Cancelled, Expired)):
            me.pending_errors.remove(error)
            me._throw_error(error)
