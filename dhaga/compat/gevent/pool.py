"""``gevent.pool``: Group, a set of greenlets, and Pool, a Group of limited size."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from queue import Full
from typing import Any

from greenlet import GreenletExit, getcurrent

from ..._sync import semaphore
from ..._sync.event import Event
from ..._sync.simple_queue import SimpleQueue
from .greenlet import Greenlet, joinall, killall
from .lock import Semaphore
from .timeout import Timeout, until

__all__ = ["Group", "Pool", "PoolFull"]

Function = Callable[..., Any]


class PoolFull(Full):
    """The error that is raised if a Pool has no room for a greenlet."""


class Group:
    """Greenlets that are joined and killed together. Source: ``gevent.pool.Group``."""

    greenlet_class: type[Greenlet] = Greenlet

    _room: semaphore.Semaphore | None = None
    """The permits of a Pool, one for each free place; None in a Group and in a Pool without a limit."""

    _semaphore: Any = None
    """The gevent semaphore whose permits ``_room`` has; None in a Group and in a Pool without a limit."""

    def __init__(self, greenlets: Iterable[Any] = ()) -> None:
        self.greenlets: set[Any] = set()
        self.dying: set[Any] = set()
        self._empty = Event()
        self._empty.set()
        for each in greenlets:
            self.add(each)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} at {id(self):#x} {self.greenlets}>"

    def __len__(self) -> int:
        return len(self.greenlets)

    def __contains__(self, greenlet: object) -> bool:
        return greenlet in self.greenlets

    def __iter__(self) -> Iterator[Any]:
        return iter(self.greenlets)

    # ---- members

    def add(self, greenlet: Any, blocking: bool = True, timeout: float | None = None) -> None:
        """Add a greenlet; it is removed when it ends.

        Parks: while a Pool has no room. Raises: PoolFull after ``timeout`` seconds, or at once without ``blocking``.
        """
        room = self._room
        if room is not None:
            if room._value > 0: room._value -= 1  # atomic  # fmt: skip
            elif not self._semaphore.acquire(blocking, timeout):
                raise PoolFull(f"no room for another greenlet in {self!r}")
        if not self.greenlets:
            self._empty.clear()
        self.greenlets.add(greenlet)
        # If the greenlet is discarded earlier, the group remains its joiner, but deliver_wake() then does nothing.
        if isinstance(greenlet, Greenlet):
            greenlet._joiners.append([self])
            if greenlet.has_ended:
                greenlet.release_joiners()
        else:
            greenlet.rawlink(self.deliver_wake)

    def discard(self, greenlet: Any) -> None:
        """Remove a greenlet; no-op if it is not in the group."""
        self.deliver_wake(greenlet)

    def deliver_wake(self, greenlet: Any) -> None:
        if greenlet in self.greenlets:
            self.greenlets.remove(greenlet)
            if self.dying:
                self.dying.discard(greenlet)
            if not self.greenlets:
                self._empty.set()
            room = self._room
            if room is not None:
                if not room._waiters_: room._value += 1  # atomic  # fmt: skip
                else:
                    room.release()

    def start(self, greenlet: Any, blocking: bool = True, timeout: float | None = None) -> None:
        """Add an unstarted greenlet, and start it. Parks and raises like ``add``."""
        self.add(greenlet, blocking, timeout)
        greenlet.start()

    def spawn(self, *args: Any, **kwargs: Any) -> Any:
        """Create a greenlet, add it and start it."""
        greenlet = self.greenlet_class(*args, **kwargs)
        self.start(greenlet)
        return greenlet

    def full(self) -> bool:
        """Return whether the group has no room for another greenlet; always False for a Group."""
        return False

    def wait_available(self, timeout: float | None = None) -> Any:
        """Wait until the group has room. Parks: while it has no room. A Group always has room."""
        return 1

    # ---- all members

    def join(self, timeout: float | None = None, raise_error: bool = False) -> bool:
        """Wait until all greenlets have ended. Parks: until then. Returns: False after ``timeout`` seconds."""
        waited = list(self.greenlets)
        if isinstance(timeout, Timeout):
            ended = bool(until(timeout, self._empty.wait))
        else:
            ended = self._empty.wait(timeout)
        if raise_error:
            for each in waited:
                if each.ready() and not each.successful():
                    each.get()
        return ended

    def kill(self, exception: Any = GreenletExit, block: bool = True, timeout: float | None = None) -> None:
        """Kill all greenlets. Parks: if ``block``, until they have ended, at most ``timeout`` seconds."""
        timer = Timeout.start_new(timeout)
        try:
            while self.greenlets:
                victims = [each for each in self.greenlets if each not in self.dying]
                killall(victims, exception, block=False)
                self.dying.update(each for each in victims if not each.dead)
                if not block:
                    return
                joinall(list(self.greenlets))
                for each in [each for each in self.greenlets if each.dead]:
                    self.discard(each)
        except Timeout as error:
            if error is not timer:
                raise
        finally:
            timer.cancel()

    def killone(
        self, greenlet: Any, exception: Any = GreenletExit, block: bool = True, timeout: float | None = None
    ) -> None:
        """Kill one greenlet if it is in the group and is not being killed already."""
        if greenlet in self.greenlets and greenlet not in self.dying:
            self.dying.add(greenlet)
            # With ``block``, a caller that kills itself ends here, because a greenlet cannot join itself.
            greenlet.kill(exception, block=block and greenlet is getcurrent())
            if block:
                greenlet.join(timeout)

    # ---- calls

    def apply(self, func: Function, args: Any = None, kwds: Any = None) -> Any:
        """Call ``func`` in a greenlet of the group, and return its result or raise its error. Parks: until it ends."""
        if getcurrent() in self.greenlets:  # in a full pool, the caller would wait for its own place
            return func(*(args or ()), **(kwds or {}))
        return self.spawn(func, *(args or ()), **(kwds or {})).get()

    def apply_async(self, func: Function, args: Any = None, kwds: Any = None, callback: Function | None = None) -> Any:
        """Call ``func`` in a greenlet of the group, and return the greenlet. ``callback`` is called with the result."""
        if self.full():
            # Instead of the caller, a new greenlet waits for room.
            return Greenlet.spawn(self.apply_cb, func, args, kwds, callback)
        greenlet = self.spawn(func, *(args or ()), **(kwds or {}))
        if callback is not None:
            greenlet.link_value(lambda source: callback(source.value))
        return greenlet

    def apply_cb(self, func: Function, args: Any = None, kwds: Any = None, callback: Function | None = None) -> Any:
        """Call ``func`` like ``apply``, spawn ``callback`` with the result, and return the result."""
        result = self.apply(func, args, kwds)
        if callback is not None:
            Greenlet.spawn(callback, result)
        return result

    def map(self, func: Function, iterable: Iterable[Any]) -> list[Any]:
        """Call ``func`` for each item. Parks: until all calls have ended. Returns: the results, in the items' order."""
        greenlets: list[Any] = []
        news = Event()
        feeder = Greenlet.spawn(spawn_all, self.spawn, func, iterable, greenlets, news)
        news.wait()
        results: list[Any] = []
        while not (feeder.ready() and len(results) == len(greenlets)):
            left = greenlets[len(results) :]
            results.extend([each._value if each.has_ended and each._error is None else each.get() for each in left])
            feeder.join()
        failure = feeder.get()
        if failure is not None:
            raise failure
        return results

    def map_cb(self, func: Function, iterable: Iterable[Any], callback: Function | None = None) -> list[Any]:
        result = self.map(func, iterable)
        if callback is not None:
            callback(result)
        return result

    def map_async(self, func: Function, iterable: Iterable[Any], callback: Function | None = None) -> Greenlet:
        """Start ``map`` in a new greenlet, and return the greenlet."""
        return Greenlet.spawn(self.map_cb, func, iterable, callback)  # type: ignore[no-any-return]

    def imap(self, func: Function, *iterables: Iterable[Any], maxsize: int | None = None) -> Iterator[Any]:
        """Yield the results in the items' order; at most ``maxsize`` results are stored."""
        return Results(self, func, zip(*iterables, strict=False), maxsize, ordered=True)

    def imap_unordered(self, func: Function, *iterables: Iterable[Any], maxsize: int | None = None) -> Iterator[Any]:
        """Yield the results in the order in which the calls end; at most ``maxsize`` results are stored."""
        return Results(self, func, zip(*iterables, strict=False), maxsize, ordered=False)


