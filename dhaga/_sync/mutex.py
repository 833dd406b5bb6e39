"""The mutex of a Queue: a spin lock that excludes other OS threads during a few lines that never park."""

from __future__ import annotations

from .._kernel import originals
from .._kernel.fast.compiled import known_layout
from .._kernel.interpreter.guards import Guarded
from .._kernel.wait.current import on_event_loop, parking_waiter
from .._kernel.wait.waiter import Waiter

RETRY_SECONDS = 0.00005
"""Seconds between two tries to acquire a held Mutex. A running holder releases the Mutex in far less time."""

RETRIES = 40
"""Number of tries (at least 2 ms together) before other dhagas get a turn, because one of them may be the holder."""

FREEZE_SECONDS = 5.0
"""Seconds after which a caller on the event loop gives up, because this caller may keep the holder from running."""


@known_layout
class Mutex(Guarded):
    """A spin lock for a few lines that never park. A Mutex takes a sixth of the time of an OS lock.

    Like an OS lock, a Mutex is not reentrant: if a signal handler or finalizer interrupts the holder and calls
    ``acquire``, the call never returns. A program must not park while it holds a Mutex; if a program does, other
    callers wait, but no OS thread freezes. Use ``acquire`` with try/finally instead of ``with``: an error that a signal
    handler raises at the start of ``__exit__`` would leave the Mutex held.
    """

    __slots__ = ("_free",)

    def __init__(self) -> None:
        self._free = True

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Acquire the mutex. Sleep between tries, because a holder in another OS thread may be preempted.

        Returns: False if the mutex is held and ``blocking`` is false. ``timeout`` is ignored, because a mutex is held
        only for a few lines.
        """
        for _ in range(RETRIES if blocking else 1):
            if self._free: self._free = False; return True  # atomic  # fmt: skip
            if not blocking:
                return False
            originals.thread_sleep(RETRY_SECONDS)
        self.acquire_slowly()
        return True

    acquire_lock = acquire

    def locked(self) -> bool:
        """Return whether the mutex is held."""
        return not self._free

    locked_lock = locked

    def acquire_slowly(self) -> None:
        """Wait until a holder that has parked releases the mutex, and acquire the mutex. Raises: RuntimeError after
        ``FREEZE_SECONDS`` on the event loop, which cannot park.
        """
        me = parking_waiter()
        deadline = originals.monotonic() + FREEZE_SECONDS
        while True:
            if self._free: self._free = False; return  # atomic  # fmt: skip
            if me is not None:
                MutexRetry(me).park()
                continue
            originals.thread_sleep(RETRY_SECONDS * RETRIES)
            if on_event_loop() and originals.monotonic() > deadline:
                raise RuntimeError(
                    "the mutex of this queue is held by code that has parked; this call, made from the event loop, "
                    "would freeze the OS thread:\ndo not park, nor call what may park, in queue.mutex, _put() or _get()"
                )

    def release(self) -> None:
        """Release the mutex."""
        self._free = True

    release_lock = release

    def _at_fork_reinit(self) -> None:
        self._free = True

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self._free = True


class MutexRetry:
    """The wait target of a caller that pauses between two tries to acquire a Mutex whose holder has parked.

    Neither a timeout nor a cancel ends the pause, because the caller's operation must not be left incomplete.
    """

    __slots__ = ("me",)

    def __init__(self, me: Waiter) -> None:
        self.me: Waiter = me

    def park(self) -> None:
        """Park for one pause, so that other dhagas run."""
        me = self.me
        me.prepare_uncancellable("queue.mutex", self)
        me.scheduler.expire_after(RETRY_SECONDS * RETRIES, self)
        me.park_until_woken()

    def _expire(self) -> None:
        self.me.wake_parked()

    def _remove(self, waiter: object) -> bool:
        return False
