"""Pending cancels of a waiter: cancels of its scopes, and errors that a shield holds off.

At first, a waiter has an empty tuple in ``pending_errors``. Its first scope, shield or pending error replaces the tuple
with a ``PendingErrors`` for good. With either type, each park begins with the same line, ``if me.pending_errors: raise
me.pending_errors.pop(0)``. So scopes cost nothing in programs without scopes.
Any OS thread, and any signal handler, may add a cause of a cancel between any two bytecodes. Each step is therefore one
operation of a list or a dict. So no cause is lost, with or without the interpreter lock.
A plain error is removed and raised once. A ``ScopeCancel`` is level-triggered: it stays until its scope ends, and
raises a new ``Cancelled`` at each park. The ``Cancelled`` is new each time, because a traceback grows whenever its
error is raised again. Each block gets a number when it is entered, from the sequence of the scheduler's timers. So an
outer block has a smaller number than an inner block. A shield holds off the causes whose numbers are smaller than the
shield's number. Not here: the blocks themselves (``dhaga/_structured/``).
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
    """The cancel of a scope: each park inside the scope raises a new ``Cancelled`` with that scope."""

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
    """Marker of a ``no_park()`` block: each park in the block raises ParkError, even within a shield."""

    __slots__ = ("where",)

    def __init__(self, where: str) -> None:
        # With the highest number, this marker sorts behind every cancel, and no shield holds it off.
        super().__init__(None, sys.maxsize, None)
        self.where = where

    def error(self) -> ParkError:  # type: ignore[override]
        return ParkError(f"this call would have to park, within the no_park() of {self.where}")


class PendingErrors(list[Any]):
    """The errors that a waiter's next parks raise: first the plain errors, then the scope cancels, outermost first.

    ``held``: causes from outside the innermost shield, kept until the shield ends. ``scopes``: the scopes that the
    waiter is in. ``shields``: the numbers of its shields. In ``scopes`` and ``shields`` the innermost block is last.
    """

    __slots__ = ("held", "scopes", "shields")

    def __init__(self) -> None:
        self.held: list[Any] = []
        self.scopes: list[Any] = []
        self.shields: list[int] = []

    def pop(self, index: SupportsIndex = 0) -> Any:
        # A scope cancel stays in the list, because it applies to every park of its block.
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
        """Discard a cause, whether a shield holds it off or not. Do nothing if the cause is absent."""
        for causes in (self, self.held):
            if cause in causes:
                causes.remove(cause)

    def holds_off(self, cause: BaseException | ScopeCancel) -> bool:
        """Return whether a shield holds this cause off, so that no park raises the cause."""
        return bool(self.shields) and block_number(cause) < self.shields[-1]

    def shield(self, number: int) -> None:
        """Hold off causes from outside the block with this number, until ``unshield``."""
        self.shields.append(number)
        self.reapply_shields()

    def unshield(self, number: int) -> None:
        self.shields.remove(number)
        self.reapply_shields()

    def reapply_shields(self) -> None:
        # Almost every call ends here, because an error is rarely pending when a shield begins or ends.
        if not self.held and not self:
            return
        # Causes are moved one at a time, because other causes may arrive meanwhile. Both lists are read from the front,
        # so that the causes of each list keep their order.
        for cause in [*self.held, *self]:
            self.drop(cause)
            self.append(cause)


# New lists of pending errors that are not yet set in their waiters, by the waiter's id.
first_lists: dict[int, PendingErrors] = {}


def pending_errors_of(waiter: Waiter) -> PendingErrors:
    """Return the waiter's list of pending errors; the first call makes the list."""
    if isinstance(waiter.pending_errors, tuple):
        # Two threads that call at the same time set the same list. A third thread may come after the removal below, and
        # make another list. It then returns the list that the waiter already has.
        made = first_lists.setdefault(id(waiter), PendingErrors())
        if isinstance(waiter.pending_errors, tuple):
            waiter.pending_errors = made
        first_lists.pop(id(waiter), None)
    return waiter.pending_errors


def block_number(cause: BaseException | ScopeCancel) -> float:
    """Return the number of the block that a cause comes from; -1 for a plain cancel, which is outside all blocks.

    Other errors, such as KeyboardInterrupt, belong to no block. Their number is infinity, which no shield holds off.
    """
    if isinstance(cause, (ScopeCancel, Expired)):
        return cause.number
    return -1 if isinstance(cause, Cancelled) else math.inf


def raise_order(cause: BaseException | ScopeCancel) -> int:
    """Return the sort key of a cause: errors, which are raised once, come before scope cancels, which stay."""
    return cause.number if isinstance(cause, ScopeCancel) else -1


def keep_swallowed(waiter: Waiter, error: BaseException) -> None:
    """Raise at the waiter's next park an error that the code for which it waited has swallowed.

    A late timeout is dropped. The cancel of a scope stays pending until the scope ends, and is not kept here.
    """
    if not isinstance(error, TimeoutError) and getattr(error, "scope", None) is None:
        waiter.cancel_with(error)


def raise_interrupt(me: Waiter) -> None:
    """Raise the first pending error that is neither a cancel nor an expiry, such as the error of a signal handler."""
    for error in list(me.pending_errors):
        if isinstance(error, BaseException) and not isinstance(error, (Cancelled, Expired)):
            me.pending_errors.remove(error)
            me._throw_error(error)
