"""Linkable objects (``rawlink``), and waiting for several of them (``iwait``, ``wait``)."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any, Self

from greenlet import GreenletExit, getcurrent

from ..._kernel.interpreter.guards import GuardedTogether
from ..._kernel.process.current_scheduler import current_scheduler
from ..._kernel.run.entries import HubCall
from ..._kernel.run.scheduler import Scheduler, sleep
from ..._sync.simple_queue import SimpleQueue
from ._loop import call_on_hub, report
from .timeout import Timeout

Callback = Callable[[Any], object]

END: Any = object()


class Linkable(GuardedTogether):
    """Mixin for objects that call callbacks once they are ready. Callbacks run on the hub and cannot park."""

    __slots__ = ()

    # Callbacks; an empty tuple until the first, because most objects have no callback.
    _links: Any

    def ready(self) -> bool:
        """Return whether a wait would return at once."""
        raise NotImplementedError

    def rawlink(self, callback: Callback) -> None:
        """Register ``callback(self)``, which the hub calls once this object is ready; soon, if it is ready already."""
        if not callable(callback):
            raise TypeError(f"Expected callable: {callback!r}")
        if not self._links: self._links = [callback]  # atomic  # fmt: skip
        else:
            self._links.append(callback)
        if self.ready():
            self._notify_links()

    def unlink(self, callback: Callback) -> None:
        """Remove a callback; no-op if it is not registered."""
        if callback in self._links:
            self._links.remove(callback)

    def linkcount(self) -> int:
        """Return the number of callbacks."""
        return len(self._links)

    def _notify_links(self) -> None:
        """Schedule the callbacks on the hub, each if it is still linked by then. Safe from any OS thread."""
        if self._links:
            call_on_hub(LinksCall(self))

    def _call_links(self) -> None:
        for callback in list(self._links):
            if not self.ready():
                return
            if callback in self._links:
                self._called_link(callback)
                try:
                    callback(self)
                except Exception as error:
                    report(current_scheduler(), (callback, self), error)

    def _called_link(self, callback: Callback) -> None:
        """Remove a callback just before its call: most are called once."""
        self._links.remove(callback)


class Ended(list[Any]):
    """Joiner of several greenlets: a list of the ended ones, in the order of their ends."""

    __slots__ = ()

    # Waiters' method of this name; bound to append(), which saves a frame.
    deliver_wake = list.append


class LinksCall(HubCall):
    """Calls the callbacks of an object that is ready."""

    __slots__ = ("scheduler", "source")

    def __init__(self, source: Linkable) -> None:
        self.scheduler = current_scheduler()
        self.source = source

    def make_call(self) -> None:
        self.source._call_links()


class iwait:
    """Iterator over greenlets, events and other objects with ``rawlink``, as they become ready, up to ``count`` of
    them.

    Parks: until the next one is ready. It ends early, without an error, after ``timeout`` seconds. As a context
    manager it unlinks the others at the end of the block.
    """

    def __init__(self, objects: Iterable[Any], timeout: float | None = None, count: int | None = None) -> None:
        self._ready = as_ready(objects, timeout, count)

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        return next(self._ready)

    next = __next__

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._ready.close()


def as_ready(objects: Iterable[Any], timeout: float | None, count: int | None) -> Generator[Any, None, None]:
    waited = list({id(each): each for each in objects}.values())
    ready: SimpleQueue[Any] = SimpleQueue()
    left = len(waited) if count is None else min(count, len(waited))
    timer = Timeout.start_new(timeout) if timeout is not None else None
    done: set[int] = set()
    try:
        for each in waited:
            # A future of an executor has no links, and calls back from any OS thread.
            (getattr(each, "rawlink", None) or each.add_done_callback)(ready.put)
        while left > 0:
            try:
                each = ready.get()
            except Timeout as error:
                if error is timer:
                    return
                raise
            if id(each) in done:
                continue
            done.add(id(each))
            left -= 1
            yield each
    finally:
        if timer is not None:
            timer.cancel()
        for each in waited if len(done) < len(waited) else ():
            unlink = getattr(each, "unlink", None)
            if unlink is not None:
                unlink(ready.put)


def wait(objects: Iterable[Any] | None = None, timeout: float | None = None, count: int | None = None) -> Any:
    """Wait for objects, and return the list of those that are ready; without objects, for all greenlets to end.

    Parks: until ``count`` of them (default: all) are ready, or ``timeout`` seconds have passed.
    """
    if objects is None:
        return join_all(timeout)
    waited = list(objects)
    if count is None and all(hasattr(each, "_add_joiner") for each in waited) and getcurrent() not in waited:
        return ended(waited, timeout)
    return list(iwait(waited, timeout, count))


def ended(greenlets: list[Any], timeout: float | None) -> list[Any]:
    """Wait for greenlets only, and return the ended ones in the order of their ends.

    Waits for one greenlet at a time, so greenlets that end during such a wait cost no wake of their own.
    """
    waited = dict.fromkeys(greenlets)
    done = Ended()
    tickets = [(each, each._add_joiner(done)) for each in waited]
    timer = Timeout.start_new(timeout) if timeout is not None else None
    try:
        for each in waited:
            if not each.has_ended:
                each.wait_for_end(None)
        if len(done) < len(waited):  # one has ended in another OS thread, but has not called yet
            return [*done, *(waited.keys() - done)]
    except Timeout as error:
        if error is not timer:
            raise
    finally:
        if timer is not None:
            timer.cancel()
        if len(done) < len(waited):
            for each, ticket in tickets:
                each._drop_ticket(ticket)
    return done


def living(scheduler: Scheduler) -> list[Any]:
    """Return the living greenlets, including those that a timer will start."""
    found = [*scheduler.in_order(), *(entry[2] for entry in scheduler.timers.heap)]
    return [each for each in found if isinstance(each, Linkable)]


def join_all(timeout: float | None = None) -> bool:
    """Wait until no greenlet is left but the caller. Parks: until then. Returns: False if ``timeout`` s came first."""
    scheduler, me = current_scheduler(), getcurrent()
    deadline = None if timeout is None else scheduler.clock() + timeout
    while left := [each for each in living(scheduler) if each is not me]:
        for each in left:
            rest = None if deadline is None else deadline - scheduler.clock()
            if rest is not None and rest <= 0:
                return False
            each.wait_for_end(rest)
    return True


def joinall(
    greenlets: Iterable[Any], timeout: float | None = None, raise_error: bool = False, count: int | None = None
) -> list[Any]:
    """Wait for greenlets. Returns: those that have ended. Parks: until ``count`` (all), or for ``timeout`` seconds.

    ``raise_error``: raise the error of the first that has one.
    """
    if not raise_error:
        return wait(greenlets, timeout, count)  # type: ignore[no-any-return]
    done = []
    for each in iwait(greenlets, timeout, count):
        if hasattr(each, "exception") and each.exception is not None:
            each.get()
        done.append(each)
    return done


def killall(
    greenlets: Iterable[Any], exception: Any = GreenletExit, block: bool = True, timeout: float | None = None
) -> None:
    """Kill greenlets. Parks: until all have ended, if ``block``. Raises: Timeout after ``timeout`` seconds."""
    victims = [each for each in greenlets if not each.dead]
    me: Any = getcurrent()
    for each in victims:
        if each is not me:
            each.kill(exception, block=False)
    if me in victims:
        me.kill(exception, block)  # with ``block`` it raises here, so the caller is the last one
    if block:
        timer = Timeout.start_new(timeout)
        try:
            if not all(each.dead for each in victims):
                sleep(0)  # as in Greenlet.kill()
            joinall(victims)
        finally:
            timer.cancel()
