"""The pool of Celery's worker that runs each task in a dhaga. Ways to choose the pool:

- ``worker_pool = "dhaga.integrations.celery:TaskPool"``
- ``-P custom`` with that name in the environment variable ``CELERY_CUSTOM_WORKER_POOL``
- ``-P dhaga`` under ``python -m dhaga -m celery``

Settings of the app, with their defaults:

- ``worker_dhaga_threads`` (1): the number of OS threads
- ``worker_dhaga_watch`` (1.0): number of seconds after which the log names a task that blocks its thread; 0: never
- ``worker_dhaga_blocking_results`` (False): whether storing a result may block the other tasks of its thread

``--concurrency`` counts the tasks of all threads. Time limits and revokes reach a task where it parks; if preemption is
on, also where it computes in Python. The log names a task that no limit could reach, and the task's result is kept.

The consumer's OS thread runs no dhaga. It runs Celery's loop, which is a kombu ``Hub`` if the broker's transport
supports a ``Hub``. The thread serves the broker's socket, fires timers, sends acknowledgements, and calls ``on_apply``,
``on_stop``, ``fill_up`` and ``wake_workers``. A signal handler may stop the pool in that thread at any bytecode, so
``lock`` is reentrant. Each of the pool's OS threads has a scheduler, runs tasks in worker dhagas, calls ``finish``, and
enforces the limits of jobs. The offload pool's OS threads store results in backends that cannot park.

A job is in ``jobs`` until it has ended. ``running`` is the number of jobs given to the worker pool: at most ``limit``,
except after ``shrink``. Other jobs are in ``waiting``, from which ``move_waiting`` removes them under ``lock``.
``_jobs`` describes one job.
"""

from __future__ import annotations

import itertools
import threading
from collections import deque
from contextvars import copy_context
from typing import Any

from ..._kernel import originals
from ..._kernel.faces.extras import missing_extra
from ..._kernel.run.attachment import schedulers
from ..._kernel.run.preemption import let_deadlines_strike
from ..._kernel.run.scheduler import Scheduler
from ..._kernel.wait.current import clock_here
from ..._workers.dhaga_pool import SchedulerWorkers, WorkerPool, worker_pools
from ..._workers.offload import OffloadPool
from ...debug import watch
from ...pool import start_all

try:
    from celery import signals
    from celery.concurrency.base import BasePool
    from celery.worker import state
    from kombu.asynchronous import get_event_loop
except ModuleNotFoundError as error:
    raise missing_extra("dhaga.integrations.celery", "celery", error) from None

from ._acks import defer_ack, run_acks, wake_hub
from ._coroutines import await_coroutines
from ._jobs import Job, logger
from ._options import Options, refuse_unknown, warn_of_foreign
from ._patching import unpatched_line
from ._result_store import MAX_OFFLOADED, disconnect, wrap_backend

__all__ = ["TaskPool"]

ACK_POLL_SECONDS = 0.2
"""Number of seconds between two rounds of heartbeats and acknowledgements while a stop waits for the last tasks."""

WAKE_BATCH_SECONDS = 0.01
"""Shortest interval in seconds between two wakes of a sleeping thread, so that one wake serves several tasks.

With a wake for each task, the woken thread and the consumer's thread contend for the interpreter lock. Over RabbitMQ,
an empty task takes 460 µs of CPU time with a wake for each task, 350 µs with an interval of 1 ms, and 330 µs with this
interval. Over Redis, the CPU times are 1,190 µs, 1,190 µs and 970 µs, in the same order.
"""

COLD_SHUTDOWN_SECONDS = 5.0
"""Longest wait in seconds for tasks in a cold shutdown, and for the end of the OS threads."""

new_pool = itertools.count(1).__next__


