"""``eventlet.semaphore``: semaphores that report the number of free permits and of waiters."""

from __future__ import annotations

from types import TracebackType
from typing import Any

from .._shared.semaphore import CountedSemaphore

__all__ = ["BoundedSemaphore", "CappedSemaphore", "Semaphore"]


def check_count(call: str, what: str, count: Any) -> int:
    """Return a number of permits or places as an int. Raises: TypeError, ValueError."""
    try:
        count = int(count)
    except ValueError as error:
        raise TypeError(f"{call} expects an int, not {count!r}") from error
    if count < 0:
        raise ValueError(f"{call} expects a {what} of 0 or more, not {count!r}")
    return count  # type: ignore[no-any-return]


class Semaphore(CountedSemaphore):
    """A semaphore, by default with one permit. It serves its waiters in order. Source: ``eventlet.semaphore``."""

    def __init__(self, value: int = 1) -> None:
        super().__init__(check_count("Semaphore()", "value", value))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} at {id(self):#x} c={self.counter} _w[{self._waiting()}]>"

    def __str__(self) -> str:
        return f"<{type(self).__name__} c={self.counter} _w[{self._waiting()}]>"

    def _waiting(self) -> int:
        return self._permits._waiters_.parked()

    def bounded(self) -> bool:
        """Return False, because ``release`` never waits."""
        return False

    @property
    def balance(self) -> int:
        """The number of free permits minus the number of waiters."""
        return self.counter - self._waiting()

    def acquire(self, blocking: bool = True, timeout: float | None = None) -> bool:
        """Acquire a permit. Parks: if ``blocking``, at most ``timeout`` s. Returns: whether it was acquired."""
        if timeout == -1:
            timeout = None
        if timeout is not None and timeout < 0:
            raise ValueError("timeout value must be strictly positive")
        if not blocking and timeout is not None:
            raise ValueError("can't specify timeout for non-blocking acquire")
        return self._permits.acquire(blocking, timeout)

    def release(self, blocking: bool = True) -> bool:
        """Release a permit, or pass it to the first waiter. Parks: never."""
        self._release()
        return True

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


class BoundedSemaphore(Semaphore):
    """A Semaphore whose count never exceeds the initial count: an additional release raises ValueError."""

    def __init__(self, value: int = 1) -> None:
        super().__init__(value)
        self.original_counter: int = self.counter

    def release(self, blocking: bool = True) -> bool:
        """Release a permit. Raises: ValueError if all permits are free."""
        if self.counter >= self.original_counter:
            raise ValueError("Semaphore released too many times")
        return super().release(blocking)


class CappedSemaphore:
    """A semaphore whose ``release`` waits while ``limit`` permits are free. Source: ``eventlet.semaphore``."""

    def __init__(self, count: int, limit: int) -> None:
        if count < 0:
            raise ValueError(f"CappedSemaphore must be initialized with a positive number, got {count}")
        if count > limit:
            raise ValueError("'count' cannot be more than 'limit'")
        self.lower_bound: Semaphore = Semaphore(count)
        self.upper_bound: Semaphore = Semaphore(limit - count)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} at {id(self):#x} b={self.balance} l={self.lower_bound} u={self.upper_bound}>"

    def __str__(self) -> str:
        return f"<{type(self).__name__} b={self.balance} l={self.lower_bound} u={self.upper_bound}>"

    def locked(self) -> bool:
        """Return whether ``acquire`` would wait."""
        return self.lower_bound.locked()

    def bounded(self) -> bool:
        """Return whether ``release`` would wait."""
        return self.upper_bound.locked()

    def acquire(self, blocking: bool = True) -> bool:
        """Acquire a permit. Parks: while no permit is free. Returns: False instead, if not ``blocking``."""
        return self._move(self.upper_bound, self.lower_bound, blocking)

    def release(self, blocking: bool = True) -> bool:
        """Release a permit. Parks: while ``limit`` permits are free. Returns: False instead, if not ``blocking``."""
        return self._move(self.lower_bound, self.upper_bound, blocking)

    def _move(self, to: Semaphore, from_: Semaphore, blocking: bool) -> bool:
        if not blocking and from_.locked():
            return False
        to.release()
        try:
            return from_.acquire()
        except BaseException:
            to.counter -= 1
            raise

    @property
    def balance(self) -> int:
        """The balance of ``lower_bound``, which counts free permits, minus the balance of ``upper_bound``.

        ``upper_bound`` counts the permits that may still be released before ``limit`` are free.
        """
        return self.lower_bound.balance - self.upper_bound.balance

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()
