"""Semaphore and BoundedSemaphore. What keeps them right between OS threads, and ``one step``: see ``locks.py``."""

from __future__ import annotations

from .kernel.waiting import WaitQueue


class Semaphore:
    """A counter of permits; each one released goes to the first that waits for it. Source: ``threading.Semaphore``."""

    def __init__(self, value: int = 1) -> None:
        if value < 0:
            raise ValueError("semaphore initial value must be >= 0")
        self._value = int(value)
        self.waiters = WaitQueue(self, "semaphore.acquire")

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._value} free, {len(self.waiters)} parked>"

    def acquire(self, blocking: bool = True, timeout: float | None = None) -> bool:
        """Take a permit. Parks: while there is none (``semaphore.acquire``). Returns: whether one was taken."""
        if not blocking and timeout is not None:
            raise ValueError("can't specify timeout for non-blocking acquire")
        if self._value > 0: self._value -= 1; return True  # one step  # fmt: skip  # noqa: E701, E702
        if not blocking or (timeout is not None and timeout <= 0):
            return False
        try:
            return bool(self.waiters.wait(True, self.serve, timeout))
        except TimeoutError:
            return False

    def release(self, n: int = 1) -> None:
        """Give ``n`` permits back, each to the first that waits for one. From: anybody. Raises: ValueError if n < 1."""
        if n < 1:
            raise ValueError("n must be one or more")
        if not self.waiters: self._value += n; return  # one step  # fmt: skip  # noqa: E701, E702
        while n and self.waiters and self.waiters.wake_first() is not None:
            n -= 1
        self._value += n  # one step
        self.serve()

    def serve(self) -> None:
        """Hand free permits to those that wait."""
        while self.waiters:
            if self._value > 0: self._value -= 1  # one step  # fmt: skip  # noqa: E701
            else:
                return
            if self.waiters.wake_first() is None:
                self._value += 1  # one step

    def __enter__(self) -> bool:
        if self._value > 0: self._value -= 1; return True  # one step  # fmt: skip  # noqa: E701, E702
        return self.acquire()

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self.release()

    def _at_fork_reinit(self, value: int = 1) -> None:
        self._value = value
        self.waiters.clear()


class BoundedSemaphore(Semaphore):
    """A Semaphore that takes no more permits back than it gave out. Source: ``threading.BoundedSemaphore``."""

    def __init__(self, value: int = 1) -> None:
        super().__init__(value)
        self._initial_value = self._value

    def release(self, n: int = 1) -> None:
        """Give ``n`` permits back. Raises: ValueError if that makes more than there were in the beginning."""
        room = self._initial_value - n
        if n > 0 and not self.waiters and self._value <= room: self._value += n; return  # one step  # fmt: skip  # noqa: E701, E702
        if self._value > room:
            raise ValueError("Semaphore released too many times")
        super().release(n)
