"""Races: several attempts at the same thing, each in a dhaga, of which the first success counts."""

from __future__ import annotations

from collections.abc import Callable
from inspect import iscoroutinefunction
from typing import TypeVar

from .kernel.errors import Cancelled
from .kernel.microthread import refuse
from .scope import Child, Scope

T = TypeVar("T")


def race(*fns: Callable[[], T], timeout: float | None = None, name: str = "race") -> T:
    """Call functions in a dhaga each; return what the first to succeed returns, the others being cancelled.

    What an attempt raises is kept until all have failed. Parks: until the last has ended (``scope race``). From: a
    dhaga, main code. Raises: the errors, in an ExceptionGroup, if all fail; TimeoutError after ``timeout`` seconds,
    the errors until then being its cause; TypeError, ValueError.
    """
    if not fns:
        raise ValueError("race() needs at least one function to call")
    for fn in fns:
        if not callable(fn) or iscoroutinefunction(fn):
            refuse(fn)
    with Race(timeout, name) as scope:
        for fn in fns:
            scope.spawn(fn, name=f"{name}: {getattr(fn, '__name__', fn)}")
    if scope.winner is not None:
        return scope.winner.value  # type: ignore[no-any-return]
    failed = BaseExceptionGroup(f"{name}: all have failed", scope.failures) if scope.failures else None
    if scope.expired or failed is None:
        raise TimeoutError(f"{name}: none has succeeded within {timeout} s") from failed
    raise failed


class Race(Scope):
    """A scope that ends with the first success of a child; errors are kept until it is known that none succeeds."""

    __slots__ = ("failures", "winner")

    def __init__(self, timeout: float | None, name: str) -> None:
        super().__init__(timeout, name)
        self.moves_on = True
        self.winner: Child | None = None
        self.failures: list[BaseException] = []

    def fail(self, child: Child, error: BaseException) -> None:
        if isinstance(error, (Exception, Cancelled)) and getattr(error, "scope", None) is not self:
            self.failures.append(error)
        else:
            super().fail(child, error)

    def leave(self, child: Child) -> None:
        if child.fault is None and self.winner is None:
            self.winner = child
            self.stop(f"{child.name} was first")
        super().leave(child)
