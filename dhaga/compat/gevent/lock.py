"""``gevent.lock``: semaphores that call linked callbacks, and a reentrant lock."""

from __future__ import annotations

from typing import Any, Literal

from ..._kernel.wait.waiter import claim
from ..._sync import lock, semaphore
from ..._sync.event import Event
from .._shared.semaphore import CountedSemaphore
from ._links import Linkable
from .timeout import Timeout, until

__all__ = ["BoundedSemaphore", "DummySemaphore", "RLock", "Semaphore"]


class FreePermit:
    """The place of a caller of ``Semaphore.wait`` among the waiters. In its turn, the caller is woken, but does not get
    the permit.
    """

    __slots__ = ("come", "counter", "permits")

    def __init__(self, permits: semaphore.Semaphore) -> None:
        self.permits: semaphore.Semaphore = permits
        self.come: Event = Event()
        self.counter: int = 0

    def deliver_wake(self, value: object = True) -> None:
        """Put back the permit that was handed over, and wake the caller of ``wait``."""
        self.permits._take_back_()
        self.counter = self.permits._value
        self.come.set()


class Semaphore(CountedSemaphore, Linkable):
    """A semaphore with one permit by default. Source: ``gevent.lock.Semaphore``."""

    hub: Any = None
    """Always None. The argument ``hub`` is ignored, because a semaphore wakes its waiters in any thread."""

    _calls_only_while_ready = True

    def __init__(self, value: int = 1, hub: Any = None) -> None:
        super().__init__(value)
        self._links = ()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} at {id(self):#x} counter={self.counter} links[{len(self._links)}]>"

    def ready(self) -> bool:
        return self._permits._value > 0

    def acquire(self, blocking: bool = True, timeout: float | None = None) -> bool:
        """Acquire a permit. Parks: if ``blocking``, at most ``timeout`` s. Returns: whether it was acquired."""
        if isinstance(timeout, Timeout):
            return bool(until(timeout, self.acquire, blocking))
        return self._permits.acquire(blocking, timeout if blocking else None)

    def release(self) -> int:
        """Release a permit. Returns: the number of free permits."""
        self._release()
        if self._links:
            self._notify_links()
        return self._permits._value

    def wait(self, timeout: float | None = None) -> int:
        """Wait until a permit is free, but do not acquire it. Parks: until then, at most ``timeout`` seconds.

        Returns: the number of free permits at the caller's turn.
        """
        permits = self._permits
        if permits._value > 0:
            return permits._value
        if isinstance(timeout, Timeout):
            return until(timeout, self.wait) or permits._value
        turn = FreePermit(permits)
        ticket: list[Any] = [turn]
        permits._waiters_.append(ticket)
        try:
            permits._hand_out_permits_()  # another OS thread may just have released a permit
            turn.come.wait(timeout)
        finally:
            if claim(ticket):
                permits._waiters_._remove(None)  # type: ignore[arg-type]
            else:
                permits._hand_out_permits_()  # the next waiter
        return turn.counter or permits._value

    def __enter__(self) -> None:
        self._permits.acquire()

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if self._links or self._permits._value < 0:
            self.release()
        else:
            self._permits.release()


class BoundedSemaphore(Semaphore):
    """A Semaphore whose count never exceeds the initial count: an additional release raises ValueError."""

    def _make(self, value: int) -> semaphore.Semaphore:
        return semaphore.BoundedSemaphore(value)


class DummySemaphore:
    """A Semaphore with an unlimited number of permits."""

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
    """A lock that its holder may acquire again. Source: ``gevent.lock.RLock``."""

    def __init__(self, hub: Any = None) -> None:
        self._lock = lock.RLock()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} at {id(self):#x} {self._lock!r}>"

    def acquire(self, blocking: bool = True, timeout: float | None = None) -> bool:
        """Acquire the lock. Parks: while another greenlet holds it. Returns: False after ``timeout`` seconds."""
        if isinstance(timeout, Timeout):
            return bool(until(timeout, self.acquire, blocking))
        if not blocking or timeout is None:
            return self._lock.acquire(blocking)
        return self._lock.acquire(True, max(0.0, timeout))

    def release(self) -> None:
        """Release the lock once."""
        self._lock.release()

    def locked(self) -> bool:
        """Return whether a greenlet holds the lock."""
        return self._lock.locked()

    # A Condition calls the following three methods.

    def _is_owned(self) -> bool:
        return self._lock._is_owned()

    def _release_save(self) -> Any:
        return self._lock._release_save()

    def _acquire_restore(self, state: Any) -> None:
        self._lock._acquire_restore(state)

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> Literal[False]:
        self.release()
        return False
