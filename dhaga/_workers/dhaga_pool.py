"""Pools of worker dhagas, which make submitted calls. The workers of a pool run on one or more schedulers.

A WorkerPool has one backlog of calls, and a SchedulerWorkers for each scheduler. A worker is busy, idle (in ``idle``),
or not started (its number is in ``free_numbers``). The worker that became idle last is woken first, so that the other
workers reach ``IDLE_SECONDS`` and end. A call is pending in the backlog, running in one worker, or ended. The state of
a call changes under ``guard`` of ``future.py``.

No wake is lost: a submitter first appends the call and then looks for a worker, and a worker first becomes idle and
then checks the backlog. ``wake_pending`` avoids needless wakes: it is true from the wake of a worker until the worker
runs. A worker takes calls until the backlog is empty. If calls remain when a worker takes a call, this worker wakes
another worker. A submitter wakes a worker of a scheduler whose thread sleeps. If no thread sleeps, the submitter wakes
a worker of each scheduler that has an idle or unstarted one, because a scheduler may be busy for a long time.

Rejected: one backlog per scheduler. A call behind a long call would wait while other threads sleep.

``future.py`` has the class of a call's outcome, and ``dhaga/pool.py`` starts the OS threads.
"""

from __future__ import annotations

import atexit
import contextlib
import inspect
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from contextvars import Context, copy_context
from typing import Any, TypeAlias

from .._kernel.errors import Cancelled
from .._kernel.faces.arguments import check_function
from .._kernel.interpreter.guards import fence
from .._kernel.interpreter.requirements import FREE_THREADED
from .._kernel.platform.system import system
from .._kernel.process.process_exit import interrupted
from .._kernel.run.call_outs import calls_out
from .._kernel.run.microthread import Dhaga
from .._kernel.run.scheduler import Scheduler
from .._kernel.wait.current import clock_here
from .._kernel.wait.wait_queue import WaitQueue
from .._kernel.wait.waiter import TIMED_OUT
from .._kernel.weak_sets import members
from .._sync.semaphore import Semaphore
from .future import Future, guard

IDLE_SECONDS = 10.0
"""Seconds after which an idle worker ends."""

PoolCall: TypeAlias = tuple[Future[Any], Callable[..., Any], tuple[Any, ...], dict[str, Any], Context]


class CallCancelled(Cancelled):
    """The error that cancels a running call, but not the worker that runs it."""


class PoolWorker(Dhaga):
    """A dhaga that makes one call after the other. ``_call_future``: the Future of the running call."""

    __slots__ = ("_call_future", "_group", "_number")

    makes_calls = True

    def __init__(self, group: SchedulerWorkers, number: int) -> None:
        name = f"{group.scheduler.name}-worker-{number}"
        super().__init__(group.scheduler, group.run_calls, (self,), None, name, daemon=not at_exit, context=Context())
        self._group = group
        self._number = number
        self._call_future: Future[Any] | None = None

    @calls_out
    def make(self, call: PoolCall) -> None:
        """Make a call that is marked as running, and end the call's Future."""
        future, fn, args, kwargs, context = call
        # Context.run() would start a second evaluation loop, whose C stack each switch would have to copy.
        self.gr_context = context
        try:
            value = fn(*args, **kwargs) if kwargs or len(args) > 1 else fn(args[0]) if args else fn()
        except BaseException as error:
            self.fail(future, error)
        else:
            if not self._group.pool.in_parent:
                future.set_result(value)
        finally:
            del call, future  # an error's traceback refers to this frame: break the cycle

    def fail(self, future: Future[Any], error: BaseException) -> None:
        """End the Future with the error of its call. Raises: ``error`` itself, in a forked child or if the error also
        cancels the worker.
        """
        if self._group.pool.in_parent:
            raise error
        if not isinstance(error, Cancelled):
            if error.__traceback__ is not None:  # drop the frame of make()
                error.with_traceback(error.__traceback__.tb_next)
            future.set_exception(error)
            return
        future._end_cancelled()
        if not isinstance(error, CallCancelled):
            raise error

    def cancel_call(self, future: Future[Any]) -> None:
        """Raise Cancelled in a call if the worker is still running that call. From: the worker's OS thread."""
        if self._call_future is future:
            self.cancel_with(CallCancelled("its future was cancelled"))

    def drop_late_cancels(self) -> None:
        """Drop cancels that reached the worker after the end of the call. Raises: a cancel of the worker itself."""
        for error in [*self.pending_errors]:
            if isinstance(error, CallCancelled):
                self.pending_errors.drop(error)
        if self.pending_errors:
            raise self.pending_errors.pop(0)

    def _end(self) -> None:
        group = self._group
        group.worker_ends(self)
        super()._end()
        group.stop_if_done()


