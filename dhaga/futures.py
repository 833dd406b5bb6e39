"""The standard ``concurrent.futures`` on dhagas: Future, ``wait`` and ``as_completed`` that park, and Executor.

A Future is pending, running (``_worker`` is the dhaga that makes its call), or ended: finished or cancelled. All
changes happen under the one ``guard`` of ``_workers/dhaga_pool.py``; waiters are woken and callbacks called after it is
released. A waiter queues up first and looks at the state a second time, so it needs no guard. The standard ``wait`` and
``as_completed`` work as well, since a Future has the private attributes that they use.

Which worker makes a call: ``_workers/dhaga_pool.py``. Calls in several OS threads: ``pool.py``.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import (
    ALL_COMPLETED,
    FIRST_COMPLETED,
    FIRST_EXCEPTION,
    BrokenExecutor,
    CancelledError,
    InvalidStateError,
)
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from greenlet import getcurrent

from ._kernel import originals
from ._kernel.arguments import check_seconds, check_wait_timeout
from ._kernel.current import this_waiter
from ._kernel.current_scheduler import current_scheduler
from ._kernel.errors import ParkError
from ._kernel.scheduler import Scheduler
from ._kernel.wait_queue import COMPACT_ABOVE
from ._kernel.waiter import Waiter
from ._sync.completion import as_completed, wait
from ._workers.dhaga_pool import PoolWorker, WorkerPool, guard

if TYPE_CHECKING:
    from .pool import Pool

__all__ = [
    "ALL_COMPLETED",
    "FIRST_COMPLETED",
    "FIRST_EXCEPTION",
    "BrokenExecutor",
    "CancelledError",
    "Executor",
    "Future",
    "InvalidStateError",
    "as_completed",
    "wait",
]

P = ParamSpec("P")
T = TypeVar("T")

PENDING, RUNNING, FINISHED = "PENDING", "RUNNING", "FINISHED"
CANCELLED, NOTIFIED = "CANCELLED", "CANCELLED_AND_NOTIFIED"
ENDED = (CANCELLED, NOTIFIED, FINISHED)


class Future(concurrent.futures.Future[T]):
    """The outcome of a call to come. Source: ``concurrent.futures.Future``, its base; ``cancel`` differs.

    ``result`` and ``exception`` park a dhaga and block a plain OS thread. A coroutine awaits the Future; its own cancel
    cancels the call.
    """

    _condition = threading.Condition(guard)  # the standard wait() and as_completed() acquire it
    _state = PENDING
    _result: Any = None
    _exception: BaseException | None = None
    _traceback: Any = None
    _worker: PoolWorker | None = None

    def __init__(self) -> None:
        self._joiners: list[list[Waiter]] = []
        self._left_joiners = 0
        self._waiters: list[Any] = []
        self._done_callbacks: list[Callable[[Any], object]] = []

    def __repr__(self) -> str:
        state = "CANCELLED" if self.cancelled() else self._state
        result = ""
        if state == FINISHED:
            error = self._exception
            result = f" raised {type(error).__name__}" if error else f" returned {type(self._result).__name__}"
        parked = f", {sum(map(bool, self._joiners))} parked" if self._joiners else ""
        return f"<Future {state}{f' in {self._worker.name}' if self._worker else result}{parked}>"

    def result(self, timeout: float | None = None) -> T:
        """Wait for the end of the call; return its value or raise its exception.

        Parks: while it has not ended (``future.result``). Raises: TimeoutError, CancelledError, RuntimeError in the
        call itself.
        """
        if self._state not in ENDED:
            self._wait_for_end(timeout)
        if self._exception is not None:
            try:
                # From the traceback that the call ended with: it would grow by each call of this otherwise.
                raise self._exception.with_traceback(self._traceback)
            finally:
                del self  # the traceback holds this frame, which would be a cycle
        if self._state != FINISHED:
            raise CancelledError
        return self._result  # type: ignore[no-any-return]

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Wait for the end of the call; return its exception, None if it has returned.

        Parks: as ``result``. Raises: TimeoutError, CancelledError.
        """
        if self._state not in ENDED:
            self._wait_for_end(timeout)
        if self._state != FINISHED:
            raise CancelledError
        return self._exception

    def _wait_for_end(self, timeout: float | None) -> None:
        if self._worker is not None and self._worker is getcurrent():
            raise RuntimeError(f"{self!r} is waited for by the call that it stands for: that would never end")
        if timeout is not None:
            check_wait_timeout(timeout)
            if timeout <= 0:
                raise TimeoutError(f"{self!r} has not ended")
        me = this_waiter()
        me._prepare("future.result", self)
        self._joiners.append(me._parked)
        # Second look: the call may have ended in another OS thread just before the append.
        if self._state in ENDED:
            self._wake_joiners()
        me._park(timeout)

    def _remove(self, waiter: Waiter | None) -> None:
        """Count a waiter that is about to leave. Once half have left their tickets are dropped: O(1) each in all."""
        joiners = self._joiners
        self._left_joiners += 1
        if self._left_joiners > COMPACT_ABOVE and self._left_joiners * 2 > len(joiners):
            joiners[:] = filter(None, joiners)  # one call of C functions: no other OS thread comes between
            self._left_joiners = 0

    def _wake_joiners(self) -> None:
        if len(self._joiners) > 1:
            self._joiners.reverse()
        while self._joiners:
            try:
                waiter = self._joiners.pop().pop()
            except IndexError:  # it has left, or another OS thread took the last one
                continue
            waiter._resume()

    def __await__(self) -> Generator[Any, None, T]:
        """Wait for the result in a coroutine of any loop. A cancel of the coroutine cancels the call."""
        return asyncio.wrap_future(self).__await__()

    def cancel(self) -> bool:
        """Cancel the call: one that has not begun is not made; one that runs gets ``Cancelled`` at its next park.

        Parks: never. From: any thread. Returns: whether the Future is cancelled now: False for a running call, which
        may clean up first, or return a value all the same. Source: the standard does no more than return False then.
        """
        if self._cancel_unbegun():
            return True
        worker = self._worker
        if worker is not None:
            worker.scheduler._call(worker.cancel_call, self)
        return False

    def _cancel_unbegun(self) -> bool:
        """Cancel the call if it has not begun, as the standard does. Returns: whether it is cancelled."""
        with guard:
            if self._state != PENDING:
                return self.cancelled()
            self._end(NOTIFIED)
        self._notify()
        return True

    def _begin(self, worker: PoolWorker | None) -> bool:
        """Mark the call as running. Returns: False if it was cancelled before. Under the guard."""
        if self._state == PENDING:
            self._state = RUNNING
            if worker is not None:
                self._worker = worker
                worker._call_future = self
            return True
        if self.cancelled():
            return False
        raise InvalidStateError(f"{self!r} has begun before")

    def set_running_or_notify_cancel(self) -> bool:
        """Mark the call as running. Returns: False if it was cancelled before. From: the maker of the call."""
        with guard:
            return self._begin(None)

    def set_result(self, result: T) -> None:
        """End with a value. From: the maker of the call."""
        with guard:
            self._end(FINISHED, result)
        if self._joiners or self._done_callbacks:
            self._notify()

    def set_exception(self, exception: BaseException | None) -> None:
        """End with an error. From: the maker of the call."""
        with guard:
            self._end(FINISHED, None, exception)
        self._notify()

    def _end_cancelled(self) -> None:
        """End as cancelled: the call has raised ``Cancelled``."""
        with guard:
            self._end(NOTIFIED)
        self._notify()

    def _end(self, state: str, result: Any = None, exception: BaseException | None = None) -> None:
        """Change to an ended state and notify ``wait`` and ``as_completed``. Under the guard."""
        if self._state in ENDED:
            raise InvalidStateError(f"{self!r} has ended before")
        self._result = result
        self._exception = exception
        if exception is not None:
            self._traceback = exception.__traceback__
        self._state = state
        if self._worker is not None:
            self._worker._call_future = None
            self._worker = None
        for queue in self._waiters:
            tell = queue.add_result if state == FINISHED and exception is None else queue.add_exception
            (queue.add_cancelled if state == NOTIFIED else tell)(self)

    def _notify(self) -> None:
        """Wake the waiters and call the callbacks. Without the guard, as callbacks are code of the program."""
        self._wake_joiners()
        if self._done_callbacks:
            self._invoke_callbacks()  # type: ignore[attr-defined]

    def _fail_in_child(self) -> None:
        """End in a forked child: worker and waiters are in the parent, so none is woken."""
        self._exception = BrokenExecutor("the call stayed in the parent process")
        self._state = FINISHED
        self._worker = None


