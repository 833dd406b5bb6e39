"""``gevent.timeout``: an error that is raised after some seconds, in the greenlet that started it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

from .._shared.timeout import WaiterTimeout, call_within

__all__ = ["Timeout", "with_timeout"]


class Timeout(WaiterTimeout):
    """Raises itself, or another error, in the greenlet that started it. Source: ``gevent.Timeout``.

    ``exception``: the error to raise instead; False: the ``with`` block ends without an error. ``ref`` and ``priority``
    are accepted and ignored. A negative or None ``seconds`` never expires.
    """

    def __init__(
        self, seconds: float | None = None, exception: Any = None, ref: bool = True, priority: int = -1
    ) -> None:
        super().__init__(seconds, exception)

    @classmethod
    def start_new(cls, timeout: Any = None, exception: Any = None, ref: bool = True) -> Any:
        """Start a new Timeout of ``timeout`` seconds; a given Timeout is started, unless it is pending."""
        if isinstance(timeout, Timeout):
            if not timeout.pending:
                timeout.start()
            return timeout
        new = cls(timeout, exception, ref)
        new.start()
        return new

    _start_new_or_dummy = start_new

    def start(self) -> None:
        """Start the timer for the calling greenlet."""
        self._begin()
        if self.seconds is not None and self.seconds >= 0:
            self._count(self.seconds)

    def _error(self) -> Any:
        # A text describes the expired action, as in gevent.
        hint = self.exception is None or self.exception is False or isinstance(self.exception, str)
        return self if hint else self.exception

    def within(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call a function under this Timeout: it can be passed instead of seconds."""
        Timeout.start_new(self)
        try:
            return function(*args)
        finally:
            self.cancel()

    def __enter__(self) -> Self:
        if not self.pending:
            self.start()
        return self

    def _note(self) -> str:
        return "" if self.exception is None else f": {self.exception}"

    def __repr__(self) -> str:
        state = "pending" if self.pending else "active" if self._raised is self else ""
        return f"<{type(self).__name__} at {id(self):#x}{f' {state}' if state else ''} seconds={self.seconds}>"


def with_timeout(seconds: float | None, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a function under a timeout in seconds; ``timeout_value``: the result instead of raising Timeout."""
    return call_within(Timeout.start_new(seconds), function, args, kwargs)
