"""Threads x dhagas: a pool of schedulers, each in an OS thread of its own, that make submitted calls in dhagas.

Who takes which call: ``workers.py``. What comes of it: ``futures.py``, where an ``Executor`` for others is, too.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar

from greenlet import getcurrent

from .futures import Future, check_count, time_left
from .kernel.scheduler import Scheduler
from .kernel.waiting import this_waiter
from .queue import Empty, SimpleQueue
from .workers import Staff

P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")

new_number = itertools.count(1).__next__


class Pool:
    """Make calls in dhagas of several OS threads: ``threads`` schedulers, at most ``dhagas`` calls at once in each.

    A call goes to whichever thread has room; dhagas without a call are used again, and end when idle for long. From a
    dhaga, main code, any thread, a coroutine. With ``max_pending``, ``submit`` parks while so many wait to begin. The
    end of a ``with`` block waits for all calls; left by a Ctrl-C or a cancel, it cancels them first. At the
    interpreter's exit they are waited for.
    """

    def __init__(
        self, threads: int = 4, dhagas: int = 32, *, max_pending: int | None = None, name: str | None = None
    ) -> None:
        check_count("threads", threads)
        check_count("dhagas", dhagas)
        if max_pending is not None:
            check_count("max_pending", max_pending)
        self.name = name or f"pool-{new_number()}"
        self.limit = threads * dhagas
        schedulers = started(Scheduler(f"{self.name}-{number}") for number in range(1, threads + 1))
        self.staff = Staff(schedulers, dhagas, max_pending, owned=True)

    def __repr__(self) -> str:
        state = "gone" if self.staff.gone else "shut down" if self.staff.closed else "open"
        return f"<Pool {self.name} {state}, {len(self.staff.crews)} threads, {self.staff!r}>"

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Have ``fn(*args, **kwargs)`` called, in a copy of the caller's context.

        Parks: while ``max_pending`` calls wait (``semaphore.acquire``); else never. From: anywhere. Raises: TypeError,
        RuntimeError after ``shutdown`` and in a forked child.
        """
        future: Future[T] = Future()
        self.staff.submit(future, fn, args, kwargs)
        return future

    def map(self, fn: Callable[..., T], *iterables: Iterable[Any], timeout: float | None = None) -> Iterator[T]:
        """Submit all calls now and give their results in order. Leaving early withdraws those that have not begun.

        Parks: at each result that is not there yet (``future.result``). Raises: the call's error at its place,
        TimeoutError ``timeout`` seconds after this call, what ``submit`` does.
        """
        if not iterables:
            raise TypeError("map needs at least one iterable, whose items are the arguments")
        left = time_left(timeout)
        return in_order([self.submit(fn, *args) for args in zip(*iterables, strict=False)], left)

    def imap_unordered(
        self, fn: Callable[[S], T], iterable: Iterable[S], look_ahead: int | None = None, timeout: float | None = None
    ) -> Iterator[T]:
        """Give the results of ``fn(item)`` as they come, reading at most ``look_ahead`` items ahead of those given.

        By default that is as many as can run at once. Leaving early withdraws the calls that have not begun.
        Parks: until the next result (``queue.get``). Raises: the call's error in the place of a result, TimeoutError
        ``timeout`` seconds after this call, TypeError, ValueError.
        """
        ahead = self.limit if look_ahead is None else check_count("look_ahead", look_ahead)
        self.staff.check(fn)
        return unordered(self.submit, fn, iter(iterable), ahead, time_left(timeout))

    def shutdown(self, wait: bool = True, cancel: bool = False, timeout: float | None = None) -> None:
        """Take no more calls; end the threads once those taken have ended. What dhagas they left there is cancelled.

        ``cancel``: calls that have not begun are not made, those that run get ``Cancelled`` at their park. Without
        ``wait`` all that happens later. Parks: until the threads have ended (``join``, ``stop NAME``). Raises:
        TimeoutError naming the calls that did not end, RuntimeError if a call of this pool waits for itself so.
        """
        if wait and not self.staff.gone:
            self.check_caller()
        self.staff.close()
        if cancel:
            self.staff.cancel()
        if wait and not self.staff.gone:
            self.staff.join(timeout)

    def check_caller(self) -> None:
        """Raises: RuntimeError, ParkError for those who cannot wait for the end of this pool."""
        scheduler = getattr(getcurrent(), "scheduler", None)
        if any(crew.scheduler is scheduler for crew in self.staff.crews):
            raise RuntimeError(f"{self!r} cannot be waited for from within: shutdown(wait=False)")
        this_waiter()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.shutdown(cancel=kind is not None and not issubclass(kind, Exception))

    def __del__(self) -> None:
        staff = getattr(self, "staff", None)
        if staff is not None:  # let go without a word: what was submitted is done, then the threads end
            staff.close()


def in_order(futures: list[Any], left: Callable[[], float | None]) -> Iterator[Any]:
    """Give the results in the order of the list; whoever leaves early withdraws the rest."""
    futures.reverse()
    try:
        while futures:
            futures[-1].exception(left())
            yield futures.pop().result()
    finally:
        for future in futures:
            future.withdraw()


def unordered(
    submit: Callable[..., Future[T]], fn: Callable[..., T], items: Iterator[Any], ahead: int, left: Callable[[], Any]
) -> Iterator[T]:
    """Give results as they come, with at most so many calls under way; whoever leaves early withdraws the rest."""
    done: SimpleQueue[Any] = SimpleQueue()
    under_way: set[Future[T]] = set()
    try:
        while True:
            for item in itertools.islice(items, ahead - len(under_way)):
                future = submit(fn, item)
                under_way.add(future)
                future.add_done_callback(done.put_nowait)
            if not under_way:
                return
            try:
                future = done.get(timeout=left())
            except Empty:
                raise TimeoutError(f"{len(under_way)} calls have not ended") from None
            under_way.discard(future)
            yield future.result()
    finally:
        for future in under_way:
            future.withdraw()


def started(schedulers: Iterable[Scheduler]) -> list[Scheduler]:
    """Start all of them, or none."""
    running: list[Scheduler] = []
    try:
        for scheduler in schedulers:
            running.append(scheduler.start())
    except BaseException:
        for scheduler in running:
            scheduler.stop()
        raise
    return running