class SchedulerWorkers:
    """The workers of one scheduler, at most ``limit``. ``owned``: whether the scheduler stops with the pool."""

    def __init__(self, pool: WorkerPool, scheduler: Scheduler, limit: int, owned: bool) -> None:
        self.pool = pool
        self.scheduler = scheduler
        self.owned = owned
        self.wake_pending: bool = False
        self.idle: WaitQueue = WaitQueue(self, "pool.idle")
        self.free_numbers: deque[int] = deque(range(limit, 0, -1))  # numbers of workers not started; pop() is atomic
        self.workers: set[PoolWorker] = set()

    def __repr__(self) -> str:
        return f"<SchedulerWorkers on {self.scheduler.name}, {len(self.workers)} workers, {self.idle.parked()} idle>"

    def busy_count(self) -> int:
        """Return the number of workers that have a call. For callers in other OS threads, the number is an estimate."""
        return len(self.workers) - len(self.idle) + self.idle.void

    def wake_one(self) -> bool:
        """Wake an idle worker, or start a new one. Returns: False if all workers are busy. From: any thread."""
        try:
            worker = self.idle.take_last()
            if worker is not None:
                self.wake_pending = True
                worker.deliver_wake()
            elif self.free_numbers:
                self.start_worker(self.free_numbers.pop())
            else:
                return False
        except IndexError:  # another OS thread wakes or starts the last worker
            pass
        return True

    def start_worker(self, number: int) -> None:
        """Start a worker with the given number. Raises: RuntimeError if the scheduler has stopped."""
        worker = PoolWorker(self, number)
        self.workers.add(worker)
        self.wake_pending = True
        try:
            self.scheduler.admit(worker)
        except BaseException as error:
            # If Ctrl-C raises in admit() after the admission, the worker runs and keeps its number.
            if isinstance(error, RuntimeError) or worker not in self.scheduler.live:
                self.scheduler.live.discard(worker)
                self.workers.discard(worker)
                self.wake_pending = False
                self.free_numbers.append(number)
            raise

    @calls_out
    def run_calls(self, me: PoolWorker) -> None:
        """Make calls of the backlog until ``me`` has been idle for ``IDLE_SECONDS``. From: the worker ``me``."""
        backlog, permits = self.pool.backlog, self.pool.permits
        self.wake_pending = False
        while not self.pool.in_parent:
            if me.pending_errors:
                me.drop_late_cancels()
            with guard:
                call = backlog.popleft() if backlog else None
                begins = call is not None and call[0]._begin(me)
            if call is None:
                if self.wait_for_call(me):
                    return
                continue
            if backlog and not self.wake_pending:
                self.wake_one()
            if permits is not None:
                permits.release()
            if begins:
                me.make(call)
            del call  # an idle worker must not keep the call's arguments alive

    def wait_for_call(self, me: PoolWorker) -> bool:
        """Park the worker as idle until it is woken. Returns: True if the worker must end."""
        if self.pool.should_end():
            return True
        me.gr_context = None
        me.prepare_park(self.idle.reason, self.idle)
        self.idle.append(me.parked)
        # Check again: submit() or close() in another OS thread may not have seen this idle worker.
        if FREE_THREADED:
            fence(self.pool.backlog)
        if self.pool.backlog:
            self.wake_one()
        if self.pool.should_end():
            self.idle.wake_all()
        if me.park_within(IDLE_SECONDS) is TIMED_OUT:
            return True
        self.wake_pending = False
        return False

    def cancel_calls(self) -> None:
        """Raise Cancelled in each running call of these workers. From: the scheduler's OS thread."""
        for worker in list(self.workers):
            if worker._call_future is not None:
                worker.cancel_call(worker._call_future)

    def worker_ends(self, worker: PoolWorker) -> None:
        """Free the number of a worker that ends. If calls remain, wake another worker, or cancel calls that no worker
        can take.
        """
        self.free_numbers.append(worker._number)
        self.wake_pending = False  # a worker that was cancelled before its start has not done this
        if FREE_THREADED:
            fence(self.pool.backlog)
        if self.pool.backlog:
            if self.scheduler.closing or (at_exit and worker._error is not None):
                self.pool.withdraw_unserved(self)
            else:
                self.wake_one()
        self.workers.discard(worker)

    def stop_if_done(self) -> None:
        """Stop an owned scheduler, once the pool is closed and the scheduler's last worker has ended."""
        if self.owned and self.pool.closed and not self.workers and not self.pool.in_parent:
            self.scheduler.mode.begin_stop()  # type: ignore[attr-defined]


