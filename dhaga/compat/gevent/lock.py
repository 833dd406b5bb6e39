"""``gevent.lock``: semaphores whose permits may be linked to, and a re-entrant lock."""

from __future__ import annotations

from typing import Any, Literal

from ..._sync import lock, semaphore
from ._links import Linkable

__all__ = ["BoundedSemaphore", "DummySemaphore", "RLock", "Semaphore"]


class Semaphore(Linkable):
    """A number of permits, one by default. Source: ``gevent.lock.Semaphore``.

    The permits are a semaphore of Dhaga's own, as a subclass would do without its compiled methods. Fewer than 0: so
    many are to come back before another is free, as ``counter`` was lowered while they were out.
    """

    hub: Any = None
    """Taken and not used: a semaphore wakes its waiters in whichever thread they wait."""

    def __init__(self, value: int = 1, hub: Any = None) -> None:
        self._permits = self._make(value)
        self._links = ()

    def _make(self, value: int) -> semaphore.Semaphore:
        return semaphore.Semaphore(value)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} at {id(self):#x} counter={self.counter} links[{len(self._links)}]>"

    @property
    def counter(self) -> int:
        """The number of free permits; may be set: below 0, so many are to come back before another is free."""
        return self._permits._value

    @counter.setter
    def counter(self, value: int) -> None:
        self._permits._value = value
        self._permits._hand_out_permits()

    def ready(self) -> bool:
        return self._permits._value > 0

    def locked(self) -> bool:
        """Return whether ``acquire`` would wait."""
        return self._permits._value <= 0

    def acquire(self, blocking: bool = True, timeout: float | None = None) -> bool:
        """Take a permit. Parks: while none is free. Returns: False after ``timeout`` seconds, or at once."""
        return self._permits.acquire(blocking, timeout if blocking else None)

    def release(self) -> int:
        """Give a permit back. Returns: the number of free ones."""
        permits = self._permits
        if permits._value < 0: permits._value += 1  # atomic  # fmt: skip
        else:
            permits.release()
        if self._links:
            self._notify_links()
        return permits._value

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
    """A Semaphore with permits for all."""

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
        """Take it. Parks: while another greenlet holds it. Returns: False after ``timeout`` seconds."""
        if not blocking or timeout is None:
            return self._lock.acquire(blocking)
        return self._lock.acquire(True, max(0.0, timeout))

    def release(self) -> None:
        """Give it back once."""
        self._lock.release()

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> Literal[False]:
        self.release()
        return False
