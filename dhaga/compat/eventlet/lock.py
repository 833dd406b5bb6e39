"""``eventlet.lock``: Lock, a semaphore with one permit."""

from __future__ import annotations

from .semaphore import Semaphore

__all__ = ["Lock"]


class Lock(Semaphore):
    """A Semaphore with one permit. A second release raises RuntimeError."""

    def __init__(self) -> None:
        super().__init__(1)

    def release(self, blocking: bool = True) -> bool:
        """Release the lock. Raises: RuntimeError if the lock is free."""
        if self.counter > 0:
            raise RuntimeError("release unlocked lock")
        return super().release(blocking)
