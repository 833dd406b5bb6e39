"""Offload: run a blocking call in an OS thread while its caller is parked.

``offload`` uses a pool shared by the whole program. An ``OffloadPool`` has its own threads, so that its calls wait only
for each other. Commits of a store must not wait for other calls, and no call may wait for slow name look-ups.

A call is in the backlog (``_calls``), in a thread, or answered. A thread is busy, or idle with its gate closed
(``_idle``; the last one is woken first, so that the others reach ``IDLE_SECONDS`` and end). ``_guard``, an OS lock held
for a few lines, protects all three and ``_closed``. A submitting caller wakes an idle thread, or starts one below the
limit. Each thread takes calls until the backlog is empty: so if a thread cannot be started, another one makes the call.
The answer and a cancel race for ``ThreadCall.callers``, not for the guard.

Rejected: a condition variable for idle threads. It wakes threads in FIFO order, so that all of them stay alive.

Not here: the users of offload (``_iowait/dns.py``, ``_iowait/offloaded_file.py``), one call and one
thread (``offloaded_call.py``), pools of dhagas (``dhaga_pool.py``).
"""

from __future__ import annotations

import functools
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar

from .._kernel import hooks, originals
from .._kernel.context_manager import contextmanager
from .._kernel.faces.arguments import check_function, check_seconds
from .._kernel.faces.foreign_names import refuse_async_with
from .._kernel.helper_threads import BLOCKED, GONE_SECONDS, wait_until_gone
from .._kernel.platform.system import system
from .._kernel.process import shutdown
from .._kernel.wait import deadlock
from .._kernel.wait.current import this_waiter
from .._kernel.wait.thread_waiter import OSThread
from .._kernel.wait.wait_queue import WaitQueue
from .._kernel.wait.waiter import TIMED_OUT, Waiter, logger
from .._kernel.weak_sets import members
from .offloaded_call import ThreadCall, WorkerThread, is_started, thread_class_for
from .switch_interval import switch_interval

P = ParamSpec("P")
R = TypeVar("R")

MAX_THREADS = 16
"""Threads of the shared pool; further calls queue up. Reads and fsync gain nothing from more on a few cores."""

IDLE_SECONDS = 10.0
"""An idle thread of a pool ends after this time."""


