"""The life of a task in the pool: from the consumer's thread to a worker dhaga, its time limits, its end.

A job is queued -> accepted (Celery's request acknowledges it) -> running in a worker dhaga -> disarmed, when the task's
own code has ended -> reported. Limits and revokes raise an error in the worker at its next park, or where preemption
ends its turn, on its scheduler's thread. An error not delivered when the job is disarmed is withdrawn, so that it
cannot hit the worker's next job.
``ending`` is set once, by the first limit or revoke; it is raised again while the task swallows it.
Threads: ``run`` and the limits on the worker's scheduler, ``terminate`` from any.
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
"""Pause before a swallowed end is raised again: time to clean up, but no task may loop past it."""


class JobEnded(Cancelled):
    """Ends a task that was revoked or has reached its hard time limit."""

    def __init__(self, reason: str, limit: float | None = None) -> None:
        super().__init__(reason)
        self.limit = limit


class Job(Future[None]):
    """A task given to the pool; Celery's ``Request`` keeps a weak reference to it."""

    context: Context
    call_args: tuple[Any, Any, Any]

    def __init__(self, pool: TaskPool, number: int, soft: float | None, hard: float | None, callbacks: Any) -> None:
        super().__init__()
        self.pool = pool
        self.number = number
        self.soft = soft
        self.hard = hard
        self.callbacks = callbacks  # Celery's, by name
        self.title = ""
        self.task_id: str | None = None
        self.task_worker: PoolWorker | None = None
        self.disarmed: bool = False  # limits and revokes no longer raise
        self.ending: JobEnded | None = None
        self.raised: list[BaseException] = []
        self.timers: list[Any] = []
        self.was_queued = False
        self.interrupted: bool = False  # an error was delivered to it

    @property
    def request(self) -> Any:
        """Celery's request for this task, or None for any other function."""
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
        """Call Celery's callback of acceptance. Returns: False if the task was revoked meanwhile."""
        accept = self.callbacks.get("accept_callback")
        if accept is None:
            return True
        request = self.request
        try:
            if self.was_queued and request is not None and request.revoked():
                return False
            accept(self.number, monotonic())  # may terminate this job
        except Exception:
            runs = bool(getattr(request, "acknowledged", False))  # the broker would not deliver it again
            logger.exception("accepting task %s failed; it is %s", self.title, "run" if runs else "left to the broker")
            return runs
        return self.ending is None

    def arm_limits(self, loop: Any) -> None:
        if self.soft:
            self.timers.append(loop.call_later(self.soft, self.reach_soft_limit))
        if self.hard:
            self.timers.append(loop.call_later(self.hard, self.reach_hard_limit))

    def disarm(self) -> None:
        """Cancel the limits and withdraw errors not delivered yet: the task's own code has ended."""
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
        """Log a task that exceeded its limit because no error could reach it."""
        limit = self.hard or self.soft
        if limit and seconds > limit and not self.interrupted:
            logger.warning(
                "task %s took %.1f s, although its time limit is %g s: a limit ends a task where it parks, and "
                "in a patched worker where it computes in Python; this one did neither, and its result is kept",
                self.title, seconds, limit,
            )  # fmt: skip

    def end_by(self, error: BaseException) -> None:
        """Report a task that was ended, or that raised SystemExit or KeyboardInterrupt."""
        if self.ending is not None:
            if self.ending.limit is not None:
                self.report("timeout_callback", False, self.ending.limit)
            return
        if isinstance(error, WorkerTerminate):
            state.should_terminate = error.code
        elif isinstance(error, WorkerShutdown):
            state.should_stop = error.code
        elif isinstance(error, Cancelled):
            # A stop of the pool. The broker still has the task, or the task is lost, as with any worker that is told
            # not to wait.
            return
        try:
            raise WorkerLostError(f"task {self.title} raised {error!r}") from error
        except WorkerLostError:
            self.report("error_callback", ExceptionInfo())

    def report(self, name: str, *args: Any) -> None:
        """Call one of Celery's callbacks; its error is logged, because no caller handles it."""
        callback = self.callbacks.get(name)
        if callback is None:
            return
        try:
            callback(*args)
        except Exception:
            logger.exception("%s of task %s failed", name, self.title)

    # ---- limits and ends

    def reach_soft_limit(self) -> None:
        """Raise SoftTimeLimitExceeded in the task. From: the hub of its scheduler."""
        if not self.disarmed:
            self.report("timeout_callback", True, self.soft)
            self.raise_in_task(SoftTimeLimitExceeded(self.soft))

    def reach_hard_limit(self) -> None:
        if not self.disarmed and self.ending is None:
            self.begin_end(JobEnded("its hard time limit is over", self.hard))

    def terminate(self, signal: int | None = None) -> None:
        """End the task at its park; SIGUSR1: raise SoftTimeLimitExceeded there. From: any thread."""
        worker = self._worker
        if worker is None:  # not started (Celery checks again at the start), or ended
            return
        if signal == SIGUSR1:
            worker.scheduler.call(self.reach_soft_limit)
        else:
            worker.scheduler.call(self.begin_end, JobEnded(f"revoked, signal {int(signal or SIGTERM)}"))

    def begin_end(self, ending: JobEnded) -> None:
        """End the task. From: its scheduler's thread."""
        if self.disarmed or self.ending is not None:
            return
        self.ending = ending
        if self.task_worker is not None:
            self.raise_end()

    def raise_end(self) -> None:
        """Raise the end at the task's park, and again while the task swallows it."""
        worker = self.task_worker
        if self.disarmed or worker is None:
            return
        assert self.ending is not None
        if self.ending in self.raised and self.ending not in worker.pending_errors:
            logger.warning(
                "task %s has swallowed the error that ends it (%s): raised again", self.title, self.ending.reason
            )
            self.ending = JobEnded(str(self.ending.reason), self.ending.limit)
        if self.ending not in self.raised:
            self.raise_in_task(self.ending)
        self.timers.append(worker.scheduler.loop.call_later(RERAISE_SECONDS, self.raise_end))

    def raise_in_task(self, error: BaseException) -> None:
        assert self.task_worker is not None
        self.raised.append(error)
        self.task_worker.cancel_with(error)
