"""Jobs of Celery's pool. A job is a task that the consumer's thread gives to the pool, and that a worker dhaga runs.

At a limit, the hub raises an error in the task, and a new dhaga logs the limit, because a log handler may park.
A job is queued -> accepted (Celery's request acknowledges it) -> running in a worker dhaga -> disarmed (the task's own
code has ended) -> reported. A limit or a revoke raises an error in the worker at its next park, or where preemption
ends the worker's turn. If the job is disarmed before the error is delivered, the error is withdrawn, so that it cannot
hit the worker's next job.
The first hard limit or revoke sets ``ending``, the error that ends the task. If the task swallows this error, the error
is raised again.
``run`` and the limits run in the worker's OS thread; ``terminate`` may be called from any thread.
"""

from __future__ import annotations

from contextvars import Context
from signal import SIGTERM, SIGUSR1
from time import monotonic
from typing import TYPE_CHECKING, Any

from celery.app.trace import ExceptionInfo
from celery.exceptions import SoftTimeLimitExceeded, WorkerLostError, WorkerShutdown, WorkerTerminate
from celery.utils.log import get_logger
from celery.worker import state
from greenlet import getcurrent

from ..._kernel.errors import Cancelled
from ..._kernel.run.call_outs import calls_out
from ..._workers.dhaga_pool import PoolWorker
from ...futures import Future

if TYPE_CHECKING:
    from . import TaskPool

logger = get_logger("celery.pool")

RERAISE_SECONDS = 1.0
"""Number of seconds before a swallowed ``JobEnded`` is raised again. A task may clean up during this time."""


class JobEnded(Cancelled):
    """Raised in a task that was revoked or has reached its hard time limit."""

    def __init__(self, reason: str, limit: float | None = None) -> None:
        super().__init__(reason)
        self.limit = limit