@refuse_async_with()
class OffloadPool:
    """At most ``threads`` OS threads for blocking calls, and a FIFO backlog.

    With one thread, the calls of all callers are made one after the other. Threads start on demand and end after
    ``IDLE_SECONDS`` without a call. At interpreter exit the accepted calls have ``EXIT_SECONDS`` in total; calls that
    do not end by then are logged. A forked child has no threads and no calls. Raises: TypeError, ValueError.
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
        self._limit = threads
        self.park_reason: str = f"offload {name}"
        self._closed = False
        self._reset()
        pools.add(self)

    def _reset(self) -> None:
        """Set up without calls and threads: at first, and in a forked child."""
        self._guard = originals.allocate_lock()
        self._calls: OrderedDict[ThreadCall, None] = OrderedDict()  # one of many is withdrawn in O(1)
        self._threads: set[WorkerThread] = set()
        self._idle: list[WorkerThread] = []
        self._shutdown_waiters = WaitQueue(self, f"shutdown {self.name}")

    def __repr__(self) -> str:
        state = ", shut down" if self._closed else ""
        return (
            f"<OffloadPool {self.name}, {len(self._threads)} of {self._limit} threads, {len(self._idle)} free, "
            f"{len(self._calls)} calls due{state}>"
        )

    def offload(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run a blocking call in a thread of this pool, in a copy of the caller's context; return or raise its outcome.

        Parks: until the call returns (``offload NAME``); a plain OS thread blocks. A cancel or a ``Timeout`` ends the
        park at once: a pending call is dropped; a running one goes on, and its result is dropped. From a thread of this
        pool the call is made inline. For a HIGH dhaga the thread also gets the interpreter lock sooner
        (``SwitchInterval``, ``START_SECONDS``). Raises: TypeError, ParkError, RuntimeError after ``shutdown``.
        """
        check_function(fn, "offload")
        me = this_waiter()
        kind = thread_class_for(me)
        if self._calls_inline(me, kind):
            return fn(*args, **kwargs)
        call = ThreadCall(self, fn, args, kwargs, me)
        me.prepare_park(self.park_reason, call)
        return self._run(call, me, kind)  # type: ignore[no-any-return]

    def finish(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run a blocking call as ``offload`` does, for a caller that must know its outcome.

        Parks: until the call returns; a cancel stays pending until the next park. Else as ``offload``.
        """
        check_function(fn, "offload")
        me = this_waiter()
        kind = thread_class_for(me)
        if self._calls_inline(me, kind):
            return fn(*args, **kwargs)
        me.prepare_uncancellable(self.park_reason)
        return self._run(ThreadCall(self, fn, args, kwargs, me), me, kind)  # type: ignore[no-any-return]

    def offloaded(self, fn: Callable[P, R], /) -> Callable[P, R]:
        """Decorate a function or method so that each call is offloaded to this pool: ``@wal.offloaded``."""
        return offloading_wrapper(self.offload, fn)

    def _calls_inline(self, me: Waiter, kind: type[WorkerThread]) -> bool:
        """Return whether the caller calls inline, as a thread of this pool does."""
        return kind.calls_inline(self, me)

    def _run(self, call: ThreadCall, me: Waiter, kind: type[WorkerThread]) -> Any:
        """Submit a call, park and return its outcome. The caller is prepared for the park already.

        ``kind``: the class of the threads that make the caller's calls.
        """
        by_os_thread = kind is WorkerThread
        if by_os_thread:
            call.prepare(me)
        failure: BaseException | None = None
        try:
            if self._submit(call, kind) and by_os_thread:
                call.await_start()
        except BaseException as error:
            # Answered like any call: the caller is prepared for a park, and must park to become a running waiter again.
            failure = error
            self._withdraw(call)
            call.answer()
        try:
            with outside_call(me, kind):
                me.park_until_woken()
        finally:
            call.end_urgency()
            call.detach()  # no-op if the call was answered; a second Ctrl-C ends any park
        if failure is None:
            return call.outcome()
        try:
            raise failure
        finally:
            del failure  # its traceback holds this frame: that would be a cycle

    # ---- calls and threads

    def _submit(self, call: ThreadCall, kind: type[WorkerThread]) -> bool:
        """Append a call to the backlog. ``kind``: the class of the thread that it may need.

        Returns: whether an idle thread was woken for it.
        Raises: RuntimeError after shutdown, or if no thread can be started for it; a signal handler's error, raised
        while a thread starts. In the latter case the call may be in the backlog, or in a thread.
        """
        with self._guard:
            if self._closed:
                raise RuntimeError(f"{self!r} takes no more calls")
            self._calls[call] = None
            if self._idle:
                self._wake_idle_thread()
                return True
            if len(self._threads) == self._limit:
                return False
            thread = kind(self)
            self._threads.add(thread)
        try:
            thread.start()
        except BaseException as error:
            if is_started(thread):
                raise
            # The call is not lost if another thread is left: that thread takes the call, or also fails to start.
            left_behind = self._forget(thread)
            for other in left_behind:
                if other is not call:
                    other.fail(RuntimeError(f"no thread of {self!r} could be started: {error}"))
            if call in left_behind:
                raise
        return False

    def _forget(self, thread: WorkerThread) -> list[ThreadCall]:
        """Remove a thread that could not be started. Returns: the calls that no other thread is left to take."""
        with self._guard:
            self._threads.discard(thread)
            left_behind = [] if self._threads else list(self._calls)
            if left_behind:
                self._calls.clear()
        self._wake_shutdown_waiters()
        return left_behind

    def _wake_idle_thread(self) -> None:
        """Open the gate of the thread that went idle last. From: the holder of the guard."""
        thread = self._idle.pop()
        deadlock.idle.discard(thread.ident or 0)
        thread.gate.release()

    def _withdraw(self, call: ThreadCall) -> bool:
        """Remove a call from the backlog. Returns: False if a thread has begun it."""
        with self._guard:
            return self._calls.pop(call, call) is None

    def _next_call(self, thread: WorkerThread) -> ThreadCall | None:
        """Wait for the next call. Returns: None if the thread is to end."""
        while thread in self._threads:  # not in a child that the last call has forked
            with self._guard:
                if self._calls:
                    return self._calls.popitem(last=False)[0]
                if self._closed:
                    self._threads.discard(thread)
                    break
                self._idle.append(thread)
                deadlock.mark_idle(originals.get_ident())
            thread.take_mask(BLOCKED)
            if not thread.gate.acquire(timeout=IDLE_SECONDS):
                self._end_if_idle(thread)
        self._wake_shutdown_waiters()
        return None

    def _end_if_idle(self, thread: WorkerThread) -> None:
        """End a thread after its idle time; no-op if it was woken meanwhile. Callers see the thread either idle or
        gone.
        """
        with self._guard:
            if thread in self._idle:
                self._idle.remove(thread)
                deadlock.idle.discard(originals.get_ident())
                self._threads.discard(thread)

    def _is_settling(self) -> bool:
        """Return whether a thread has made its call, and is not idle yet. From: any thread; a snapshot."""
        idle = list(self._idle)
        busy = [thread.call for thread in list(self._threads) if thread not in idle]
        return any(call is None or call.function is None for call in busy)

    def _end_idle_threads(self) -> list[WorkerThread]:
        """End the threads that have no call. Returns: them. From: a fork, while another call may hold the guard."""
        if not self._guard.acquire(timeout=GONE_SECONDS):
            return []
        try:
            ended = list(self._idle)
            while self._idle:
                self._threads.discard(self._idle[-1])
                self._wake_idle_thread()
            return ended
        finally:
            self._guard.release()

    def _wake_shutdown_waiters(self) -> None:
        if not self._threads:
            self._shutdown_waiters.wake_all()

    # ---- the end

    def shutdown(self, wait: bool = True, timeout: float | None = None) -> None:
        """Reject further calls, make the accepted ones, end the threads; so does the end of ``with OffloadPool(...)``.

        Parks: if ``wait``, until the threads have ended (``shutdown NAME``); an OS thread blocks. From: any thread,
        any number of times. Raises: TimeoutError naming the running calls after ``timeout`` seconds, RuntimeError in a
        call of this pool.
        """
        me = this_waiter() if wait else None
        kind = WorkerThread if me is None else thread_class_for(me)
        if me is not None and kind.calls_inline(self, me):
            raise RuntimeError(f"{self!r} cannot wait for the call that shuts it down: shutdown(wait=False)")
        check_seconds(timeout)
        with self._guard:
            self._closed = True
            threads = list(self._threads)
            while self._idle:
                self._wake_idle_thread()
        if me is not None:
            self._wait_for_threads(me, kind, timeout)
            # Their last calls have ended: this only waits some microseconds for the OS threads to end.
            for thread in threads:
                if thread.ident is not None:  # otherwise it could not be started
                    thread.join()

    def _wait_for_threads(self, me: Waiter, kind: type[WorkerThread], timeout: float | None) -> None:
        ended: object = None
        with outside_call(me, kind):
            if self._threads:
                ended = self._shutdown_waiters.wait(True, self._wake_shutdown_waiters, timeout)
        if ended is TIMED_OUT:
            calls = [*(thread.call for thread in list(self._threads) if thread.call is not None), *self._calls]
            raise TimeoutError(f"{self!r} was told to end, but these calls did not: {calls}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.shutdown()


class SharedPool(OffloadPool):
    """A pool of the whole program: plain OS threads call inline, and at interpreter exit its calls are dropped."""

    def __init__(self, name: str) -> None:
        super().__init__(name, MAX_THREADS)
        self.park_reason = "offload"
        self.awaited_at_exit = False

    def _calls_inline(self, me: Waiter, kind: type[WorkerThread]) -> bool:
        return isinstance(me, OSThread) or super()._calls_inline(me, kind)


@contextmanager
def outside_call(me: Waiter, kind: type[WorkerThread] = WorkerThread) -> Iterator[None]:
    """Count an expected wake from an OS thread: until then no deadlock is reported, and no virtual clock jumps.

    ``kind``: the class of the thread that wakes the caller; a simulated one is a dhaga, and is not counted.
    """
    scheduler = None if isinstance(me, OSThread) or kind is not WorkerThread else me.scheduler
    if scheduler is not None:
        scheduler.outside_calls += 1
    try:
        yield
    finally:
        if scheduler is not None:
            scheduler.outside_calls -= 1


pools: weakref.WeakSet[OffloadPool] = weakref.WeakSet()
shared = SharedPool("dhaga-offload")


def offload(fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
    """Run a blocking call in an OS thread; return its result or raise its error. A plain OS thread runs it inline.

    Parks: until the call returns (``offload``); else as ``OffloadPool.offload``. The program shares ``MAX_THREADS``; at
    interpreter exit a call without a caller is dropped. A hop takes 160 µs, half of it CPU time. So make calls below
    100 µs inline: that made the commits of a key-value store 46 % cheaper. With 100 concurrent callers offloading wins
    from 70 µs a call (13x at 1 ms); other dhagas wait 0.1 ms instead of 111 (benchmarks/offload.py).
    Raises: TypeError, ParkError, RuntimeError if no OS thread can be started.

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
    """Wait, at interpreter exit, for the calls of named pools, so that no commit is cut off."""
    deadline = originals.monotonic() + shutdown.EXIT_SECONDS
    for pool in [pool for pool in members(pools) if pool.awaited_at_exit]:
        try:
            pool.shutdown(timeout=max(0.0, deadline - originals.monotonic()))
        except TimeoutError as error:
            logger.error("at exit: %s", error)


def end_idle_threads() -> None:
    """End the idle threads before a fork. A fork beside idle threads is safe, but from 3.12 on CPython warns of any
    thread.
    """
    deadline = originals.monotonic() + GONE_SECONDS
    while any(pool._is_settling() for pool in members(pools)) and originals.monotonic() < deadline:
        originals.thread_sleep(0.0001)
    for thread in [thread for pool in members(pools) for thread in pool._end_idle_threads()]:
        wait_until_gone(thread.native_id)


def reset_pools_in_child() -> None:
    switch_interval.reset()
    for pool in members(pools):
        pool._reset()


system.register_at_fork(before=end_idle_threads, after_in_child=reset_pools_in_child)
hooks.after_dhagas_at_exit.append(wait_for_calls)
