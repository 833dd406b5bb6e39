"""The mutex of a Queue: a spin lock against other OS threads, held for a few lines that never park."""

from __future__ import annotations

from .._kernel import originals
from .._kernel.fast.compiled import known_layout
from .._kernel.interpreter.guards import Guarded
from .._kernel.wait.current import on_event_loop, parking_waiter
from .._kernel.wait.waiter import Waiter

RETRY_SECONDS = 0.00005
"""Seconds between two tries of a held Mutex. Once the holder's OS thread runs again, the holder needs far less time."""

RETRIES = 40
"""After this number of tries (2 ms or more) the holder may be a parked dhaga of this OS thread: others get a turn."""

FREEZE_SECONDS = 5.0
"""Seconds after which a caller that cannot park gives up: it may keep the holder from running."""


@known_layout
class Mutex(Guarded):
    """A spin lock against other OS threads, for a few lines that never park, at a sixth of the cost of an OS lock.

    Like an OS lock it is not re-entrant: a signal handler or a finalizer in the dhaga that holds it waits forever. A
    program must not park while it holds a Mutex; if it does, other callers wait, but no OS thread freezes. Use
    ``acquire`` and try/finally: a signal handler that raises at the start of ``__exit__`` would leave it held.
    """

    __slots__ = ("_free",)

    def __init__(self) -> None:
        self._free = True

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Acquire the mutex. Sleeps between tries: a holder in another OS thread may be preempted.

        Returns: False if it is not ``blocking`` and the mutex is held; a ``timeout`` is ignored, because it is held for
        a few lines.
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
        """Acquire the mutex from a holder that parks. Raises: RuntimeError on the hub, which cannot park itself."""
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
    """The wait target of a caller that pauses between two tries of a Mutex whose holder has parked.

    Neither a timeout nor a cancel ends it, because the caller's operation must not stay half done.
    """

    __slots__ = ("me",)

    def __init__(self, me: Waiter) -> None:
        self.me: Waiter = me

    def park(self) -> None:
        """Yield to other dhagas."""
        me = self.me
        me.prepare_uncancellable("queue.mutex", self)
        me.scheduler.expire_after(RETRY_SECONDS * RETRIES, self)
        me.park_until_woken()

    def _expire(self) -> None:
        self.me.wake_parked()

    def _remove(self, waiter: object) -> bool:
        return False
