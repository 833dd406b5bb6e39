"""Linkable objects, which call callbacks (``rawlink``), and waits for several such objects (``iwait``, ``wait``)."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any, Self

from greenlet import getcurrent

from ..._kernel.errors import Deadlock
from ..._kernel.interpreter.guards import GuardedTogether
from ..._kernel.process.current_scheduler import current_scheduler
from ..._kernel.run.entries import HubCall
from ..._kernel.run.scheduler import Scheduler
from ..._kernel.wait import deadlock
from ..._sync.simple_queue import SimpleQueue
from ._loop import call_on_hub, report
from .timeout import Timeout

Callback = Callable[[Any], object]

END: Any = object()

FIRST_LOOK, LAST_LOOK = 0.01, 1.0
"""First and longest pause, in seconds, between two checks of whether anything could still wake a greenlet. Each
pause is twice as long as the last.
"""


class Links(list[Callback]):
    """The callbacks of an object, and the scheduler of the first ``rawlink``, on whose hub the callbacks run."""

    __slots__ = ("scheduler",)

    def __init__(self, callback: Callback) -> None:
        super().__init__((callback,))
        self.scheduler: Scheduler = current_scheduler()


class Linkable(GuardedTogether):
    """Mixin for objects that call callbacks once they are ready. The callbacks run on the hub and cannot park."""

    __slots__ = ()

    # The Links, or an empty tuple until the first callback, because most objects have no callback.
    _links: Any

    _calls_only_while_ready = False
    """Whether a callback is skipped if the object is no longer ready at the call, which happens with semaphores."""

    def ready(self) -> bool:
        """Return whether a wait for this object would return at once."""
        raise NotImplementedError

    def rawlink(self, callback: Callback) -> None:
        """Register ``callback(self)``, which the hub calls when this object is ready, or soon if it is ready now."""
        if not callable(callback):
            raise TypeError(f"Expected callable: {callback!r}")
        links = Links(callback)
        if not self._links: self._links = links  # atomic  # fmt: skip
        else:
            self._links.append(callback)
        if self.ready():
            self._notify_links()

    def unlink(self, callback: Callback) -> None:
        """Remove a callback; no-op if the callback is not registered."""
        if callback in self._links:
            self._links.remove(callback)

    def linkcount(self) -> int:
        """Return the number of callbacks."""
        return len(self._links)

    def _notify_links(self) -> None:
        """Schedule the callbacks on the hub. A callback that is removed meanwhile is skipped. From: any OS thread."""
        links = self._links
        if links:
            call_on_hub(LinksCall(self, links))

    def _call_links(self, callbacks: list[Callback]) -> None:
        """Call each of the callbacks that is still registered, once."""
        for callback in callbacks:
            if self._calls_only_while_ready and not self.ready():
                return
            if callback in self._links:
                self._links.remove(callback)
                try:
                    callback(self)
                except BaseException as error:
                    report(current_scheduler(), (callback, self), error)


class Ended(list[Any]):
    """A joiner: each of several greenlets appends itself to this list when it ends."""

    __slots__ = ()

    # When a greenlet ends, it calls deliver_wake() of each joiner. Binding append() directly saves a frame per call.
    deliver_wake = list.append


class LinksCall(HubCall):
    """A call on the hub. It runs the callbacks that were registered when the object became ready."""

    __slots__ = ("callbacks", "scheduler", "source")

    def __init__(self, source: Linkable, links: Links) -> None:
        self.scheduler = current_scheduler() if links.scheduler.closing else links.scheduler
        self.source = source
        self.callbacks = links[:]

    def make_call(self) -> None:
        self.source._call_links(self.callbacks)


class EndOfWait:
    """A timer's entry that puts END into the queue of ready objects."""

    __slots__ = ("ready",)

    def __init__(self, ready: SimpleQueue[Any]) -> None:
        self.ready = ready

    def _expire(self) -> None:
        self.ready.put(END)


