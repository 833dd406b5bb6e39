"""Offloading: a blocking call runs in an OS thread while its caller is parked.

``offload`` uses a pool that the whole program shares. An ``OffloadPool`` has its own threads, so that its calls wait
only for each other. For example, the commits of a database with its own pool do not wait for other calls. Dhaga's name
lookups have their own pool, so that no other call waits for a slow lookup.

``offloaded_call.py`` has the class of a call, in which the caller parks. ``worker_threads.py`` has the threads and the
backlog. ``_iowait/dns.py`` and ``_iowait/offloaded_file.py`` offload calls. ``dhaga_pool.py`` has pools of dhagas.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar

from .._kernel import hooks, originals, outside
from .._kernel.faces.arguments import check_function, check_seconds
from .._kernel.faces.foreign_names import refuse_async_with
from .._kernel.helper_threads import GONE_SECONDS, wait_until_gone
from .._kernel.platform.system import system
from .._kernel.process import process_exit
from .._kernel.wait.current import this_waiter
from .._kernel.wait.thread_waiter import OSThread
from .._kernel.wait.waiter import Waiter, logger
from .._kernel.weak_sets import members
from .offloaded_call import ThreadCall, outside_call
from .switch_interval import switch_interval
from .worker_threads import Workers, WorkerThread

P = ParamSpec("P")
R = TypeVar("R")

MAX_THREADS = 16
"""Maximum number of threads of a shared pool. Further calls wait in the backlog.

On a few cores, more threads do not make reads and fsync faster.
"""


@refuse_async_with()
class OffloadPool:
    """A pool of at most ``threads`` OS threads for blocking calls, with a FIFO backlog.

    With one thread, the calls of all callers are made one after the other. Threads start on demand, and end after
    ``IDLE_SECONDS`` without a call. At interpreter exit, all accepted calls together get ``EXIT_SECONDS``. Calls that
    have not ended by then are logged. A forked child has no threads and no calls. Raises: TypeError, ValueError.
    """

    def __init__(self, name: str, threads: int) -> None:
        if not isinstance(name, str) or not isinstance(threads, int) or isinstance(threads, bool):
            raise TypeError(
                f'an OffloadPool needs a name and a number of threads, OffloadPool("wal", threads=1), not'
                f" {name!r} and {threads!r}"
            )
        if not name or threads < 1:
            raise ValueError(f"an OffloadPool needs a name, not {name!r}, and at least one thread, not {threads}")
        self.name = name
        self.awaited_at_exit: bool = True
        """Whether the end of the program waits for the calls of this pool."""
        self.park_reason: str = f"offload {name}"
        self.workers: Workers = Workers(self, threads)
        pools.add(self)

    def __repr__(self) -> str:
        return repr(self.workers)

    def offload(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run a blocking call in a thread of this pool, in a copy of the caller's context. Return or raise its outcome.

        A cancel or a ``Timeout`` ends the park at once. A pending call is then dropped. A running call continues, and
        its result is dropped. If the caller is a thread of this pool, it makes the call inline. If the caller is a
        dhaga with the priority HIGH, the thread also gets the interpreter lock sooner (``SwitchInterval``,
        ``START_SECONDS``).

        Parks: until the call returns (``offload NAME``); a plain OS thread blocks. Raises: TypeError; ParkError;
        RuntimeError after ``shutdown``; the error of the call.
        """
        check_function(fn, "offload")
        me = this_waiter()
        kind = self._thread_class_for(me)
        if kind is None:
            return fn(*args, **kwargs)
        call = ThreadCall(self.workers, fn, args, kwargs)
        return call.outcome_for(me, kind, self.park_reason)  # type: ignore[no-any-return]

    def finish(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run a blocking call as ``offload`` does, but do not let a cancel end the park.

        Use ``finish`` where the call's outcome must be known. Parks: until the call returns (``offload NAME``); a
        cancel stays pending until the next park. Raises: as ``offload`` does.
        """
        check_function(fn, "offload")
        me = this_waiter()
        kind = self._thread_class_for(me)
        if kind is None:
            return fn(*args, **kwargs)
        call = ThreadCall(self.workers, fn, args, kwargs)
        return call.outcome_in_spite_of_cancels(me, kind, self.park_reason)  # type: ignore[no-any-return]

    def offloaded(self, fn: Callable[P, R], /) -> Callable[P, R]:
        """Decorate a function or method so that each call is offloaded to this pool: ``@wal.offloaded``."""
        return offloading_wrapper(self.offload, fn)

    def _thread_class_for(self, me: Waiter) -> type[WorkerThread] | None:
        return thread_class_for(self, me)

    # ---- the end

    def shutdown(self, wait: bool = True, timeout: float | None = None) -> None:
        """Reject further calls, make the accepted calls, and end the threads. The end of a ``with`` block also does so.

        Parks: if ``wait`` is true, until the threads have ended (``shutdown NAME``); an OS thread blocks. From: any
        thread, any number of times. Raises: TimeoutError after ``timeout`` seconds, with the unfinished calls in its
        text; RuntimeError in a call of this pool.
        """
        me = this_waiter() if wait else None
        kind = None if me is None else thread_class_for(self, me)
        if me is not None and kind is None:
            raise RuntimeError(f"{self!r} cannot wait for the call that shuts it down: shutdown(wait=False)")
        check_seconds(timeout)
        threads = self.workers.close()
        if me is None or kind is None:
            return
        with outside_call(me, kind):
            self.workers.wait_for_end(timeout)
        # The last calls have ended, but the OS threads end only a few microseconds later.
        for thread in threads:
            if thread.ident is not None:  # None if the thread could not be started
                thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.shutdown()


class SharedPool(OffloadPool):
    """A pool that the program shares. Interpreter exit does not wait for its calls.

    If the caller is a plain OS thread, it makes the call inline.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name, MAX_THREADS)
        self.park_reason = "offload"
        self.awaited_at_exit = False

    def _thread_class_for(self, me: Waiter) -> type[WorkerThread] | None:
        return None if isinstance(me, OSThread) else super()._thread_class_for(me)