class Job(Future[None]):
    """A task given to the pool. Celery's ``Request`` has a weak reference to its job."""

    context: Context
    call_args: tuple[Any, Any, Any]

    def __init__(self, pool: TaskPool, number: int, soft: float | None, hard: float | None, callbacks: Any) -> None:
        super().__init__()
        self.pool = pool
        self.number = number
        self.soft = soft
        self.hard = hard
        self.callbacks = callbacks  # Celery's callbacks by name
        self.title = ""
        self.task_id: str | None = None
        self.task_worker: PoolWorker | None = None
        self.disarmed: bool = False  # limits and revokes no longer raise errors
        self.ending: JobEnded | None = None
        self.raised: list[BaseException] = []
        self.timers: list[Any] = []
        self.was_queued = False
        self.interrupted: bool = False  # an error was delivered to the task

    @property
    def request(self) -> Any:
        """Celery's request for this task, or None if the job is another function."""
        return getattr(self.callbacks.get("accept_callback"), "__self__", None)

    # ---- in the dhaga

    @calls_out
    def run(self, target: Any, args: Any, kwargs: Any) -> None:
        """Run the task and report its outcome to Celery. From: a worker dhaga."""
        worker: Any = getcurrent()
        previous_name, worker.own_name = worker.own_name, self.title
        try:
            if not self.accept():
                return
            self.task_worker = worker
            if self.soft or self.hard:
                self.arm_limits(worker.scheduler.loop)
            started_at = monotonic()
            try:
                value = target(*args, **kwargs)
            except Exception:
                self.disarm()
                self.report("error_callback", ExceptionInfo())
            except BaseException as error:
                self.disarm()
                self.end_by(error)
            else:
                self.disarm()
                self.warn_if_late(monotonic() - started_at)
                self.report("callback", value)
        finally:
            self.disarm()
            worker.own_name = previous_name
            self.pool.finish(self)

    def accept(self) -> bool:
        """Call Celery's callback for acceptance. Returns: False if the task must not run, such as after a revoke."""
        accept = self.callbacks.get("accept_callback")
        if accept is None:
            return True
        request = self.request
        try:
            if self.was_queued and request is not None and request.revoked():
                return False
            accept(self.number, monotonic())  # the callback may terminate this job
        except Exception:
            runs = bool(getattr(request, "acknowledged", False))  # the broker does not redeliver an acknowledged task
            logger.exception("accepting task %s failed; it is %s", self.title, "run" if runs else "left to the broker")
            return runs
        return self.ending is None

    def arm_limits(self, loop: Any) -> None:
        if self.soft:
            self.timers.append(loop.call_later(self.soft, self.reach_soft_limit))
        if self.hard:
            self.timers.append(loop.call_later(self.hard, self.reach_hard_limit))

    def disarm(self) -> None:
        """Cancel the limits and withdraw undelivered errors, because the task's own code has ended."""
        self.disarmed = True
        for timer in self.timers:
            timer.cancel()
        self.timers.clear()
        worker = self.task_worker
        if worker is not None and self.raised:
            pending: Any = worker.pending_errors
            for error in self.raised:
                if error in pending:
                    pending.remove(error)
                else:
                    self.interrupted = True
            self.raised.clear()

    def warn_if_late(self, seconds: float) -> None:
        """Log a task that exceeded its limit because no error could reach the task."""
        limit = self.hard or self.soft
        if limit and seconds > limit and not self.interrupted:
            logger.warning(
                "task %s took %.1f s, although its time limit is %g s: a limit ends a task where it parks, and "
                "in a patched worker where it computes in Python; this one did neither, and its result is kept",
                self.title, seconds, limit,
            )  # fmt: skip

    def end_by(self, error: BaseException) -> None:
        """Report a task that a limit or revoke has ended, or that has raised SystemExit or KeyboardInterrupt."""
        if self.ending is not None:
            if self.ending.limit is not None:
                self.report("timeout_callback", False, self.ending.limit)
            return
        if isinstance(error, WorkerTerminate):
            state.should_terminate = error.code
        elif isinstance(error, WorkerShutdown):
            state.should_stop = error.code
        elif isinstance(error, Cancelled):
            # The pool stops without waiting. The broker delivers the task again only if it is not acknowledged yet, as
            # with any worker of Celery.
            return
        try:
            raise WorkerLostError(f"task {self.title} raised {error!r}") from error
        except WorkerLostError:
            self.report("error_callback", ExceptionInfo())

    def report(self, name: str, *args: Any) -> None:
        """Call one of Celery's callbacks. Log the callback's error, because no caller handles this error."""
        callback = self.callbacks.get(name)
        if callback is None:
            return
        try:
            callback(*args)
        except Exception:
            logger.exception("%s of task %s failed", name, self.title)

    # ---- limits and ends

    def reach_soft_limit(self) -> None:
        """Raise SoftTimeLimitExceeded in the task. From: the hub of the task's scheduler."""
        if not self.disarmed:
            worker = self.task_worker
            assert worker is not None
            self.raise_in_task(SoftTimeLimitExceeded(self.soft))
            worker.scheduler.spawn(self.report, "timeout_callback", True, self.soft)

    def reach_hard_limit(self) -> None:
        if not self.disarmed and self.ending is None:
            self.begin_end(JobEnded("its hard time limit is over", self.hard))

    def terminate(self, signal: int | None = None) -> None:
        """Raise an error that ends the task at its current or next park. For SIGUSR1, only raise SoftTimeLimitExceeded.
        From: any thread.
        """
        worker = self._worker
        if worker is None:  # the task has ended or has not started; Celery checks for revokes again at the start
            return
        if signal == SIGUSR1:
            worker.scheduler.call(self.reach_soft_limit)
        else:
            worker.scheduler.call(self.begin_end, JobEnded(f"revoked, signal {int(signal or SIGTERM)}"))

    def begin_end(self, ending: JobEnded) -> None:
        """Set ``ending``, and raise it in the task if the task runs. From: the thread of the task's scheduler."""
        if self.disarmed or self.ending is not None:
            return
        self.ending = ending
        if self.task_worker is not None:
            self.raise_end()

    def raise_end(self) -> None:
        """Raise ``ending`` where the task parks. If the task swallows this error, raise the error again later."""
        worker = self.task_worker
        if self.disarmed or worker is None:
            return
        assert self.ending is not None
        swallowed = self.ending in self.raised and self.ending not in worker.pending_errors
        if swallowed:
            self.ending = JobEnded(str(self.ending.reason), self.ending.limit)
        if self.ending not in self.raised:
            self.raise_in_task(self.ending)
        self.timers.append(worker.scheduler.loop.call_later(RERAISE_SECONDS, self.raise_end))
        if swallowed:
            worker.scheduler.spawn(
                logger.warning,
                "task %s has swallowed the error that ends it (%s): raised again", self.title, self.ending.reason,
            )  # fmt: skip

    def raise_in_task(self, error: BaseException) -> None:
        assert self.task_worker is not None
        self.raised.append(error)
        self.task_worker.cancel_with(error)