def spawn_all(
    spawn: Function, func: Function, items: Iterable[Any], greenlets: list[Any], news: Event
) -> BaseException | None:
    """Spawn a call for each item of ``map``. Returns: the error of the items' iterator, or None.

    ``news`` is set at the end. It is set earlier if a call has failed and all preceding calls have ended: ``map`` then
    raises the error early. The check for failed calls is in this function, which runs at each spawn anyway. For a check
    in ``map``, the caller of ``map`` would have to be woken each time.
    """
    ended = 0
    try:
        for item in items:
            greenlets.append(spawn(func, item))
            while ended < len(greenlets) and greenlets[ended].has_ended:
                if greenlets[ended]._error is not None:
                    news.set()
                ended += 1
    except BaseException as error:
        if isinstance(error, GreenletExit):
            raise
        return error
    finally:
        news.set()
    return None


class Ready(SimpleQueue[Any]):
    """Queue of greenlets, in the order in which Results returns their results. ``len`` returns its size."""

    deliver_wake = SimpleQueue.put
    """The method that an ending greenlet calls if the queue is its joiner: it puts the greenlet into the queue."""

    def __len__(self) -> int:
        return self.qsize()


class Results:
    """Iterator over the results of calls. A separate greenlet spawns the calls in a group."""

    def __init__(
        self, group: Group, func: Function, items: Iterable[tuple[Any, ...]], maxsize: int | None, ordered: bool
    ) -> None:
        self.group = group
        self.func = func
        self.room: Semaphore | None = None if maxsize is None else Semaphore(maxsize)
        self.ordered = ordered
        # The greenlets whose result was not returned, because a Timeout or a kill has ended the wait for it.
        self.interrupted: deque[Any] = deque()
        self.queue: Ready = Ready()
        self.feeder: Any = Greenlet.spawn(self.feed, items)

    def feed(self, items: Iterable[tuple[Any, ...]]) -> None:
        count = 0
        failure: BaseException | None = None
        try:
            for args in items:
                if self.room is not None:
                    self.room.acquire()
                greenlet = self.group.spawn(self.func, *args)
                count += 1
                if self.ordered:
                    self.queue.put(greenlet)
                else:
                    greenlet._add_joiner(self.queue)
        except BaseException as error:
            failure = error
            if isinstance(error, GreenletExit):
                raise
        finally:
            self.queue.put(End(count, failure))

    def __iter__(self) -> Iterator[Any]:
        return self

    taken: int = 0
    end: End | None = None

    def __next__(self) -> Any:
        if self.end is None or self.taken < self.end.count:
            if self.interrupted:
                greenlet = self.interrupted.popleft()
            else:
                queue = self.queue
                greenlet = queue._items_.popleft() if queue._items_ else queue.get()
                if type(greenlet) is End:
                    self.end = greenlet
                    return next(self)
            self.taken += 1
            try:
                value = greenlet._value if greenlet.has_ended and greenlet._error is None else greenlet.get()
            except BaseException as error:
                if error is not greenlet._error:
                    self.taken -= 1
                    self.interrupted.append(greenlet)
                    raise
                if self.room is not None:
                    self.room.release()
                raise
            if self.room is not None:
                self.room.release()
            return value
        failure, self.end.failure = self.end.failure, None
        if failure is not None:
            raise failure
        raise StopIteration

    next = __next__


class End:
    """A mark for the end of the results. It holds their number and the error of the items' iterator, if any."""

    def __init__(self, count: int, failure: BaseException | None) -> None:
        self.count = count
        self.failure = failure


class Pool(Group):
    """A Group of at most ``size`` greenlets: ``spawn`` waits for a free place. Source: ``gevent.pool.Pool``."""

    def __init__(self, size: int | None = None, greenlet_class: type[Greenlet] | None = None) -> None:
        if size is not None and size < 0:
            raise ValueError("size must not be negative")
        super().__init__()
        self.size = size
        if greenlet_class is not None:
            self.greenlet_class = greenlet_class
        self._semaphore = None if size is None else Semaphore(size)
        if self._semaphore is not None:
            self._room = self._semaphore._permits

    def full(self) -> bool:
        return self.free_count() <= 0

    def free_count(self) -> int:
        """Return the number of free places; 1 if the size is not limited."""
        return 1 if self._room is None else self._room._value

    def wait_available(self, timeout: float | None = None) -> int:
        return 1 if self._semaphore is None else self._semaphore.wait(timeout)
