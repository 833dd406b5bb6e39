"""Pool: several schedulers, each in its own OS thread, that run submitted calls in worker dhagas.

``_workers/dhaga_pool.py`` assigns calls to workers, and ``_workers/future.py`` has the class of a call's result.
``futures.py`` has Executor, the standard interface to a pool.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from queue import Empty
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar, overload

from ._kernel.faces.arguments import check_count, check_seconds
from ._kernel.faces.foreign_names import refuse_async_with
from ._kernel.run.scheduler import Scheduler
from ._kernel.wait.current import scheduler_of_caller, this_waiter
from ._sync.completion import time_left
from ._sync.simple_queue import SimpleQueue
from ._workers.dhaga_pool import WorkerPool
from ._workers.future import Future

P = ParamSpec("P")
S = TypeVar("S")
S2 = TypeVar("S2")
T = TypeVar("T")

new_number: Callable[[], int] = itertools.count(1).__next__


@refuse_async_with()
class Pool:
    """A pool of ``threads`` schedulers, each in its own OS thread and with at most ``dhagas`` worker dhagas.

    From: a dhaga, main code, any thread, a coroutine. Workers are reused, and end after some idle time. ``max_pending``
    limits the calls that have not begun: ``submit`` parks while their number is at this limit. The end of a ``with``
    block waits for all calls; if a Ctrl-C or a cancel ends the block, the calls are cancelled first. The
    interpreter's exit also waits for all calls.

    >>> with Pool(threads=1) as pool: pool.submit(pow, 2, 10).result(), list(pool.map(abs, [-1, -2]))
    (1024, [1, 2])
    """

    def __init__(
        self, threads: int = 4, dhagas: int = 32, *, max_pending: int | None = None, name: str | None = None
    ) -> None:
        check_count("threads", threads)
        check_count("dhagas", dhagas)
        if max_pending is not None:
            check_count("max_pending", max_pending)
        self.name: str = name or f"pool-{new_number()}"
        self._limit = threads * dhagas
        schedulers = start_all(Scheduler(f"{self.name}-{number}") for number in range(1, threads + 1))
        self._workers = WorkerPool(schedulers, dhagas, max_pending, owned=True)

    def __repr__(self) -> str:
        state = "gone" if self._workers.in_parent else "shut down" if self._workers.closed else "open"
        return f"<Pool {self.name} {state}, {len(self._workers.groups)} threads, {self._workers!r}>"

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Submit ``fn(*args, **kwargs)``, which is called in a copy of the caller's context.

        Parks: while ``max_pending`` calls have not begun (``semaphore.acquire``); otherwise never. From: any thread.
        Raises: TypeError, RuntimeError after ``shutdown`` or in a forked child.
        """
        future: Future[T] = Future()
        self._workers.submit(future, fn, args, kwargs)
        return future

    @overload
    def map(self, fn: Callable[[S], T], iterable: Iterable[S], /, *, timeout: float | None = None) -> Iterator[T]: ...
    @overload
    def map(
        self, fn: Callable[[S, S2], T], iterable: Iterable[S], second: Iterable[S2], /, *, timeout: float | None = None
    ) -> Iterator[T]: ...
    @overload
    def map(
        self,
        fn: Callable[..., T],
        iterable: Iterable[Any],
        second: Iterable[Any],
        third: Iterable[Any],
        /,
        *more: Iterable[Any],
        timeout: float | None = None,
    ) -> Iterator[T]: ...
    def map(self, fn: Callable[..., T], *iterables: Iterable[Any], timeout: float | None = None) -> Iterator[T]:
        """Submit all calls now and iterate over their results in order.

        Closing the iterator early cancels the calls that have not begun. Parks: until the next result
        (``future.result``); also like ``submit``. Raises: a call's error in place of its result; TimeoutError
        ``timeout`` seconds after this call; the errors of ``submit``.
        """
        if not iterables:
            raise TypeError("map needs at least one iterable, whose items are the arguments")
        left = time_left(timeout)
        return results_in_order([self.submit(fn, *args) for args in zip(*iterables, strict=False)], left)

    def imap_unordered(
        self, fn: Callable[[S], T], iterable: Iterable[S], look_ahead: int | None = None, timeout: float | None = None
    ) -> Iterator[T]:
        """Iterate over the results of ``fn(item)`` in order of completion.

        ``look_ahead``: the largest number of submitted calls whose results have not been read, by default the number of
        calls that can run at once. Closing the iterator early cancels the calls that have not begun. Parks: until the
        next result (``queue.get``). Raises: a call's error in place of its result; TimeoutError ``timeout`` seconds
        after this call; TypeError, ValueError.
        """
        ahead = self._limit if look_ahead is None else check_count("look_ahead", look_ahead)
        self._workers.check(fn)
        return results_as_completed(self.submit, fn, iter(iterable), ahead, time_left(timeout))

    def shutdown(self, wait: bool = True, cancel: bool = False, timeout: float | None = None) -> None:
        """Reject further calls. When the accepted calls have ended, cancel their leftover dhagas, and end the threads.

        ``cancel``: drop pending calls, and raise ``Cancelled`` in running calls at their current or next park. Parks:
        until the threads have ended, if ``wait`` (``join``, ``stop NAME``). Raises: TimeoutError with the unfinished
        calls in its text; RuntimeError in a call of this pool, which would wait for itself.
        """
        if wait and not self._workers.in_parent:
            self._check_caller()
        check_seconds(timeout)
        self._workers.close()
        if cancel:
            self._workers.cancel()
        if wait and not self._workers.in_parent:
            self._workers.join(timeout)

    def _check_caller(self) -> None:
        """Check that the caller can wait for the end of this pool. Raises: RuntimeError, ParkError."""
        scheduler = scheduler_of_caller()
        if any(group.scheduler is scheduler for group in self._workers.groups):
            raise RuntimeError(f"{self!r} cannot be waited for from within: shutdown(wait=False)")
        this_waiter()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.shutdown(cancel=kind is not None and not issubclass(kind, Exception))

    def __del__(self) -> None:
        workers = getattr(self, "_workers", None)
        if workers is not None:  # dropped without shutdown(); accepted calls still run, then the threads end
            workers.close()


def results_in_order(futures: list[Any], left: Callable[[], float | None]) -> Iterator[Any]:
    """Yield the results in the order of the list. An early close cancels calls that have not begun."""
    futures.reverse()
    try:
        while futures:
            futures[-1].exception(left())
            yield futures.pop().result()
    finally:
        for future in futures:
            future._cancel_unbegun()


def results_as_completed(
    submit: Callable[..., Future[T]], fn: Callable[..., T], items: Iterator[Any], ahead: int, left: Callable[[], Any]
) -> Iterator[T]:
    """Yield results in order of completion, at most ``ahead`` calls at once. An early close cancels pending calls."""
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
            future._cancel_unbegun()


def start_all(schedulers: Iterable[Scheduler]) -> list[Scheduler]:
    """Start all schedulers. If the start of one fails, stop the schedulers that were started."""
    running: list[Scheduler] = []
    try:
        for scheduler in schedulers:
            running.append(scheduler.start())
    except BaseException:
        for scheduler in running:
            scheduler.stop()
        raise
    return running
