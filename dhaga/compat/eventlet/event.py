"""``eventlet.event``: Event, which sends a value or an error once to all waiters."""

from __future__ import annotations

from typing import Any

from ..._sync import event
from .._shared.thrown import thrown

__all__ = ["Event"]


class Sending:
    """The value or error sent between two resets, and the flag that ``wait`` waits for."""

    __slots__ = ("error", "flag", "value", "waiting")

    def __init__(self) -> None:
        self.flag: event.Event = event.Event()
        self.value: Any = None
        self.error: tuple[Any, ...] | None = None
        self.waiting: int = 0


class Event:
    """A value or an error that is sent once. Source: ``eventlet.event.Event``."""

    def __init__(self) -> None:
        self._sending = Sending()

    def __str__(self) -> str:
        sending = self._sending
        result = repr(sending.value) if self.ready() else "NOT_USED"
        return (
            f"<{type(self).__name__} at {id(self):#x} result={result} _exc={sending.error!r} "
            f"_waiters[{sending.waiting}]>"
        )

    def reset(self) -> None:
        """Reset the event; current waiters still get the value sent. Raises: AssertionError if nothing was sent."""
        if not self.ready():
            raise AssertionError("Trying to re-reset() a fresh event.")
        self._sending = Sending()

    def ready(self) -> bool:
        """Return whether a value or an error was sent."""
        return self._sending.flag.is_set()

    def has_exception(self) -> bool:
        """Return whether an error was sent."""
        return self._sending.error is not None

    def has_result(self) -> bool:
        """Return whether a value was sent."""
        return self.ready() and not self.has_exception()

    def poll(self, notready: Any = None) -> Any:
        """Return the value or raise the error that was sent; return ``notready`` if nothing was sent."""
        return self.wait() if self.ready() else notready

    def poll_exception(self, notready: Any = None) -> Any:
        """Raise the error that was sent; return ``notready`` if no error was sent."""
        return self.wait() if self.has_exception() else notready

    def poll_result(self, notready: Any = None) -> Any:
        """Return the value that was sent; return ``notready`` if no value was sent."""
        return self.wait() if self.has_result() else notready

    def wait(self, timeout: float | None = None) -> Any:
        """Return the value or raise the error. Parks: until either is sent. Returns: None after ``timeout`` seconds."""
        sending = self._sending
        if not sending.flag.is_set():
            sending.waiting += 1
            try:
                if not sending.flag.wait(None if timeout is None else max(0, timeout)):
                    return None
            finally:
                sending.waiting -= 1
        if sending.error is not None:
            raise thrown(*sending.error)
        return sending.value

    def send(self, result: Any = None, exc: Any = None) -> None:
        """Send a value or an error to all waiters. Parks: never. Raises: AssertionError for a second ``send``."""
        if self.ready():
            raise AssertionError("Trying to re-send() an already-triggered event.")
        sending = self._sending
        sending.value = result
        sending.error = exc if exc is None or isinstance(exc, tuple) else (exc,)
        sending.flag.set()

    def send_exception(self, *args: Any) -> None:
        """Send an error to all waiters. ``args``: an exception, or the result of ``sys.exc_info``."""
        self.send(None, args)
