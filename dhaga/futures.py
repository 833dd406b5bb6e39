"""The standard ``concurrent.futures`` on dhagas: Future, Executor, and the functions ``wait`` and ``as_completed``,
which park.

Future is defined in ``_workers/future.py``. ``_workers/dhaga_pool.py`` assigns calls to workers. ``pool.py`` runs calls
in several OS threads.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import (
    ALL_COMPLETED,
    FIRST_COMPLETED,
    FIRST_EXCEPTION,
    BrokenExecutor,
    CancelledError,
    InvalidStateError,
)
from typing import Any, ParamSpec, TypeVar

from ._kernel import originals
from ._kernel.errors import ParkError
from ._kernel.faces.arguments import check_count, check_seconds
from ._kernel.process.current_scheduler import current_scheduler
from ._kernel.run.scheduler import Scheduler
from ._kernel.wait.current import this_waiter
from ._sync.completion import as_completed, wait
from ._sync.event import Event
from ._workers.dhaga_pool import WorkerPool
from ._workers.future import Future
from .pool import Pool

__all__ = [
    "ALL_COMPLETED", "FIRST_COMPLETED", "FIRST_EXCEPTION", "BrokenExecutor", "CancelledError", "Executor", "Future",
    "InvalidStateError", "as_completed", "wait",
]  # fmt: skip

P = ParamSpec("P")
T = TypeVar("T")


class LocalWaiters(list[Any]):
    """The list ``_waiters`` of a Future whose call runs on its submitter's scheduler. It refuses the standard ``wait``.

    The standard ``wait`` would block the OS thread that must run the call, so ``wait`` would never return. In a patched
    program, the standard waiters use our ``Event``, which parks, and are accepted.
    """

    __slots__ = ("ident",)

    def __init__(self, scheduler: Scheduler) -> None:
        self.ident: int = scheduler.thread_ident

    def append(self, waiter: Any) -> None:
        if self.ident == originals.get_ident() and not isinstance(waiter.event, Event):
            raise RuntimeError(
                "the standard wait() and as_completed() would block the OS thread that is to make these calls:\nuse "
                "those of dhaga.futures, or an Executor over a Pool"
            )
        super().append(waiter)


class Executor(concurrent.futures.Executor):
    """An executor whose workers are dhagas. Source: ``concurrent.futures.Executor``.

    The executor uses the workers of ``pool``. Without a pool, it uses up to ``dhagas`` workers on the scheduler of each
    submitter. Such workers run while the submitter parks or its OS thread runs the loop, but not while a standard
    primitive blocks this thread. ``shutdown``, and the end of a ``with`` block, wait for the calls of this executor;
    ``pool`` stays open.

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

        Parks: like ``Pool.submit``. Raises: TypeError, RuntimeError after ``shutdown``.
        """
        if self._closed:
            raise RuntimeError("cannot schedule new futures after shutdown")
        future: Future[T] = Future()
        future._done_callbacks.append(self._futures.discard)  # add_done_callback() would acquire a lock
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
        """Submit all calls now and iterate over their results in order. Source: ``concurrent.futures.Executor.map``."""
        check_seconds(timeout)
        return super().map(fn, *iterables, timeout=timeout, **options)

    def _workers_on(self, scheduler: Scheduler) -> WorkerPool:
        workers = self._worker_pools.get(scheduler)
        if workers is None:
            for each in list(self._worker_pools.keys()):
                if not each.thread_ident:  # the scheduler has ended
                    self._worker_pools.pop(each, None)
            workers = self._worker_pools[scheduler] = WorkerPool([scheduler], self._dhagas)
        return workers

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Reject further calls. ``cancel_futures``: cancel calls that have not begun.

        Parks: until the calls have ended, if ``wait``. Raises: ParkError in a coroutine, if calls have not ended.
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
            with contextlib.suppress(ParkError):  # a coroutine does not wait; idle workers end by themselves
                self._join_workers()

    def _join_workers(self) -> None:
        workers = self._worker_pools.get(getattr(this_waiter(), "scheduler", None))  # type: ignore[arg-type]
        if workers is not None:
            workers.join(None)