class LocalWaiters(list[Any]):
    """The ``_waiters`` of a call for the caller's own scheduler, where a standard ``wait`` would never end."""

    __slots__ = ("ident",)

    def __init__(self, scheduler: Scheduler) -> None:
        self.ident: int = scheduler._thread_ident

    def append(self, waiter: Any) -> None:
        if self.ident == originals.get_ident():
            raise RuntimeError(
                "the standard wait() and as_completed() would block the OS thread that is to make these calls: take "
                "those of dhaga.futures, or an Executor over a Pool"
            )
        super().append(waiter)


# ---- the executor


def check_count(what: str, count: int) -> int:
    """Return a count that must be at least 1. Raises: TypeError, ValueError."""
    if not isinstance(count, int):
        raise TypeError(f"{what} is a number of them, not {count!r}")
    if count < 1:
        raise ValueError(f"{what} must be 1 or more, not {count}")
    return count


class Executor(concurrent.futures.Executor):
    """The standard executor interface to worker dhagas. Source: ``concurrent.futures.Executor``.

    With a ``Pool``, its workers; else up to ``dhagas`` workers on the scheduler of each submitter, which run while that
    OS thread parks or runs its loop, not while a standard primitive blocks it. The end of a ``with`` block, and
    ``shutdown``, wait for the calls of this executor; a pool stays open.

    >>> with Executor() as executor: executor.submit(pow, 2, 10).result()
    1024
    """

    def __init__(self, pool: Pool | None = None, dhagas: int = 1000) -> None:
        self._pool = pool
        self._dhagas = check_count("dhagas", dhagas)
        self._worker_pools: dict[Scheduler, WorkerPool] = {}
        self._futures: set[Future[Any]] = set()
        self._closed = False

    def __repr__(self) -> str:
        where = "the scheduler of the caller" if self._pool is None else repr(self._pool)
        return f"<Executor over {where}, {len(self._futures)} calls{', shut down' if self._closed else ''}>"

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Submit ``fn(*args, **kwargs)``, which a worker calls in a copy of the caller's context.

        Parks: as ``Pool.submit``. Raises: TypeError, RuntimeError after ``shutdown``.
        """
        if self._closed:
            raise RuntimeError("cannot schedule new futures after shutdown")
        future: Future[T] = Future()
        future._done_callbacks.append(self._futures.discard)  # add_done_callback() would take the guard for it
        self._futures.add(future)
        try:
            if self._pool is None:
                scheduler = current_scheduler()
                future._waiters = LocalWaiters(scheduler)
                self._workers_on(scheduler).submit(future, fn, args, kwargs)
            else:
                self._pool._workers.submit(future, fn, args, kwargs)
        except BaseException:
            self._futures.discard(future)
            raise
        return future

    def map(
        self, fn: Callable[..., T], *iterables: Iterable[Any], timeout: float | None = None, **options: Any
    ) -> Iterator[T]:
        """Submit all calls now and iterate over their results in order. Source: the standard's, which this calls."""
        check_seconds(timeout)
        return super().map(fn, *iterables, timeout=timeout, **options)

    def _workers_on(self, scheduler: Scheduler) -> WorkerPool:
        workers = self._worker_pools.get(scheduler)
        if workers is None:
            self._worker_pools = {each: workers for each, workers in self._worker_pools.items() if each._thread_ident}
            workers = self._worker_pools[scheduler] = WorkerPool([scheduler], self._dhagas)
        return workers

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more calls. ``cancel_futures``: calls that have not begun are not made.

        Parks: if ``wait``, until the calls have ended. Raises: ParkError in a coroutine.
        """
        self._closed = True
        if cancel_futures:
            for future in list(self._futures):
                future._cancel_unbegun()
        for workers in list(self._worker_pools.values()):
            workers.close()
        if wait:
            for future in list(self._futures):
                with contextlib.suppress(CancelledError):
                    future.exception()
            with contextlib.suppress(ParkError):  # in a coroutine: idle workers end by themselves
                self._join_workers()

    def _join_workers(self) -> None:
        workers = self._worker_pools.get(getattr(this_waiter(), "scheduler", None))  # type: ignore[arg-type]
        if workers is not None:
            workers.join(None)