class iwait:
    """Iterator over greenlets, events and other objects with ``rawlink``, in the order in which they become ready.

    The iteration ends after ``count`` objects or, without an error, after ``timeout`` seconds. As a context manager,
    the iterator removes its callbacks from the remaining objects at the end of the block. Parks: until the next object
    is ready.
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
    scheduler = current_scheduler()
    # The timer does not raise a Timeout, because the caller may do other work between two objects.
    timer = None if timeout is None else scheduler.expire_after(max(0, timeout), EndOfWait(ready))
    done: set[int] = set()
    try:
        for each in waited:
            # An executor's future has no rawlink(), and calls its callbacks in any OS thread.
            (getattr(each, "rawlink", None) or each.add_done_callback)(ready.put)
        while left > 0:
            each = ready.get()
            if each is END:
                return
            if id(each) in done:
                continue
            done.add(id(each))
            left -= 1
            yield each
    finally:
        if timer is not None:
            scheduler.timers.discard(timer)
        for each in waited if len(done) < len(waited) else ():
            unlink = getattr(each, "unlink", None)
            if unlink is not None:
                unlink(ready.put)


def wait(objects: Iterable[Any] | None = None, timeout: float | None = None, count: int | None = None) -> Any:
    """Wait for objects and return the list of the ready ones; without objects, wait for all greenlets to end.

    Parks: until ``count`` objects (default: all) are ready, or until ``timeout`` seconds have passed.
    """
    if objects is None:
        return join_all(timeout)
    waited = list(objects)
    if count is None and all(hasattr(each, "_add_joiner") for each in waited) and getcurrent() not in waited:
        return ended(waited, timeout)
    return list(iwait(waited, timeout, count))


def ended(greenlets: list[Any], timeout: float | None) -> list[Any]:
    """Wait for objects that are all greenlets, and return the ended ones in the order in which they ended.

    The caller waits for one greenlet at a time. Other greenlets that end during this wait do not cause additional
    wakes.
    """
    waited = dict.fromkeys(greenlets)
    done = Ended()
    tickets = [(each, each._add_joiner(done)) for each in waited]
    timer = Timeout.start_new(timeout) if timeout is not None else None
    try:
        for each in waited:
            if not each.has_ended:
                each.wait_for_end(None)
        if len(done) < len(waited):  # a greenlet has ended in another OS thread, and has not been appended yet
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
    """Return the living greenlets, including greenlets that a timer will start."""
    found = [*scheduler.in_order(), *(entry[2] for entry in scheduler.timers.heap)]
    return [each for each in found if isinstance(each, Linkable)]


def join_all(timeout: float | None = None) -> bool:
    """Wait until all other greenlets have ended, or until the remaining ones wait and nothing could wake them.

    Parks: until then. Returns: False after ``timeout`` seconds.
    """
    scheduler, me = current_scheduler(), getcurrent()
    deadline = None if timeout is None else scheduler.clock() + timeout
    look = FIRST_LOOK
    while left := [each for each in living(scheduler) if each is not me]:
        for each in left:
            while not each.has_ended:
                pause = None if deadline is None else min(look, deadline - scheduler.clock())
                if pause is not None and pause <= 0:
                    return False
                try:
                    each.wait_for_end(pause)
                except Deadlock:
                    return True
                if not each.has_ended and nothing_comes(scheduler):
                    return True
                look = min(2 * look, LAST_LOOK)
    return True


def nothing_comes(scheduler: Scheduler) -> bool:
    """Return whether nothing could wake a greenlet of the caller's scheduler, except the caller itself.

    A wait with a timeout gets no Deadlock, because its own timer is to come.
    """
    watch = None if scheduler.selector is None else scheduler.selector.watch
    loop: Any = scheduler.loop
    return (
        watch is not None
        and not len(scheduler.timers)
        and watch.could_be_stuck()
        and not getattr(loop, "_ready", ())
        and all(each.cancelled() for each in getattr(loop, "_scheduled", ()))
        and not scheduler.poller.has_waiters()
        and not watch.awaits_open_future()
        and not deadlock.signal_could_wake()
        and deadlock.all_begun()
        and all(ident == scheduler.thread_ident or deadlock.is_stuck(ident) for ident in deadlock.frames_of_threads())
    )
