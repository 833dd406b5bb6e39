"""A semaphore whose count programs may read and set: base of gevent's and eventlet's."""

from __future__ import annotations

from ..._sync import semaphore


class CountedSemaphore:
    """A number of permits. A negative count: that number of permits must be released before one is free.

    It wraps a semaphore of Dhaga, because a subclass would lose the compiled methods.
    """

    def __init__(self, value: int) -> None:
        self._permits = self._make(value)

    def _make(self, value: int) -> semaphore.Semaphore:
        return semaphore.Semaphore(value)

    @property
    def counter(self) -> int:
        """The number of free permits; may be set."""
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