class WorkerPool:
    """A pool: one backlog of calls, and for each scheduler the workers that take calls from the backlog."""

    def __init__(
        self, schedulers: Iterable[Scheduler], limit: int, max_pending: int | None = None, owned: bool = False
    ) -> None:
        self.backlog: deque[PoolCall] = deque()
        self.permits: Semaphore | None = None if max_pending is None else Semaphore(max_pending)
        self.closed: bool = False
        self.in_parent: bool = False
        self.groups: list[SchedulerWorkers] = [
            SchedulerWorkers(self, scheduler, limit, owned) for scheduler in schedulers
        ]
        worker_pools.add(self)

    def __repr__(self) -> str:
        workers = [worker for group in self.groups for worker in list(group.workers)]
        busy = sum(worker._call_future is not None for worker in workers)
        return f"<WorkerPool {busy} of {len(workers)} workers busy, {len(self.backlog)} calls due>"

    def submit(self, future: Future[Any], fn: Callable[..., Any], args: Any, kwargs: Any) -> None:
        """Add a call to the backlog. Parks: while the backlog has ``max_pending`` calls (``semaphore.acquire``)."""
        self.check(fn)
        if self.permits is not None:
            self.permits.acquire()
        if self.closed:
            self.raise_closed()
        call = (future, fn, args, kwargs, copy_context())
        self.backlog.append(call)
        for group in self.groups:
            if not group.wake_pending:
                self.wake_workers(call)
                break

    def check(self, fn: Callable[..., Any]) -> None:
        """Check a function before it is submitted. Raises: TypeError; RuntimeError if the pool is closed."""
        code = getattr(fn, "__code__", None)
        if code is None or code.co_flags & inspect.CO_COROUTINE:
            check_function(fn, "submit", generators=True)
        if self.closed:
            self.raise_closed()

    def raise_closed(self) -> None:
        if self.permits is not None:
            self.permits.release()
        if self.in_parent:
            raise RuntimeError("this pool stayed in the parent process: make one of its own in the child")
        raise RuntimeError("this pool has been shut down: it takes no more calls")

    def wake_workers(self, call: PoolCall) -> None:
        """Wake a worker of the least busy sleeping scheduler, or, if no scheduler sleeps, one of each scheduler."""
        sleeping = [group for group in self.groups if group.scheduler.asleep and (group.idle or group.free_numbers)]
        try:
            if sleeping and min(sleeping, key=SchedulerWorkers.busy_count).wake_one():
                return
            for group in self.groups:
                if not group.wake_pending:
                    group.wake_one()
        except RuntimeError:  # the scheduler has stopped: no worker will take the call
            try:
                self.backlog.remove(call)
            except ValueError:  # a worker has taken the call, or the call was cancelled
                return
            if self.closed:
                self.raise_closed()
            if self.permits is not None:
                self.permits.release()
            raise

    def should_end(self) -> bool:
        """Return whether workers without a call must end."""
        return self.closed or bool(at_exit)

    def close(self) -> None:
        """Reject further calls, and end the workers once the backlog is empty. From: any thread."""
        self.closed = True
        for group in self.groups:
            group.idle.wake_all()
            # Ctrl-C may have interrupted submit() between the append and the wake.
            if self.backlog:
                with contextlib.suppress(
                    RuntimeError
                ):  # the scheduler has stopped: its last worker emptied the backlog
                    group.wake_one()
            group.stop_if_done()

    def withdraw(self) -> None:
        """Cancel the calls that have not begun."""
        while True:
            with guard:
                if not self.backlog:
                    return
                future = self.backlog.popleft()[0]
            if self.permits is not None:
                self.permits.release()
            future._cancel_unbegun()

    def cancel(self) -> None:
        """Cancel all calls: drop pending calls, and raise ``Cancelled`` in running calls."""
        self.withdraw()
        for group in self.groups:
            group.scheduler.call(group.cancel_calls)

    def withdraw_unserved(self, group: SchedulerWorkers) -> None:
        """Cancel the calls in the backlog, unless a worker outside ``group`` can take them."""
        if at_exit or all(each is group or each.scheduler.closing for each in self.groups):
            self.withdraw()

    def join(self, timeout: float | None) -> None:
        """Wait until all workers, and the threads of owned schedulers, have ended. Raises: TimeoutError."""
        deadline = None if timeout is None else clock_here()() + timeout
        for group in self.groups:
            while workers := list(group.workers):
                for worker in workers:
                    worker.join(left_until(deadline))
                    if deadline is not None and worker.is_alive():
                        raise TimeoutError(f"these calls have not ended: {busy(self)}")
            if group.owned:
                group.scheduler.stop(left_until(deadline))

    def fail_in_child(self) -> None:
        """Close the pool and fail its calls in a forked child, because the threads and workers are in the parent."""
        self.closed = self.in_parent = True
        for call in self.backlog:
            call[0]._fail_in_child()
        self.backlog.clear()
        for group in self.groups:
            for worker in group.workers:
                if worker._call_future is not None:
                    worker._call_future._fail_in_child()


