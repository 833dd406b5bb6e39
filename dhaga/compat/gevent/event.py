"""``gevent.event``: Event, a flag to wait for, and AsyncResult, which is set once to a value or an error."""

from __future__ import annotations

from types import TracebackType
from typing import Any

from ..._kernel.faces.arguments import check_wait_timeout
from ..._kernel.wait.wait_queue import WaitQueue
from ..._kernel.wait.waiter import TIMED_OUT
from ..._sync import event
from ._links import Linkable
from .timeout import Timeout, until

__all__ = ["AsyncResult", "Event"]


class Event(Linkable):
    """A flag to wait for. Source: ``gevent.event.Event``."""

    def __init__(self) -> None:
        self._event = event.Event()
        self._links = ()

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
        """Set the flag, wake all waiters, and call the linked callbacks."""
        self._event.set()
        if self._links:
            self._notify_links()

    def clear(self) -> None:
        """Unset the flag."""
        self._event.clear()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the flag is set. Parks: until then. Returns: whether it was set within ``timeout`` seconds."""
        if isinstance(timeout, Timeout):
            return bool(until(timeout, self.wait))
        return self._event.wait(timeout)


class AsyncResult(Linkable):
    """A value or an error that is set once, for all its waiters. Source: ``gevent.event.AsyncResult``."""

    # The first waiter creates the wait queue, because many results are set before anything waits for them.
    __slots__ = ("__dict__", "__weakref__", "_exc_info", "_is_set", "_links", "_value", "_waiters")

    def __init__(self) -> None:
        self._is_set = False
        self._waiters: WaitQueue | None = None
        self._links = ()
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
        """The error that was set, in the form of ``sys.exc_info``, or an empty tuple."""
        return self._exc_info

    @property
    def exception(self) -> BaseException | None:
        """The error that was set, or None."""
        return self._exc_info[1] if self._exc_info else None

    def ready(self) -> bool:
        """Return whether a value or an error is set."""
        return self._is_set

    def successful(self) -> bool:
        """Return whether a value is set."""
        return self._is_set and not self._exc_info

    def set(self, value: Any = None) -> None:
        """Set the value and wake all waiters."""
        self._value, self._exc_info = value, ()
        self._be_ready()

    def set_exception(self, exception: BaseException, exc_info: Any = None) -> None:
        """Set the error that ``get`` raises, and wake all waiters."""
        trace: TracebackType | None = exc_info[2] if exc_info else exception.__traceback__
        self._exc_info = (type(exception), exception, trace)
        self._be_ready()

    def _be_ready(self) -> None:
        self._is_set = True
        waiters = self._waiters
        if waiters is not None:
            waiters.closed = True
            while waiters:
                waiters.wake_first()
        if self._links:
            self._notify_links()

    def _wait(self, timeout: float | None) -> bool:
        """Wait until a value or an error is set. Parks: until then. Returns: False after ``timeout`` seconds."""
        if self._is_set:
            return True
        if timeout is not None:
            check_wait_timeout(timeout)
            if timeout <= 0:
                return False
        if self._waiters is None:
            waiters = WaitQueue(self, "result.get")
            if self._waiters is None: self._waiters = waiters  # atomic  # fmt: skip
            # Another OS thread may have set the result before that thread could see the queue.
            if self._is_set:
                return True
        waiters = self._waiters
        return waiters.wait(False, waiters.wake_all, timeout) is not TIMED_OUT

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        """Return the value or raise the error. Parks: until either is set. Raises: Timeout after ``timeout`` s."""
        if not self._is_set:
            if not block:
                raise Timeout()
            if isinstance(timeout, Timeout):
                return timeout.within(self.get)
            if not self._wait(timeout):
                raise Timeout(timeout)
        if self._exc_info:
            raise self._exc_info[1].with_traceback(self._exc_info[2])
        return self._value

    def get_nowait(self) -> Any:
        """Return the value or raise the error. Raises: Timeout if neither is set."""
        return self.get(block=False)

    def wait(self, timeout: float | None = None) -> Any:
        """Wait for a value or error. Parks: until either is set. Returns: the value; None after an error or timeout."""
        if isinstance(timeout, Timeout):
            return until(timeout, self.wait)
        self._wait(timeout)
        return self._value

    def __call__(self, source: Any) -> None:
        """Copy the outcome of a greenlet, so that an AsyncResult can be passed to ``link``."""
        if source.successful():
            self.set(source.value)
        else:
            self.set_exception(source.exception, getattr(source, "exc_info", None))

    # The methods of concurrent.futures.Future

    set_result = set

    def result(self, timeout: float | None = None) -> Any:
        """Return the value or raise the error. Parks: until either is set. Raises: Timeout after ``timeout`` s."""
        return self.get(timeout=timeout)

    def done(self) -> bool:
        """Return whether a value or an error is set."""
        return self.ready()

    def cancel(self) -> bool:
        """Return False: nothing is cancelled, because an AsyncResult does not know what will set it."""
        return False

    def cancelled(self) -> bool:
        return False
