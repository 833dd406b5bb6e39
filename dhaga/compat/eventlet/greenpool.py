"""``eventlet.greenpool``: GreenPool, a limited set of greenthreads, and GreenPile, which returns results in order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from greenlet import getcurrent

from ..._kernel.process.current_scheduler import current_scheduler
from ..._kernel.run.uncaught import call_excepthook
from ..._sync.event import Event
from . import _settings
from .greenthread import GreenThread, spawn, spawn_n, was_killed
from .queue import LightQueue
from .semaphore import Semaphore, check_count

__all__ = ["GreenPile", "GreenPool"]

Function = Callable[..., Any]


DEBUG = True
"""Whether errors of functions that ``spawn_n`` calls are reported. Programs may change this."""


class GreenPool:
    """A set of at most ``size`` greenthreads: ``spawn`` waits for a free place. Source: ``eventlet.GreenPool``."""

    def __init__(self, size: int = 1000) -> None:
        self.size: int = check_count("GreenPool()", "size", size)
        self.coroutines_running: set[Any] = set()
        self.sem: Semaphore = Semaphore(self.size)
        self._idle = Event()
        self._idle.set()

    def resize(self, new_size: int) -> None:
        """Change the limit. While more than ``new_size`` greenthreads are running, ``free`` is negative."""
        self.sem.counter += new_size - self.size
        self.size = new_size

    def running(self) -> int:
        """Return the number of running greenthreads."""
        return len(self.coroutines_running)

    def free(self) -> int:
        """Return the number of free places."""
        return self.sem.counter

    def waiting(self) -> int:
        """Return the number of callers that wait for a free place."""
        return max(0, -self.sem.balance)

    def spawn(self, function: Function, *args: Any, **kwargs: Any) -> GreenThread:
        """Start a greenthread. Parks: while the pool is full.

        If the caller is a greenthread of the full pool, call the function directly.
        """
        if self._is_full_for_itself():
            return call_at_once(function, args, kwargs)
        greenthread: GreenThread = self._started(spawn, function, *args, **kwargs)
        greenthread._links = [(self._spawn_done, (), {})]
        return greenthread

    def spawn_n(self, function: Function, *args: Any, **kwargs: Any) -> None:
        """Start a greenthread whose result cannot be waited for. Parks: while the pool is full."""
        if self._is_full_for_itself():
            self._call(function, args, kwargs)
            return
        self._started(spawn_n, self._call_and_leave, function, args, kwargs)

    def _is_full_for_itself(self) -> bool:
        """Return whether the caller is in the pool and the pool is full. A wait for a place might then never end."""
        return self.sem.locked() and getcurrent() in self.coroutines_running

    def _started(self, start: Function, *args: Any, **kwargs: Any) -> Any:
        """Return a greenthread that ``start`` has started in a place of the pool. Parks: while the pool is full."""
        self.sem.acquire()
        try:
            greenthread = start(*args, **kwargs)
        except BaseException:  # for example, ``function`` is None
            self.sem.release()
            raise
        self.coroutines_running.add(greenthread)
        self._idle.clear()
        return greenthread

    def _call(self, function: Function, args: Any, kwargs: Any) -> None:
        try:
            function(*args, **kwargs)
        except Exception as error:
            if DEBUG and _settings.hub_exceptions:
                call_excepthook(getcurrent(), error)

    def _call_and_leave(self, function: Function, args: Any, kwargs: Any) -> None:
        try:
            self._call(function, args, kwargs)
        finally:
            self._spawn_done(getcurrent())

    def _spawn_done(self, greenthread: Any) -> None:
        self.coroutines_running.discard(greenthread)
        self.sem.release()
        if self.sem.balance == self.size:
            self._idle.set()

    def waitall(self) -> None:
        """Wait until no greenthread is running. Parks: until then. Raises: AssertionError within the pool."""
        if getcurrent() in self.coroutines_running:
            raise AssertionError(
                "Calling waitall() from within one of the GreenPool's greenthreads will never terminate."
            )
        while self.running():
            self._idle.wait()

    def starmap(self, function: Function | None, iterable: Iterable[Iterable[Any]]) -> Iterator[Any]:
        """Yield the results of ``function(*item)`` in order. At most ``size`` + 1 calls are ahead of the consumer."""
        results = GreenMap(self.size)
        spawn_n(results.feed, function or (lambda *args: args), iterable)
        return results

    def imap(self, function: Function | None, *iterables: Iterable[Any]) -> Iterator[Any]:
        """Yield the results in order, like ``starmap``. Each call gets one item of each iterable."""
        return self.starmap(function, zip(*iterables, strict=False))


def call_at_once(function: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> GreenThread:
    """Call the function directly, and return an ended greenthread that has the result."""
    greenthread = GreenThread(current_scheduler(), function, args, kwargs)
    greenthread._value = function(*args, **kwargs)
    greenthread._end()
    return greenthread


class GreenPile:
    """Greenthreads whose results are returned in the order of their spawns. Source: ``eventlet.GreenPile``."""

    def __init__(self, size_or_pool: int | GreenPool = 1000) -> None:
        self.pool: GreenPool = size_or_pool if isinstance(size_or_pool, GreenPool) else GreenPool(size_or_pool)
        self.waiters: LightQueue = LightQueue()
        self.counter: int = 0

    def spawn(self, func: Function, *args: Any, **kwargs: Any) -> None:
        """Start a greenthread whose result the iteration yields. Parks: while the pool is full."""
        self.counter += 1
        try:
            self.waiters.put(self.pool.spawn(func, *args, **kwargs))
        except BaseException:
            self.counter -= 1
            raise

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        if not self.counter:
            raise StopIteration
        try:
            return self.waiters.get().wait()
        finally:
            self.counter -= 1

    def next(self) -> Any:
        """Return the next call's result, or raise its error. Parks: until this call ends. Raises: StopIteration."""
        return next(self)


class End:
    """A mark for the end of the results. ``failure``: the error of the iterable, or None."""

    def __init__(self, failure: BaseException | None) -> None:
        self.failure = failure


class GreenMap(GreenPile):
    """Iterator of ``imap`` and ``starmap``. Its bounded queue limits how far the calls run ahead of the consumer."""

    _end: End | None = None

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.waiters: LightQueue = LightQueue(size)

    def feed(self, function: Function, iterable: Iterable[Iterable[Any]]) -> None:
        """Spawn all calls. From: a separate greenthread."""
        failure: BaseException | None = None
        try:
            for args in iterable:
                self.spawn(function, *args)
        except BaseException as error:
            failure = error
            if was_killed(error):
                raise
        finally:
            self.waiters.put(End(failure))

    def __next__(self) -> Any:
        if self._end is None:
            found = self.waiters.get()
            if not isinstance(found, End):
                return found.wait()
            self._end = found
        failure, self._end.failure = self._end.failure, None
        raise failure or StopIteration
