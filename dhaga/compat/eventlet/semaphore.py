"""``eventlet.semaphore``: semaphores that tell how many permits are free, and how many are waited for."""

from __future__ import annotations

from collections import deque
from types import TracebackType
from typing import Any

from ..._kernel.api import current, park

__all__ = ["BoundedSemaphore", "CappedSemaphore", "Semaphore"]


class Semaphore:
    """A number of permits, one by default. Source: ``eventlet.semaphore.Semaphore``. First come, first served."""

    def __init__(self, value: int = 1) -> None:
        try:
            value = int(value)
        except ValueError as error:
            raise TypeError(f"Semaphore() expects an int, not {value!r}") from error
        if value < 0:
            raise ValueError(f"Semaphore() expects a value of 0 or more, not {value!r}")
        self.counter = value
        self._waiters: deque[Any] = deque()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} at {id(self):#x} c={self.counter} _w[{len(self._waiters)}]>"

    def __str__(self) -> str:
        return f"<{type(self).__name__} c={self.counter} _w[{len(self._waiters)}]>"

    def locked(self) -> bool:
        """Return whether ``acquire`` would wait."""
        return self.counter <= 0

    def bounded(self) -> bool:
        """Return whether ``release`` would wait: never."""
        return False

    @property
    def balance(self) -> int:
        """The number of free permits; below 0: of those that wait for one."""
        return self.counter - len(self._waiters)

    def acquire(self, blocking: bool = True, timeout: float | None = None) -> bool:
        """Take a permit. Parks: while none is free. Returns: False after ``timeout`` s, or if not ``blocking``."""
        if timeout == -1:
            timeout = None
        if timeout is not None and timeout < 0:
            raise ValueError("timeout value must be strictly positive")
        if not blocking and timeout is not None:
            raise ValueError("can't specify timeout for non-blocking acquire")
        if self.counter > 0 and not self._waiters:
            self.counter -= 1
            return True
        if not blocking:
            return False
        me = current()
        waiters = self._waiters
        try:
            park("semaphore.acquire", lambda: waiters.remove(me), timeout, start=lambda: waiters.append(me))
        except TimeoutError:
            return False
        return True

    def release(self, blocking: bool = True) -> bool:
        """Give a permit back, or hand it to the first that waits. Parks: never."""
        self.counter += 1
        self._serve()
        return True

    def _serve(self) -> None:
        """Hand free permits to those that wait."""
        while self.counter > 0 and self._waiters:
            self.counter -= 1
            self._waiters.popleft()._wake(True)

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


class BoundedSemaphore(Semaphore):
    """A Semaphore that never has more permits than at first: one release too many is a ValueError."""

    def __init__(self, value: int = 1) -> None:
        super().__init__(value)
        self.original_counter = self.counter

    def release(self, blocking: bool = True) -> bool:
        """Give a permit back. Raises: ValueError if that is one too many."""
        if self.counter >= self.original_counter:
            raise ValueError("Semaphore released too many times")
        return super().release(blocking)


class CappedSemaphore:
    """A semaphore whose ``release`` waits, too, at ``limit``. Source: ``eventlet.semaphore.CappedSemaphore``."""

    def __init__(self, count: int, limit: int) -> None:
        if count < 0:
            raise ValueError(f"CappedSemaphore must be initialized with a positive number, got {count}")
        if count > limit:
            raise ValueError("'count' cannot be more than 'limit'")
        self.lower_bound = Semaphore(count)
        self.upper_bound = Semaphore(limit - count)

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
        """Take a permit. Parks: while none is free. Returns: False if not ``blocking``."""
        return self._move(self.upper_bound, self.lower_bound, blocking)

    def release(self, blocking: bool = True) -> bool:
        """Give a permit back. Parks: while there are ``limit``. Returns: False if not ``blocking``."""
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
        """How many more calls of ``acquire`` than of ``release`` there is room for; below 0: fewer."""
        return self.lower_bound.balance - self.upper_bound.balance

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()
