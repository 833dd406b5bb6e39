"""Base of the Timeouts of gevent and eventlet: an error that a timer raises in a waiter.

Differences from ``dhaga.Timeout`` are here, and differences of only one package are in the ``timeout.py`` of that
package.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any

from ..._kernel.api import current
from ..._kernel.run.timers import Entry

NOTHING: Any = object()


class WaiterTimeout(BaseException):
    """Timer of one waiter. When it expires, it raises itself, or ``exception``, in that waiter."""

    def __init__(self, seconds: float | None, exception: Any) -> None:
        super().__init__()
        self.seconds = seconds
        self.exception = exception
        self._entry: Entry | None = None
        self._waiter: Any = None
        self._raised: BaseException | None = None

    @property
    def pending(self) -> bool:
        """Whether the timer runs: started, not expired and not cancelled."""
        return self._entry is not None and self._entry[2] is not None

    def _begin(self) -> None:
        """Register the caller. Raises: AssertionError if the timer runs already."""
        if self.pending:
            raise AssertionError(f"{self!r} is already started; to restart it, cancel it first")
        self._waiter = current()
        self._raised = None

    def _count(self, seconds: float) -> None:
        """Arm the timer."""
        scheduler = self._waiter.scheduler
        self._entry = scheduler.expire_after(seconds, self)

    def _error(self) -> Any:
        """Return the error to raise, or its class."""
        raise NotImplementedError

    def _expire(self) -> None:
        """Raise the error in the waiter. From: the scheduler's timers, on the hub."""
        error = self._error()
        self._raised = error() if isinstance(error, type) else error
        self._waiter.cancel_with(self._raised)

    def cancel(self) -> None:
        """Cancel the timer and withdraw a pending error."""
        waiter, entry, error = self._waiter, self._entry, self._raised
        self._entry = None
        if entry is not None:
            waiter.scheduler.timers.discard(entry)
        if error is not None and error in waiter.pending_errors:
            waiter.pending_errors.remove(error)

    def close(self) -> None:
        """Cancel the timer for good."""
        self.cancel()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        self.close()
        return error is self and self.exception is False

    def __str__(self) -> str:
        if self.seconds is None:
            return ""
        note = " (silent)" if self.exception is False else self._note()
        return f"{self.seconds} second{'' if self.seconds == 1 else 's'}{note}"

    def _note(self) -> str:
        """Return the part of the text that describes ``exception``."""
        raise NotImplementedError


def call_within(timeout: WaiterTimeout, function: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Any:
    """Call a function under a running timeout; ``timeout_value``: the result if the timeout expires."""
    value = kwargs.pop("timeout_value", NOTHING)
    try:
        return function(*args, **kwargs)
    except WaiterTimeout as error:
        if error is timeout and value is not NOTHING:
            return value
        raise
    finally:
        timeout.cancel()
