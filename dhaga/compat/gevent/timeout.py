"""``gevent.timeout``: Timeout, an error that is raised after some seconds in the greenlet that started it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

from .._shared.timeout import WaiterTimeout, call_within

__all__ = ["Timeout", "with_timeout"]


class Timeout(WaiterTimeout):
    """An error that raises itself, or another error, in the greenlet that started it. Source: ``gevent.Timeout``.

    ``exception``: the error to raise instead; with False, the ``with`` block ends without an error. ``ref`` and
    ``priority`` are accepted and ignored. If ``seconds`` is None, the Timeout never expires.
    """

    def __init__(
        self, seconds: float | None = None, exception: Any = None, ref: bool = True, priority: int = -1
    ) -> None:
        super().__init__(seconds, exception)

    @classmethod
    def start_new(cls, timeout: Any = None, exception: Any = None, ref: bool = True) -> Any:
        """Start and return a new Timeout of ``timeout`` seconds. A given Timeout is started unless already pending."""
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
        if self.seconds is not None:
            self._count(max(0, self.seconds))

    def _error(self) -> Any:
        # As in gevent, a string as ``exception`` is not raised; it only appears in the text of this Timeout.
        hint = self.exception is None or self.exception is False or isinstance(self.exception, str)
        return self if hint else self.exception

    def within(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call a function under this Timeout. From: methods that got a Timeout instead of seconds."""
        Timeout.start_new(self)
        try:
            return function(*args)
        finally:
            self.cancel()

    def __enter__(self) -> Self:
        if not self.pending:
            self.start()
        return self

    def __lt__(self, other: Any) -> Any:
        """Compare the seconds with those of another Timeout, or with a number."""
        seconds: Any = self.seconds
        return seconds < (other.seconds if isinstance(other, Timeout) else other)

    def _note(self) -> str:
        return "" if self.exception is None else f": {self.exception}"

    def __repr__(self) -> str:
        state = "pending" if self.pending else "active" if self._raised is self else ""
        return f"<{type(self).__name__} at {id(self):#x}{f' {state}' if state else ''} seconds={self.seconds}>"


def until(timeout: Timeout, function: Callable[..., Any], *args: Any) -> Any:
    """Call a function under a Timeout, and return None if this Timeout is raised."""
    try:
        return timeout.within(function, *args)
    except Timeout as error:
        if error is not timeout:
            raise
        return None


def with_timeout(seconds: float | None, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a function under a timeout in seconds. On expiry, return ``timeout_value`` if given, else raise Timeout."""
    return call_within(Timeout.start_new(seconds), function, args, kwargs)
