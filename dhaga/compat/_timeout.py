"""What the Timeouts of gevent and eventlet share: an error that is raised in a waiter once its seconds have passed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .._kernel.api import current
from .._kernel.timers import Entry

NOTHING: Any = object()


class WaiterTimeout(BaseException):
    """Counts for one waiter at a time, and raises itself or ``exception`` in that."""

    def __init__(self, seconds: float | None, exception: Any) -> None:
        super().__init__()
        self.seconds = seconds
        self.exception = exception
        self._entry: Entry | None = None
        self._waiter: Any = None
        self._raised: BaseException | None = None

    @property
    def pending(self) -> bool:
        """Whether it counts, and has neither expired nor been cancelled."""
        return self._entry is not None and self._entry[2] is not None

    def _begin(self) -> None:
        """Note the caller. Raises: AssertionError if it counts already."""
        if self.pending:
            raise AssertionError(f"{self!r} is already started; to restart it, cancel it first")
        self._waiter = current()
        self._raised = None

    def _count(self, seconds: float) -> None:
        """Arm the timer."""
        scheduler = self._waiter.scheduler
        self._entry = scheduler._timers.add(scheduler._clock() + seconds, self)

    def _error(self) -> Any:
        """Return what to raise: an error or a class of them."""
        raise NotImplementedError

    def _expire(self) -> None:
        """Raise the error in the waiter. From: the scheduler's timers, on the hub."""
        error = self._error()
        self._raised = error() if isinstance(error, type) else error
        self._waiter._cancel_with(self._raised)

    def cancel(self) -> None:
        """Stop to count; an error that is under way and has not been raised yet is taken back."""
        waiter, entry, error = self._waiter, self._entry, self._raised
        self._entry = None
        if entry is not None:
            waiter.scheduler._timers.discard(entry)
        if error is not None and error in waiter._pending:
            waiter._pending.remove(error)


def call_within(timeout: WaiterTimeout, function: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Any:
    """Call a function until a timeout that counts already expires; ``timeout_value``: what to return then."""
    value = kwargs.pop("timeout_value", NOTHING)
    try:
        return function(*args, **kwargs)
    except WaiterTimeout as error:
        if error is timeout and value is not NOTHING:
            return value
        raise
    finally:
        timeout.cancel()