class TaskPool(BasePool):  # type: ignore[misc]
    """A pool of dhagas for Celery's worker.

    Source: ``celery.concurrency.base.BasePool``, like Celery's pool of threads.
    """

    body_can_be_buffer = True
    signal_safe = False

    limit: int

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        conf = {} if self.app is None else self.app.conf
        refuse_unknown(conf)
        self.settings: Options = Options(conf, self.limit)
        self.jobs: dict[int, Job] = {}  # jobs that have not ended, by number
        self.waiting: deque[Job] = deque()  # jobs above the limit
        self.running: int = 0  # number of jobs given to the worker pool
        self.lock: Any = originals.RLock()  # reentrant: a signal handler may stop the pool
        self.no_jobs: threading.Event = threading.Event()
        self.numbers: itertools.count[int] = itertools.count(1)
        self.cold_deadline: float = 0.0  # end of the wait for tasks in a cold shutdown
        self._hub: Any = None  # the consumer's loop, if the broker has one
        self.wake_scheduled: bool = False  # whether a timer of the consumer's loop will wake the threads
        self.last_wake: float = 0.0  # time of the last wake
        self.fill_scheduled: bool = False  # whether the consumer's loop will call fill_up
        self.worker_pool: WorkerPool | None = None
        self.max_limit: int = 0  # highest limit so far
        self.offload_pool: OffloadPool | None = None
        self.watchdog: Any = None

    def on_start(self) -> None:
        """Start the OS threads. ``__init__`` starts no threads, because the worker may fork after ``__init__``."""
        warn_of_foreign(self.options, self.forking_enable)
        if (line := unpatched_line()) is not None:
            logger.warning(line)
        let_deadlines_strike()
        name = f"celery-{new_pool()}"
        threads = start_all(Scheduler(f"{name}-{number}") for number in range(1, self.settings.threads + 1))
        self.max_limit = self.limit
        self.worker_pool = WorkerPool(threads, self.limit)
        if self.app is not None:
            await_coroutines(self.app)
            if not self.settings.blocking_results:
                self.offload_pool = OffloadPool(f"{name}-results", MAX_OFFLOADED)
            for scheduler in threads:
                scheduler.spawn(wrap_backend, self.app, self.offload_pool).result()
        if self.settings.watch:
            self.watchdog = watch(self.settings.watch)
        signals.worker_shutting_down.connect(self.wake_on_shutdown)
        signals.worker_process_init.send(sender=None)

    def wake_on_shutdown(self, **about: Any) -> None:
        """Wake the consumer at its shutdown, because the consumer may wait long for the next task."""
        if self._hub is not None:
            wake_hub(self._hub)

    def register_with_event_loop(self, loop: Any) -> None:
        """Store the loop of the consumer's thread."""
        self._hub = loop

    # ---- tasks

    def on_apply(
        self,
        target: Any,
        args: Any = None,
        kwargs: Any = None,
        soft_timeout: float | None = None,
        timeout: float | None = None,
        correlation_id: str | None = None,
        **callbacks: Any,
    ) -> Job:
        """Run a task, or queue it while ``limit`` tasks run."""
        soft = soft_timeout or self.options.get("soft_timeout")
        hard = timeout or self.options.get("timeout")
        job = Job(self, next(self.numbers), soft, hard, callbacks)
        job.task_id = correlation_id
        job.title = f"{args[0] if args else target}[{correlation_id}]"
        self.jobs[job.number] = job
        request = job.request
        if request is not None and request.delivery_info.get("redelivered"):
            self.warn_redelivered(job)
        if self._hub is not None:
            defer_ack(request, self._hub)
        with self.lock:
            if self.running >= self.limit:
                job.call_args, job.context = (target, args or (), kwargs or {}), copy_context()
                job.was_queued = True
                self.waiting.append(job)
                return job
            self.running += 1
        self.submit(job, (target, args or (), kwargs or {}))
        return job

    def submit(self, job: Job, args: tuple[Any, Any, Any]) -> None:
        """Append a task to the backlog, and wake a thread at once or ``WAKE_BATCH_SECONDS`` after the last wake.

        ``Job.run`` is submitted as a function. A call of the method ``job.run`` would nest an evaluation loop, which
        takes 1 KB of C stack for each waiting task.
        """
        worker_pool = self.started_pool()
        if self._hub is None or worker_pool.closed or not all(group.scheduler.asleep for group in worker_pool.groups):
            worker_pool.submit(job, Job.run, (job, *args), {})
            return
        if not self.wake_scheduled:
            now = originals.monotonic()
            wait = self.last_wake + WAKE_BATCH_SECONDS - now
            if wait <= 0:
                self.last_wake = now
                worker_pool.submit(job, Job.run, (job, *args), {})
                return
            self.wake_scheduled = True
            self._hub.call_later(wait, self.wake_workers)
        worker_pool.backlog.append((job, Job.run, (job, *args), {}, copy_context()))

    def wake_workers(self) -> None:
        """Wake as many threads as there are tasks in the backlog. From: the consumer's thread."""
        self.wake_scheduled = False
        self.last_wake = originals.monotonic()
        worker_pool = self.started_pool()
        if not worker_pool.closed:
            self.wake_for(len(worker_pool.backlog))

    def warn_redelivered(self, job: Job) -> None:
        """Log a task that was delivered again while it runs in this worker."""
        if any(other.task_id == job.task_id and other is not job for other in list(self.jobs.values())):
            logger.warning(
                "task %s was delivered again while it runs here, and will run twice: the broker considered it lost "
                "(Redis and SQS do after visibility_timeout), or the connection was lost", job.title,
            )  # fmt: skip

    def started_pool(self) -> WorkerPool:
        if self.worker_pool is None:
            raise RuntimeError("this pool has not been started")
        return self.worker_pool

    def finish(self, job: Job) -> None:
        """Discard an ended task and start waiting tasks.

        If the consumer's thread has a loop, the loop starts the waiting tasks. The thread's signal handlers start no
        tasks, because they stop the worker.
        """
        with self.lock:
            self.running -= 1
            self.jobs.pop(job.number, None)
            if not self.jobs:
                self.no_jobs.set()
            if not self.waiting or self.fill_scheduled:
                return
            if self._hub is None:
                self.move_waiting()  # before the calling worker takes its next task
                return
            self.fill_scheduled = True
        self._hub.call_soon(self.fill_up)

    def fill_up(self) -> None:
        """Start waiting tasks up to the limit. From: the consumer's thread."""
        with self.lock:
            self.fill_scheduled = False
            moved = self.move_waiting()
        self.wake_for(moved)

    def wake_for(self, tasks: int) -> None:
        """Wake a sleeping thread for each task, the least busy first. If too few threads sleep, wake all."""
        groups = self.started_pool().groups
        sleeping = [group for group in groups if group.scheduler.asleep]
        for group in sorted(sleeping, key=SchedulerWorkers.busy_count):
            if tasks <= 0:
                return
            tasks -= group.wake_one()
        if tasks > 0:
            for group in groups:
                if group not in sleeping:
                    group.wake_one()

    def move_waiting(self) -> int:
        """Move waiting tasks into the backlog, up to the limit. The caller holds ``lock``. Returns: the number of moved
        tasks.
        """
        moved = 0
        while self.waiting and self.running < self.limit:
            job = self.waiting.popleft()
            self.running += 1
            self.started_pool().backlog.append((job, Job.run, (job, *job.call_args), {}, job.context))
            moved += 1
        return moved

    def terminate_job(self, pid: int, signal: int | None = None) -> None:
        """End one task where it parks. ``pid`` is the number that Celery got when the task was accepted."""
        job = self.jobs.get(pid)
        if job is not None:
            job.terminate(signal)

    # ---- size

    def grow(self, n: int = 1) -> None:
        """Raise the limit by ``n``."""
        with self.lock:
            self.limit += n
            for group in self.started_pool().groups:
                group.free_numbers.extend(range(self.max_limit + 1, self.limit + 1))
            self.max_limit = max(self.max_limit, self.limit)
        self.fill_up()

    def shrink(self, n: int = 1) -> None:
        """Lower the limit by ``n``; running tasks continue. Raises: ValueError if the limit would fall below 0."""
        with self.lock:
            if n > self.limit:
                raise ValueError(f"cannot lower the limit of {self.limit} tasks by {n}")
            self.limit -= n

    # ---- stopping

    def on_stop(self) -> None:
        """Stop the pool once its running tasks have ended. Discard waiting tasks: the broker redelivers them."""
        if self.worker_pool is None or self.worker_pool.closed:
            return
        self.drop_waiting()
        self.wait_for_jobs()
        self.close_threads()
        if self._hub is not None:
            wake_hub(self._hub)

    def drop_waiting(self) -> None:
        """Discard the tasks that have not started."""
        worker_pool = self.started_pool()
        with self.lock:
            for job in self.waiting:
                self.jobs.pop(job.number, None)
            self.waiting.clear()
        worker_pool.withdraw()
        with self.lock:
            for job in [job for job in self.jobs.values() if job.cancelled()]:
                del self.jobs[job.number]
                self.running -= 1

    def wait_for_jobs(self) -> None:
        """Wait until the last task has ended; in a cold shutdown, wait at most ``COLD_SHUTDOWN_SECONDS``.

        From: the consumer's thread.
        """
        hub, clock = get_event_loop(), clock_here()
        while self.jobs:
            if state.should_terminate:
                self.cancel_begun()
            self.no_jobs.clear()
            if self.jobs:
                self.no_jobs.wait(ACK_POLL_SECONDS)
            if hub is not None:
                run_acks(hub)
            if state.should_terminate:
                self.cold_deadline = self.cold_deadline or clock() + COLD_SHUTDOWN_SECONDS
                if clock() > self.cold_deadline:
                    break
        if hub is not None:  # the loop may have stopped before it ran acknowledgements that were queued earlier
            run_acks(hub)

    def cancel_begun(self) -> None:
        """Cancel the tasks that started after Celery's cold shutdown had cancelled the others."""
        for job in list(self.jobs.values()):
            request = job.request
            if job.ending is None and request is not None and request.time_start:
                request.cancel(self, emit_retry=not request.task.acks_late)

    def close_threads(self) -> None:
        worker_pool = self.started_pool()
        if worker_pool.closed:  # a second signal has closed the pool
            return
        unended = [job.title for job in self.jobs.values()]
        if unended:
            logger.error("these tasks do not end, because they never park: %s; they will end with the process", unended)
            self.abandon_threads()
            return
        if self.app is not None:
            for group in worker_pool.groups:
                group.scheduler.spawn(disconnect, self.app).join(COLD_SHUTDOWN_SECONDS)
        worker_pool.close()
        try:
            worker_pool.join(COLD_SHUTDOWN_SECONDS)
            self.stop_threads()
        except TimeoutError as error:
            logger.error("%s", error)
            self.abandon_threads()
        if self.offload_pool is not None:
            self.offload_pool.shutdown(timeout=COLD_SHUTDOWN_SECONDS)
        self.stop_watch()
        signals.worker_process_shutdown.send(sender=None, pid=None, exitcode=0)

    def stop_threads(self) -> None:
        """Stop the pool's threads. Skip threads that still have dhagas, which the app's exit handlers may need."""
        for group in self.started_pool().groups:
            if not group.scheduler.live:
                group.scheduler.stop(COLD_SHUTDOWN_SECONDS)

    def stop_watch(self) -> None:
        if self.watchdog is not None:
            self.watchdog.stop()
            self.watchdog = None

    def abandon_threads(self) -> None:
        """Leave the pool's threads running until the process exits. The exit does not wait for these threads."""
        worker_pool = self.started_pool()
        worker_pool.closed = True
        worker_pools.discard(worker_pool)
        for group in worker_pool.groups:
            schedulers.discard(group.scheduler)  # otherwise the interpreter's exit would wait twice for ten seconds
            for worker in list(group.workers):
                worker.daemon = True

    def on_terminate(self) -> None:
        """Stop the pool and cancel all tasks. The broker redelivers tasks that are acknowledged late."""
        if self.worker_pool is None or self.worker_pool.closed:
            return
        self.drop_waiting()
        self.worker_pool.cancel()
        clock = clock_here()
        deadline = clock() + COLD_SHUTDOWN_SECONDS
        while self.jobs and clock() < deadline:
            self.no_jobs.clear()
            if self.jobs:
                self.no_jobs.wait(ACK_POLL_SECONDS)
        self.close_threads()

    # ---- introspection

    def _get_info(self) -> dict[str, Any]:
        info: dict[str, Any] = super()._get_info()
        info.update(
            {
                "threads": self.settings.threads,
                "running": self.running,
                "waiting": len(self.waiting),
                "timeouts": [self.options.get("soft_timeout") or 0, self.options.get("timeout") or 0],
            }
        )
        return info
