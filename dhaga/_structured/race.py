"""``race``: several attempts at one result, each in its own dhaga. The first success cancels the other attempts."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TypeVar

from greenlet import GreenletExit

from .._kernel.errors import Cancelled
from .._kernel.faces.arguments import check_function
from .scope import Child, Scope

T = TypeVar("T")


def race(*fns: Callable[[], T], timeout: float | None = None, name: str = "race") -> T:
    """Call each function in a separate dhaga; return the first result and cancel the other dhagas.

    Parks: until all dhagas have ended (``scope race``). From: a dhaga, main code. Raises: ExceptionGroup of all errors
    if all fail; TimeoutError after ``timeout`` seconds, with earlier errors as its cause; TypeError, ValueError.

    >>> race(lambda: 1 / 0, lambda: "first")
    'first'
    """
    if not fns:
        raise ValueError("race() needs at least one function to call")
    for fn in fns:
        check_racer(fn)
    with Race(timeout, name) as scope:
        for fn in fns:
            scope.spawn(fn, name=f"{name}: {getattr(fn, '__name__', fn)}")
    # The winner refers to the scope. Without this reference cycle, the result is freed once the caller drops it.
    winner, scope._winner = scope._winner, None
    if winner is not None:
        return winner._value  # type: ignore[no-any-return]
    failed = BaseExceptionGroup(f"{name}: all have failed", scope._failures) if scope._failures else None
    if scope.expired or failed is None:
        raise TimeoutError(f"{name}: none succeeded within {timeout} s") from failed
    raise failed


def check_racer(fn: object) -> None:
    """Check one function of a race. Raises: TypeError."""
    if isinstance(fn, (list, tuple, set)):
        raise TypeError(f"race() takes functions one by one, race(*functions), and not {fn!r}")
    if callable(fn) or inspect.iscoroutine(fn):
        check_function(fn, "race")
    else:
        raise TypeError(
            f"race needs a function to call, and not {fn!r}: race(lambda: fetch(one), lambda: fetch(other))"
        )


class Race(Scope):
    """A scope that the first successful child cancels. Errors of children are raised only if no child succeeds."""

    __slots__ = ("_failures", "_winner")

    def __init__(self, timeout: float | None, name: str) -> None:
        super().__init__(timeout, name)
        self._moves_on = True
        self._winner: Child | None = None
        self._failures: list[BaseException] = []

    def _child_failed(self, child: Child, error: BaseException) -> None:
        # SystemExit and KeyboardInterrupt end the race at once, as they end any scope.
        if isinstance(error, (Exception, Cancelled, GreenletExit)) and getattr(error, "scope", None) is not self:
            self._failures.append(error)
        else:
            super()._child_failed(child, error)

    def _child_ended(self, child: Child) -> None:
        if child._error is None and self._winner is None:
            self._winner = child
            self._cancel_once(f"{child.name} was first")
        super()._child_ended(child)
