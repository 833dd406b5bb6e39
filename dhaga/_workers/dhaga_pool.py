"""Worker dhagas: they take submitted calls from one backlog, on one scheduler or several, and are reused.

A WorkerPool has the backlog, and for each scheduler a SchedulerWorkers with its workers: busy, idle (``idle``; the last
one is woken first, so that the others reach ``IDLE_SECONDS`` and end) or not started (``free_numbers``). A call is
pending in the backlog, running in one worker, or ended; the ``guard`` of ``future.py`` protects these changes.

No wake is lost: a submitter first appends the call and then looks for a worker; a worker first becomes idle and then
checks the backlog. ``wake_pending`` saves wakes: it is set from a wake until that worker runs. The worker takes calls
until the backlog is empty, and wakes the next one if it leaves a call there. A call wakes a worker of a scheduler whose
thread sleeps. If no thread sleeps, it wakes a worker of each scheduler with room, because any scheduler may be busy for
long.

Rejected: a backlog for each scheduler. A call behind a long one would wait while other threads sleep.

Not here: the outcome of a call (``future.py``), and the OS threads (``dhaga/pool.py``).
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
from .._kernel.process.shutdown import interrupted
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
"""An idle worker ends after this time."""

PoolCall: TypeAlias = tuple[Future[Any], Callable[..., Any], tuple[Any, ...], dict[str, Any], Context]


class CallCancelled(Cancelled):
    """Cancels the running call, but not its worker."""


class PoolWorker(Dhaga):
    """A dhaga that makes calls, one after the other. ``_call_future``: the Future of the running one."""

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
        """Make a call that has begun, and end its Future."""
        future, fn, args, kwargs, context = call
        # Context.run() would nest an evaluation loop, whose C stack each switch then copies.
        self.gr_context = context
        try:
            value = fn(*args, **kwargs) if kwargs or len(args) > 1 else fn(args[0]) if args else fn()
        except BaseException as error:
            self.fail(future, error)
        else:
            if not self._group.pool.in_parent:
                future.set_result(value)
        finally:
            del call, future  # the traceback of an error refers to this frame, which would be a cycle

    def fail(self, future: Future[Any], error: BaseException) -> None:
        """End the Future with the error of its call. Raises: the error, if it also cancels the worker."""
        if self._group.pool.in_parent:
            raise error
        if not isinstance(error, Cancelled):
            if error.__traceback__ is not None:  # without the frame of make()
                error.with_traceback(error.__traceback__.tb_next)
            future.set_exception(error)
            return
        future._end_cancelled()
        if not isinstance(error, CallCancelled):
            raise error

    def cancel_call(self, future: Future[Any]) -> None:
        """Raise Cancelled in a call, if the worker still runs it. From: the worker's OS thread."""
        if self._call_future is future:
            self.cancel_with(CallCancelled("its future was cancelled"))

    def drop_late_cancels(self) -> None:
        """Drop cancels that came too late for the previous call. Raises: a cancel of the worker itself."""
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
    """The workers of one scheduler, at most ``limit``; idle ones are in ``idle``, the last one is woken first."""

    def __init__(self, pool: WorkerPool, scheduler: Scheduler, limit: int, owned: bool) -> None:
        self.pool = pool
        self.scheduler = scheduler
        self.owned = owned
        self.wake_pending: bool = False
        self.idle: WaitQueue = WaitQueue(self, "pool.idle")
        self.free_numbers: deque[int] = deque(range(limit, 0, -1))  # of workers not started; pop() is atomic
        self.workers: set[PoolWorker] = set()

    def __repr__(self) -> str:
        return f"<SchedulerWorkers on {self.scheduler.name}, {len(self.workers)} workers, {self.idle.parked()} idle>"

    def busy_count(self) -> int:
        """Return the number of workers with a call, as an estimate from another OS thread."""
        return len(self.workers) - len(self.idle) + self.idle.void

    def wake_one(self) -> bool:
        """Wake an idle worker for the backlog, or start one. Returns: False if all are busy. From: any thread."""
        try:
            worker = self.idle.take_last()
            if worker is not None:
                self.wake_pending = True
                worker.deliver_wake()
            elif self.free_numbers:
                self.start_worker(self.free_numbers.pop())
            else:
                return False
        except IndexError:  # another OS thread took the last one, and so has woken it
            pass
        return True

    def start_worker(self, number: int) -> None:
        """Start the worker of this number. Raises: RuntimeError if the scheduler has stopped."""
        worker = PoolWorker(self, number)
        self.workers.add(worker)
        self.wake_pending = True
        try:
            self.scheduler.admit(worker)
        except BaseException as error:
            # A Ctrl-C late in admit() may raise after the admission: then the worker runs, and keeps its number.
            if isinstance(error, RuntimeError) or worker not in self.scheduler.live:
                self.scheduler.live.discard(worker)
                self.workers.discard(worker)
                self.wake_pending = False
                self.free_numbers.append(number)
            raise

    @calls_out
    def run_calls(self, me: PoolWorker) -> None:
        """The function of each worker: make calls of the backlog until idle for ``IDLE_SECONDS``."""
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
            del call  # an idle worker must not keep its arguments

    def wait_for_call(self, me: PoolWorker) -> bool:
        """Park as idle until woken. Returns: True if the worker is to end."""
        if self.pool.should_end():
            return True
        me.gr_context = None
        me.prepare_park(self.idle.reason, self.idle)
        self.idle.append(me.parked)
        # Checked again, as a submit or a close in another OS thread may have missed this worker.
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
        """Raise Cancelled in each running call. From: the OS thread of the scheduler."""
        for worker in list(self.workers):
            if worker._call_future is not None:
                worker.cancel_call(worker._call_future)

    def worker_ends(self, worker: PoolWorker) -> None:
        """Free a worker's number at its end. A call in the backlog may have relied on this worker: wake another one."""
        self.free_numbers.append(worker._number)
        if FREE_THREADED:
            fence(self.pool.backlog)
        if self.pool.backlog:
            if self.scheduler.closing or (at_exit and worker._error is not None):
                self.pool.withdraw_unserved(self)
            else:
                self.wake_one()
        self.workers.discard(worker)

    def stop_if_done(self) -> None:
        """Stop a scheduler of our own, once the pool is closed and its last worker has ended."""
        if self.owned and self.pool.closed and not self.workers and not self.pool.in_parent:
            self.scheduler.mode.begin_stop()  # type: ignore[attr-defined]


