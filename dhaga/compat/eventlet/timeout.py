"""``eventlet.timeout``: Timeout, an error that is raised after some seconds in the greenthread that created it."""

from __future__ import annotations

import builtins
import functools
import inspect
from collections.abc import Callable
from typing import Any, Self

from ..._kernel.api import current, sleep
from .._shared.timeout import WaiterTimeout, call_within

__all__ = ["Timeout", "is_timeout", "with_timeout", "wrap_is_timeout"]


class Timeout(WaiterTimeout):
    """An error that raises itself, or another error, in its greenthread. The timer starts on creation.

    ``exception``: the error to raise instead; with False, the ``with`` block ends without an error. If ``seconds`` is
    None, the Timeout never expires. Source: ``eventlet.Timeout``.
    """

    def __init__(self, seconds: float | None = None, exception: Any = None) -> None:
        super().__init__(seconds, exception)
        self.start()

    is_timeout = True

    def start(self) -> Self:
        """Start the timer for the calling greenthread. From: ``__init__``; a program, after ``cancel``."""
        if self.seconds is not None:
            self._begin()
            if self.seconds > 0:
                self._count(self.seconds)
            else:
                self._expire()
        return self

    def cancel(self) -> None:
        """Cancel the timer. Parks: once, to yield, if this is a Timeout of 0 seconds that was raised."""
        if self.seconds is None or self.seconds > 0 or self._raised is None:
            super().cancel()
            return
        is_raised = self._raised not in self._waiter.pending_errors
        super().cancel()
        self._raised = None
        if is_raised and self._waiter is current():
            sleep(0)

    def _error(self) -> Any:
        return self if self.exception is None or isinstance(self.exception, bool) else self.exception

    def __enter__(self) -> Self:
        if self._entry is None and self._raised is None:
            self.start()
        return self

    def _note(self) -> str:
        return "" if self.exception is None or self.exception is True else f" ({self.exception})"

    def __repr__(self) -> str:
        exception = "" if self.exception is None else f" exception={self.exception!r}"
        state = " pending" if self.pending else ""
        return f"<{type(self).__name__} at {id(self):#x} seconds={self.seconds}{exception}{state}>"


def with_timeout(seconds: float | None, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a function under a timeout in seconds. On expiry, return ``timeout_value`` if given, else raise Timeout."""
    return call_within(Timeout(seconds), function, args, kwargs)


def wrap_is_timeout(base: Any) -> Any:
    """Set ``is_timeout`` to true on the objects that a class or function creates."""
    if inspect.isclass(base):
        base.is_timeout = property(lambda _: True)  # type: ignore[attr-defined]
        return base

    @functools.wraps(base)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        error = base(*args, **kwargs)
        error.is_timeout = True
        return error

    return wrapper


def is_timeout(thing: object) -> bool:
    """Return whether an object is a builtin TimeoutError or has a true attribute ``is_timeout``."""
    return bool(getattr(thing, "is_timeout", False)) or isinstance(thing, builtins.TimeoutError)
