"""``gevent.event``: Event, and AsyncResult, which is set once to a value or an error."""

from __future__ import annotations

from types import TracebackType
from typing import Any

from ..._sync import event
from ._links import Linkable
from .timeout import Timeout

__all__ = ["AsyncResult", "Event"]


class Event(Linkable):
    """A flag to wait for. Source: ``gevent.event.Event``."""

    def __init__(self) -> None:
        self._event = event.Event()
        self._links = []

    def __repr__(self) -> str:
        return (
            f"<{type(self).__name__} at {id(self):#x} {'set' if self.is_set() else 'clear'} _links[{len(self._links)}]>"
        )

    def is_set(self) -> bool:
        """Return whether the flag is set."""
        return self._event.is_set()

    isSet = is_set

    def ready(self) -> bool:
        return self._event.is_set()

    def set(self) -> None:
        """Set the flag; wake all that wait, and call the links."""
        self._event.set()
        self._notify_links()

    def clear(self) -> None:
        """Unset the flag."""
        self._event.clear()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the flag. Parks: while it is unset. Returns: whether it was set within ``timeout`` seconds."""
        return self._event.wait(timeout)


class AsyncResult(Linkable):
    """A value or an error that comes once, for all who wait for it. Source: ``gevent.event.AsyncResult``."""

    def __init__(self) -> None:
        self._event = event.Event()
        self._links = []
        self._value: Any = None
        self._exc_info: Any = ()

    def __repr__(self) -> str:
        state = "" if not self.ready() else f" value={self._value!r}" if self.successful() else f" {self.exception!r}"
        return f"<{type(self).__name__} at {id(self):#x}{state} _links[{len(self._links)}]>"

    @property
    def value(self) -> Any:
        """The value that was set, or None."""
        return self._value

    @property
    def exc_info(self) -> Any:
        """The error that was set as ``sys.exc_info`` would tell it, or an empty tuple."""
        return self._exc_info

    @property
    def exception(self) -> BaseException | None:
        """The error that was set, or None."""
        return self._exc_info[1] if self._exc_info else None

    def ready(self) -> bool:
        """Return whether it holds a value or an error."""
        return self._event.is_set()

    def successful(self) -> bool:
        """Return whether it holds a value."""
        return self.ready() and not self._exc_info

    def set(self, value: Any = None) -> None:
        """Set the value and wake all that wait."""
        self._value, self._exc_info = value, ()
        self._event.set()
        self._notify_links()

    def set_exception(self, exception: BaseException, exc_info: Any = None) -> None:
        """Set the error that ``get`` raises in all that wait."""
        trace: TracebackType | None = exc_info[2] if exc_info else exception.__traceback__
        self._exc_info = (type(exception), exception, trace)
        self._event.set()
        self._notify_links()

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        """Return the value or raise the error. Parks: until one is set. Raises: Timeout after ``timeout`` seconds."""
        if isinstance(timeout, Timeout):
            return timeout.within(self.get, block)
        if not self.ready():
            if not block:
                raise Timeout()
            if not self._event.wait(timeout):
                raise Timeout(timeout)
        if self._exc_info:
            raise self._exc_info[1].with_traceback(self._exc_info[2])
        return self._value

    def get_nowait(self) -> Any:
        """Return the value or raise the error, or Timeout at once."""
        return self.get(block=False)

    def wait(self, timeout: float | None = None) -> Any:
        """Wait until it is set. Parks: until then. Returns: the value; None after an error, or ``timeout`` seconds."""
        self._event.wait(timeout)
        return self._value

    def __call__(self, source: Any) -> None:
        """Take over what a greenlet ended with: an AsyncResult may be given to ``link``."""
        if source.successful():
            self.set(source.value)
        else:
            self.set_exception(source.exception, getattr(source, "exc_info", None))

    # As a concurrent.futures.Future

    set_result = set
    result = get

    def done(self) -> bool:
        """Return whether it is set."""
        return self.ready()

    def cancel(self) -> bool:
        """Do nothing: what sets it goes on."""
        return False

    def cancelled(self) -> bool:
        return False