class WorkerPool:
    """One backlog, and the workers that take calls from it: a SchedulerWorkers for each scheduler."""

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
        """Add a call to the backlog. Parks: while ``max_pending`` calls are in it (``semaphore.acquire``)."""
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
        """Check a function before it is submitted. Raises: TypeError, RuntimeError after the close."""
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
        """Wake a worker on the least busy scheduler that sleeps; if none sleeps, one on each scheduler."""
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
            except ValueError:  # another worker has taken it, or it was cancelled
                return
            if self.closed:
                self.raise_closed()
            raise

    def should_end(self) -> bool:
        """Return whether workers without a call are to end."""
        return self.closed or bool(at_exit)

    def close(self) -> None:
        """Reject further calls; workers end once the backlog is empty. From: any thread."""
        self.closed = True
        for group in self.groups:
            group.idle.wake_all()
            # A Ctrl-C may have interrupted submit() between the append and the wake.
            if self.backlog:
                with contextlib.suppress(
                    RuntimeError
                ):  # the scheduler stopped: its last worker has emptied the backlog
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
        """Cancel all calls: pending ones are dropped, running ones get ``Cancelled``."""
        self.withdraw()
        for group in self.groups:
            group.scheduler.call(group.cancel_calls)

    def withdraw_unserved(self, group: SchedulerWorkers) -> None:
        """Cancel the backlog if this was the last scheduler whose workers could take it."""
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
        """Close in a forked child: the threads, and the workers with their calls, stayed in the parent."""
        self.closed = self.in_parent = True
        for call in self.backlog:
            call[0]._fail_in_child()
        self.backlog.clear()
        for group in self.groups:
            for worker in group.workers:
                if worker._call_future is not None:
                    worker._call_future._fail_in_child()


worker_pools: weakref.WeakSet[WorkerPool] = weakref.WeakSet()
"""All pools, for a fork and the interpreter's exit."""


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
"""Not empty once the interpreter exits: from then on no worker stays idle or is a daemon."""


def end_idle_workers() -> None:
    """End idle workers at interpreter exit, and make the others non-daemons, so that their calls are waited for.

    This hook runs before the kernel waits for dhagas: exit hooks run in reverse order, and it is registered later than
    the kernel's.
    """
    at_exit.append(True)
    for pool in members(worker_pools):
        for group in pool.groups:
            for worker in list(group.workers):
                worker.daemon = interrupted()
            group.idle.wake_all()


getattr(threading, "_register_atexit", atexit.register)(end_idle_workers)
