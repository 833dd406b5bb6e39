"""One task on its way through the pool: from the consumer's thread to a dhaga, its time limits, and its end."""

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

from dhaga.futures import Future
from dhaga.kernel.errors import Cancelled
from dhaga.workers import Worker

if TYPE_CHECKING:
    from . import TaskPool

logger = get_logger("celery.pool")

AGAIN_SECONDS = 1.0
"""A task that has swallowed its end has it raised again after this: time to clean up, and no loop that never waits."""


class Ended(Cancelled):
    """Tell a task to end: it has been revoked, or its hard time limit has come."""

    def __init__(self, reason: str, limit: float | None = None) -> None:
        super().__init__(reason)
        self.limit = limit


class Job(Future[None]):
    """A task that was given to the pool: what Celery's ``Request`` keeps a weak reference to."""

    context: Context
    call_args: tuple[Any, Any, Any]

    def __init__(self, pool: TaskPool, number: int, soft: float | None, hard: float | None, tells: Any) -> None:
        super().__init__()
        self.pool = pool
        self.number = number
        self.soft = soft
        self.hard = hard
        self.tells = tells  # Celery's callbacks, by name
        self.title = ""
        self.task_id: str | None = None
        self.maker: Worker | None = None
        self.over = False  # nothing is raised in it any more
        self.ending: Ended | None = None
        self.raised: list[BaseException] = []
        self.alarms: list[Any] = []
        self.waited = False
        self.struck = False  # something was raised in it

    @property
    def request(self) -> Any:
        """Celery's request for this task; None if something else was applied."""
        return getattr(self.tells.get("accept_callback"), "__self__", None)

    # ---- in the dhaga

    def run(self, target: Any, args: Any, kwargs: Any) -> None:
        """Run the task and tell Celery what became of it; in a dhaga."""
        worker: Any = getcurrent()
        former, worker.given_name = worker.given_name, self.title
        try:
            if not self.begins():
                return
            self.maker = worker
            if self.soft or self.hard:
                self.set_alarms(worker.scheduler.loop)
            began = monotonic()
            try:
                value = target(*args, **kwargs)
            except Exception:
                self.settle()
                self.report("error_callback", ExceptionInfo())
            except BaseException as error:
                self.settle()
                self.end_by(error)
            else:
                self.settle()
                self.check_pace(monotonic() - began)
                self.report("callback", value)
        finally:
            self.settle()
            worker.given_name = former
            self.pool.finish(self)

    def begins(self) -> bool:
        """Have Celery accept the task; False if it has been revoked meanwhile."""
        accept = self.tells.get("accept_callback")
        if accept is None:
            return True
        request = self.request
        try:
            if self.waited and request is not None and request.revoked():
                return False
            accept(self.number, monotonic())  # may terminate this very job
        except Exception:
            runs = bool(getattr(request, "acknowledged", False))  # then the broker has forgotten it
            logger.exception("accepting task %s failed; it is %s", self.title, "run" if runs else "left to the broker")
            return runs
        return self.ending is None

    def set_alarms(self, loop: Any) -> None:
        if self.soft:
            self.alarms.append(loop.call_later(self.soft, self.reach_soft_limit))
        if self.hard:
            self.alarms.append(loop.call_later(self.hard, self.reach_hard_limit))

    def settle(self) -> None:
        """Raise nothing more: the task's own code has come to its end."""
        self.over = True
        for alarm in self.alarms:
            alarm.cancel()
        self.alarms.clear()
        worker = self.maker
        if worker is not None and self.raised:
            pending: Any = worker.pending
            for error in self.raised:
                if error in pending:
                    pending.remove(error)
                else:
                    self.struck = True
            self.raised.clear()

    def check_pace(self, seconds: float) -> None:
        """Say that a task has outlived its limit because it never parked."""
        limit = self.hard or self.soft
        if limit and seconds > limit and not self.struck:
            logger.warning(
                "task %s took %.1f s, and its time limit is %g s: a limit reaches a task where it parks, and it did "
                "not; what it came to stands", self.title, seconds, limit,
            )  # fmt: skip

    def end_by(self, error: BaseException) -> None:
        """Tell Celery of a task that was ended, or has asked for the end of the process."""
        if self.ending is not None:
            if self.ending.limit is not None:
                self.report("timeout_callback", False, self.ending.limit)
            return
        if isinstance(error, WorkerTerminate):
            state.should_terminate = error.code
        elif isinstance(error, WorkerShutdown):
            state.should_stop = error.code
        elif isinstance(error, Cancelled):  # by a stop of the pool: the broker has the task still, or it is lost as
            return  # with any worker that is told not to wait
        try:
            raise WorkerLostError(f"task {self.title} raised {error!r}") from error
        except WorkerLostError:
            self.report("error_callback", ExceptionInfo())

    def report(self, name: str, *args: Any) -> None:
        """Call one of Celery's callbacks; what it raises is logged, as nobody else would see it."""
        callback = self.tells.get(name)
        if callback is None:
            return
        try:
            callback(*args)
        except Exception:
            logger.exception("%s of task %s failed", name, self.title)

    # ---- limits and ends

    def reach_soft_limit(self) -> None:
        """Raise SoftTimeLimitExceeded in the task; on the hub of its scheduler."""
        if not self.over:
            self.report("timeout_callback", True, self.soft)
            self.strike(SoftTimeLimitExceeded(self.soft))

    def reach_hard_limit(self) -> None:
        if not self.over and self.ending is None:
            self.begin_end(Ended("its hard time limit has come", self.hard))

    def terminate(self, signal: int | None = None) -> None:
        """End the task at its park; with SIGUSR1 raise SoftTimeLimitExceeded there. From: any thread."""
        worker = self.worker
        if worker is None:  # it has not begun: Celery will ask again when it does, or has ended
            return
        if signal == SIGUSR1:
            worker.scheduler.call(self.reach_soft_limit)
        else:
            worker.scheduler.call(self.begin_end, Ended(f"revoked, signal {int(signal or SIGTERM)}"))

    def begin_end(self, ending: Ended) -> None:
        """Have the task end; in its OS thread."""
        if self.over or self.ending is not None:
            return
        self.ending = ending
        if self.maker is not None:
            self.insist()

    def insist(self) -> None:
        """Raise the end at the park, and again if that was swallowed."""
        worker = self.maker
        if self.over or worker is None:
            return
        assert self.ending is not None
        if self.ending in self.raised and self.ending not in worker.pending:
            logger.warning("task %s has swallowed its end (%s): raised again", self.title, self.ending.reason)
            self.ending = Ended(str(self.ending.reason), self.ending.limit)
        if self.ending not in self.raised:
            self.strike(self.ending)
        self.alarms.append(worker.scheduler.loop.call_later(AGAIN_SECONDS, self.insist))

    def strike(self, error: BaseException) -> None:
        assert self.maker is not None
        self.raised.append(error)
        self.maker.interrupt(error)