worker_pools: weakref.WeakSet[WorkerPool] = weakref.WeakSet()
"""All pools of the process. A hook closes them in a forked child, and another hook ends their idle workers at
interpreter exit.
"""


def busy(pool: WorkerPool) -> str:
    return ", ".join(repr(worker) for group in pool.groups for worker in list(group.workers) if worker._call_future)


def left_until(deadline: float | None) -> float | None:
    return None if deadline is None else max(0.0, deadline - clock_here()())


def close_pools_in_child() -> None:
    for pool in members(worker_pools):
        pool.fail_in_child()
    guard.release()


system.register_at_fork(before=guard.acquire, after_in_parent=guard.release, after_in_child=close_pools_in_child)


# ---- the interpreter's exit

at_exit: list[bool] = []
"""A list that is not empty once the interpreter exits. Then workers do not stay idle, and new workers are not daemons.
"""


def end_idle_workers() -> None:
    """End idle workers at interpreter exit. The exit waits for the calls of busy workers, unless Ctrl-C ended the
    program.

    This exit hook runs before the kernel's hook that waits for dhagas: hooks run in reverse order, and the kernel's
    hook was registered earlier.
    """
    at_exit.append(True)
    for pool in members(worker_pools):
        for group in pool.groups:
            for worker in list(group.workers):
                worker.daemon = interrupted()
            group.idle.wake_all()


getattr(threading, "_register_atexit", atexit.register)(end_idle_workers)
