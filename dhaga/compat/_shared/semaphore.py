"""A semaphore with a count that programs may read and set: the base of the semaphores of gevent and eventlet."""

from __future__ import annotations

from ..._sync import semaphore


class CountedSemaphore:
    """A semaphore with a readable count. While the count is negative, each release only raises the count by one.

    ``_permits`` is a semaphore of Dhaga. This class does not inherit from it, because a subclass would lose the
    compiled methods.
    """

    def __init__(self, value: int) -> None:
        self._permits = self._make(value)

    def _make(self, value: int) -> semaphore.Semaphore:
        return semaphore.Semaphore(value)

    @property
    def counter(self) -> int:
        """The number of free permits. A program may set it, even to a negative number."""
        return self._permits._value

    @counter.setter
    def counter(self, value: int) -> None:
        self._permits._value = value
        self._permits._hand_out_permits_()

    def locked(self) -> bool:
        """Return whether ``acquire`` would wait."""
        return self._permits._value <= 0

    def _release(self) -> None:
        permits = self._permits
        if permits._value < 0: permits._value += 1  # atomic  # fmt: skip
        else:
            permits.release()
