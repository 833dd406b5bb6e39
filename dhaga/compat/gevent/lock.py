"""``gevent.lock``: linkable semaphores, and a re-entrant lock."""

from __future__ import annotations

from typing import Any, Literal

from ..._sync import lock, semaphore
from .._shared.semaphore import CountedSemaphore
from ._links import Linkable

__all__ = ["BoundedSemaphore", "DummySemaphore", "RLock", "Semaphore"]


class Semaphore(CountedSemaphore, Linkable):
    """A number of permits, one by default. Source: ``gevent.lock.Semaphore``."""

    hub: Any = None
    """Accepted and ignored: a semaphore wakes its waiters in any thread."""

    def __init__(self, value: int = 1, hub: Any = None) -> None:
        super().__init__(value)
        self._links = ()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} at {id(self):#x} counter={self.counter} links[{len(self._links)}]>"

    def ready(self) -> bool:
        return self._permits._value > 0

    def acquire(self, blocking: bool = True, timeout: float | None = None) -> bool:
        """Acquire a permit. Parks: while none is free. Returns: False after ``timeout`` seconds, or at once."""
        return self._permits.acquire(blocking, timeout if blocking else None)

    def release(self) -> int:
        """Release a permit. Returns: the number of free permits."""
        self._release()
        if self._links:
            self._notify_links()
        return self._permits._value

    def wait(self, timeout: float | None = None) -> int:
        """Wait until a permit is free, without taking it. Parks: until then, or for ``timeout`` seconds."""
        if self.acquire(timeout=timeout):
            self.release()
        return self._permits._value

    def __enter__(self) -> None:
        self._permits.acquire()

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if self._links or self._permits._value < 0:
            self.release()
        else:
            self._permits.release()


class BoundedSemaphore(Semaphore):
    """A Semaphore that never has more permits than at first: one release too many is a ValueError."""

    def _make(self, value: int) -> semaphore.Semaphore:
        return semaphore.BoundedSemaphore(value)


class DummySemaphore:
    """A Semaphore without a limit."""

    def __init__(self, value: int | None = None) -> None: ...

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def locked(self) -> bool:
        return False

    def ready(self) -> bool:
        return True

    def release(self) -> None: ...

    def rawlink(self, callback: Any) -> None: ...

    unlink = rawlink

    def wait(self, timeout: float | None = None) -> int:
        return 1

    def acquire(self, blocking: bool = True, timeout: float | None = None) -> bool:
        return True

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...


class RLock:
    """A lock that its holder may take again. Source: ``gevent.lock.RLock``."""

    def __init__(self, hub: Any = None) -> None:
        self._lock = lock.RLock()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} at {id(self):#x} {self._lock!r}>"

    def acquire(self, blocking: bool = True, timeout: float | None = None) -> bool:
        """Acquire the lock. Parks: while another greenlet holds it. Returns: False after ``timeout`` seconds."""
        if not blocking or timeout is None:
            return self._lock.acquire(blocking)
        return self._lock.acquire(True, max(0.0, timeout))

    def release(self) -> None:
        """Release the lock once."""
        self._lock.release()

    def locked(self) -> bool:
        """Return whether a greenlet holds the lock."""
        return self._lock.locked()

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> Literal[False]:
        self.release()
        return False
