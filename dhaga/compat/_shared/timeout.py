"""Base of the Timeout classes of gevent and eventlet: an error that a timer raises in a waiter.

A waiter is a greenlet or main code.

WaiterTimeout implements the differences from ``dhaga.Timeout`` that gevent and eventlet have in common. The
``timeout.py`` of each package implements the other differences.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any

from ..._kernel.api import current
from ..._kernel.run.timers import Entry

NOTHING: Any = object()


class WaiterTimeout(BaseException):
    """Timer of one waiter. When the timer expires, it raises itself or ``exception`` in that waiter."""

    def __init__(self, seconds: float | None, exception: Any) -> None:
        super().__init__()
        self.seconds = seconds
        self.exception = exception
        self._entry: Entry | None = None
        self._waiter: Any = None
        self._raised: BaseException | None = None

    @property
    def pending(self) -> bool:
        """Whether the timer is running: it has started, and has neither expired nor been cancelled."""
        return self._entry is not None and self._entry[2] is not None

    def _begin(self) -> None:
        """Register the caller as the waiter. Raises: AssertionError if the timer is running already."""
        if self.pending:
            raise AssertionError(f"{self!r} is already started; to restart it, cancel it first")
        self._waiter = current()
        self._raised = None

    def _count(self, seconds: float) -> None:
        """Arm the timer with ``seconds`` seconds."""
        scheduler = self._waiter.scheduler
        self._entry = scheduler.expire_after(seconds, self)

    def _error(self) -> Any:
        """Return the error to raise in the waiter, or the error's class."""
        raise NotImplementedError

    def _expire(self) -> None:
        """Raise the error in the waiter. From: the scheduler's timers, on the hub."""
        error = self._error()
        if isinstance(error, type):
            try:
                error = error()
            except BaseException as failure:  # the class needs arguments
                error = failure
        self._raised = error
        self._waiter.cancel_with(self._raised)

    def cancel(self) -> None:
        """Cancel the timer, and withdraw its error if the error has not been raised in the waiter yet."""
        waiter, entry, error = self._waiter, self._entry, self._raised
        self._entry = None
        if entry is not None:
            waiter.scheduler.timers.discard(entry)
        if error is not None and error in waiter.pending_errors:
            waiter.pending_errors.remove(error)

    def close(self) -> None:
        """Cancel the timer; it is not used again."""
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
        """Return the part of ``str()`` that describes ``exception``."""
        raise NotImplementedError


def call_within(timeout: WaiterTimeout, function: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Any:
    """Call a function under a running timeout. On expiry, return ``timeout_value`` if given, else raise the timeout."""
    value = kwargs.pop("timeout_value", NOTHING)
    try:
        return function(*args, **kwargs)
    except WaiterTimeout as error:
        if error is timeout and value is not NOTHING:
            return value
        raise
    finally:
        timeout.cancel()