def thread_class_for(pool: OffloadPool, me: Waiter) -> type[WorkerThread] | None:
    """Return the class of the threads that make a waiter's calls, or None if the waiter makes its calls inline.

    In a simulation the threads are dhagas.
    """
    pool_thread = outside.pool_thread
    kind: type[WorkerThread] = WorkerThread if pool_thread is None else pool_thread(me) or WorkerThread
    return None if kind.calls_inline(pool, me) else kind


pools: weakref.WeakSet[OffloadPool] = weakref.WeakSet()
shared = SharedPool("dhaga-offload")


def offload(fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
    """Run a blocking call in an OS thread. Return its result or raise its error. If the caller is a plain OS thread, it
    makes the call inline.

    The program shares ``MAX_THREADS`` threads. At interpreter exit, a call for which no caller waits is dropped.
    Offloading takes 160 µs per call, half of it CPU time. So do not offload calls that take less than 100 µs. In a
    published benchmark, writes to a key-value store were 46 % slower through a pool of threads. With 100 concurrent
    callers, offloading is faster than direct calls if a call takes at least 70 µs. With calls of 1 ms, offloading is 13
    times as fast, and other dhagas wait for 0.1 ms instead of 111 ms (benchmarks/offload.py).

    Parks: until the call returns (``offload``). Raises: TypeError; ParkError; RuntimeError if no OS thread can be
    started; the error of the call.

    >>> offload(pow, 2, 10)
    1024
    """
    return shared.offload(fn, *args, **kwargs)


def offloaded(fn: Callable[P, R], /) -> Callable[P, R]:
    """Decorate a function or method so that each call is offloaded: ``@offloaded``.

    >>> slow_pow = offloaded(pow)
    >>> slow_pow(2, 10)
    1024
    """
    return offloading_wrapper(offload, fn)


def offloading_wrapper(offload: Callable[..., Any], fn: Callable[P, R]) -> Callable[P, R]:
    check_function(fn, "offload")

    @functools.wraps(fn)
    def offloading(*args: P.args, **kwargs: P.kwargs) -> R:
        return offload(fn, *args, **kwargs)  # type: ignore[no-any-return]

    return offloading


def wait_for_calls() -> None:
    """Wait for the calls of pools with ``awaited_at_exit``, so that interpreter exit does not end a commit halfway."""
    deadline = originals.monotonic() + process_exit.EXIT_SECONDS
    for pool in [pool for pool in members(pools) if pool.awaited_at_exit]:
        try:
            pool.shutdown(timeout=max(0.0, deadline - originals.monotonic()))
        except TimeoutError as error:
            logger.error("at exit: %s", error)


def end_idle_threads() -> None:
    """End the idle threads before a fork. These threads do no harm, but CPython 3.12 and later warn if a process with
    several threads forks.
    """
    deadline = originals.monotonic() + GONE_SECONDS
    while any(pool.workers.is_settling() for pool in members(pools)) and originals.monotonic() < deadline:
        originals.thread_sleep(0.0001)
    for thread in [thread for pool in members(pools) for thread in pool.workers.end_idle_threads()]:
        wait_until_gone(thread.native_id)


def reset_pools_in_child() -> None:
    switch_interval.reset()
    for pool in members(pools):
        pool.workers.reset()


system.register_at_fork(before=end_idle_threads, after_in_child=reset_pools_in_child)
hooks.after_dhagas_at_exit.append(wait_for_calls)
