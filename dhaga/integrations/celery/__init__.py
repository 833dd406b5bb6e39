"""Celery's tasks on dhagas: ``worker_pool = "dhaga.integrations.celery:TaskPool"``, or ``-P custom`` with that name in
the environment variable ``CELERY_CUSTOM_WORKER_POOL``.

Celery's consumer stays in its own OS thread, with the sockets and timers it has anyway. Tasks run as dhagas of other OS
threads, ``--concurrency`` of them at once in all. Settings of the app: ``worker_dhaga_threads``, how many OS threads
(1); ``worker_dhaga_watch``, seconds after which a task that holds its thread is named in the log (1.0; 0: never);
``worker_dhaga_blocking_results``, whether a result on its way to the backend may hold up the other tasks of its thread
(False). Time limits and revokes reach a task where it parks: one that never does is named, and what it comes to stands.

What lives here is the pool as Celery's worker sees it; one task on its way: ``jobs.py``.
"""

from __future__ import annotations

import itertools
import threading
from collections import deque
from contextvars import copy_context
from typing import Any

from celery import signals
from celery.concurrency.base import BasePool
from celery.worker import state
from kombu.asynchronous import get_event_loop

from dhaga.debug import watch
from dhaga.kernel import originals
from dhaga.kernel.scheduler import Scheduler, schedulers
from dhaga.offload import OffloadPool
from dhaga.pool import started
from dhaga.workers import Staff, staffs

from .drains import follow_in_consumer, run_acks, wake
from .jobs import Job, logger
from .options import Options, refuse_unknown, warn_of_foreign
from .results import AT_ONCE, disconnect, equip

__all__ = ["TaskPool"]

PUMP_SECONDS = 0.2
"""How often, while the last tasks are waited for, heartbeats and acknowledgements of the broker get their turn."""

ROUSE_SECONDS = 0.01
"""How long after a sleeping thread was woken for a task others wait, so that it is woken once for all of them.

Woken for each, it and the consumer's thread pass the interpreter lock to and fro: an empty task took 460 instead of
330 µs of CPU over RabbitMQ, 1,190 instead of 970 over Redis; with 1 ms 350 and 1,190.
"""

COLD_SECONDS = 5.0
"""How long a cold shutdown, or the end of the OS threads, waits for what does not end."""

new_pool = itertools.count(1).__next__


class TaskPool(BasePool):  # type: ignore[misc]
    """A pool of dhagas for Celery's worker. Source: ``celery.concurrency.base.BasePool``, as its threads pool is."""

    body_can_be_buffer = True
    signal_safe = False

    limit: int

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        conf = {} if self.app is None else self.app.conf
        refuse_unknown(conf)
        self.settings = Options(conf, self.limit)
        self.jobs: dict[int, Job] = {}  # all that have not ended, by number
        self.waiting: deque[Job] = deque()  # those for which there is no room yet
        self.running = 0  # those that were handed to the staff
        self.guard = originals.RLock()  # one again: a handler of the consumer's thread may stop the pool
        self.quiet = threading.Event()
        self.numbers = itertools.count(1)
        self.cold = 0.0  # when a cold shutdown no longer waits
        self.hub: Any = None  # the loop of the consumer's thread, where its broker has one
        self.rousing = False  # a timer of that loop is going to wake the threads
        self.roused = 0.0  # when they were woken last
        self.called = False  # that loop is going to hand over tasks
        self.staff: Staff | None = None
        self.most = 0  # how many tasks the staff has ever been for
        self.door: OffloadPool | None = None
        self.watchdog: Any = None

    def on_start(self) -> None:
        """Start the OS threads: only now, as the worker may have been forked from what made the pool."""
        warn_of_foreign(self.options, self.forking_enable)
        name = f"celery-{new_pool()}"
        threads = started(Scheduler(f"{name}-{number}") for number in range(1, self.settings.threads + 1))
        self.most = self.limit
        self.staff = Staff(threads, self.limit, owned=True)
        if self.app is not None:
            if not self.settings.blocking_results:
                self.door = OffloadPool(f"{name}-results", AT_ONCE)
            for scheduler in threads:
                scheduler.spawn(equip, self.app, self.door).result()
        if self.settings.watch:
            self.watchdog = watch(self.settings.watch)
        signals.worker_shutting_down.connect(self.note_shutdown)
        signals.worker_process_init.send(sender=None)

    def note_shutdown(self, **about: Any) -> None:
        """Have the consumer see at once that it is to end, where it waits for tasks that may not come for long."""
        if self.hub is not None:
            wake(self.hub)

    def register_with_event_loop(self, loop: Any) -> None:
        """Take note of the loop that runs in the consumer's thread."""
        self.hub = loop

    # ---- tasks

    def on_apply(
        self,
        target: Any,
        args: Any = None,
        kwargs: Any = None,
        soft_timeout: float | None = None,
        timeout: float | None = None,
        correlation_id: str | None = None,
        **tells: Any,
    ) -> Job:
        """Have a task run, as soon as one of those under way has ended if they are as many as may be."""
        soft = soft_timeout or self.options.get("soft_timeout")
        hard = timeout or self.options.get("timeout")
        job = Job(self, next(self.numbers), soft, hard, tells)
        job.task_id = correlation_id
        job.title = f"{args[0] if args else target}[{correlation_id}]"
        self.jobs[job.number] = job
        request = job.request
        if request is not None and request.delivery_info.get("redelivered"):
            self.note_second(job)
        if self.hub is not None:
            follow_in_consumer(request, self.hub)
        with self.guard:
            if self.running >= self.limit:
                job.call_args, job.context = (target, args or (), kwargs or {}), copy_context()
                job.waited = True
                self.waiting.append(job)
                return job
            self.running += 1
        self.hand_in(job, (target, args or (), kwargs or {}))
        return job

    def hand_in(self, job: Job, args: tuple[Any, Any, Any]) -> None:
        """Put a task into the backlog, and wake a thread for it: at once, or soon if one was woken just now."""
        staff = self.at_work()
        if self.hub is None or staff.closed or not all(crew.scheduler.asleep for crew in staff.crews):
            staff.submit(job, job.run, args, {})
            return
        if not self.rousing:
            now = originals.monotonic()
            wait = self.roused + ROUSE_SECONDS - now
            if wait <= 0:
                self.roused = now
                staff.submit(job, job.run, args, {})
                return
            self.rousing = True
            self.hub.call_later(wait, self.rouse)
        staff.backlog.append((job, job.run, args, {}, copy_context()))

    def rouse(self) -> None:
        """Wake as many threads as there is work for; in the consumer's thread."""
        self.rousing = False
        self.roused = originals.monotonic()
        staff = self.at_work()
        if not staff.closed:
            self.wake_for(len(staff.backlog))

    def note_second(self, job: Job) -> None:
        """Say that a task is here twice."""
        if any(other.task_id == job.task_id and other is not job for other in list(self.jobs.values())):
            logger.warning(
                "task %s was delivered again while it is under way here, and will run twice: its broker took it "
                "for lost (Redis does after visibility_timeout, SQS too), or the connection was", job.title,
            )  # fmt: skip

    def at_work(self) -> Staff:
        if self.staff is None:
            raise RuntimeError("this pool has not been started")
        return self.staff

    def finish(self, job: Job) -> None:
        """Note the end of a task, and see to those that wait for room.

        That is left to the consumer's thread where it has a loop: while a signal stops the worker, it begins no task.
        """
        with self.guard:
            self.running -= 1
            self.jobs.pop(job.number, None)
            if not self.jobs:
                self.quiet.set()
            if not self.waiting or self.called:
                return
            if self.hub is None:
                self.hand_over()  # to whoever calls this, who looks for the next task after it
                return
            self.called = True
        self.hub.call_soon(self.fill_up)

    def fill_up(self) -> None:
        """Begin the tasks that there is room for; in the consumer's thread."""
        with self.guard:
            self.called = False
            moved = self.hand_over()
        self.wake_for(moved)

    def wake_for(self, tasks: int) -> None:
        """Wake as many threads as there is work for."""
        for crew in self.at_work().crews[:tasks]:
            crew.call_one()

    def hand_over(self) -> int:
        """Put into the backlog what there is room for. Under the guard. Returns: how many."""
        moved = 0
        while self.waiting and self.running < self.limit:
            job = self.waiting.popleft()
            self.running += 1
            self.at_work().backlog.append((job, job.run, job.call_args, {}, job.context))
            moved += 1
        return moved

    def terminate_job(self, pid: int, signal: int | None = None) -> None:
        """End one task, at its park. ``pid``: what was given out when it was accepted."""
        job = self.jobs.get(pid)
        if job is not None:
            job.terminate(signal)

    # ---- size

    def grow(self, n: int = 1) -> None:
        """Let ``n`` more tasks run at once."""
        with self.guard:
            self.limit += n
            for crew in self.at_work().crews:
                crew.room.extend(range(self.most + 1, self.limit + 1))
            self.most = max(self.most, self.limit)
        self.fill_up()

    def shrink(self, n: int = 1) -> None:
        """Let ``n`` fewer tasks run at once; those under way go on. Raises: ValueError if there are not so many."""
        with self.guard:
            if n > self.limit:
                raise ValueError(f"a pool for {self.limit} tasks cannot do with {n} fewer")
            self.limit -= n

    # ---- the end

    def on_stop(self) -> None:
        """End once the tasks under way have ended. Those that wait are let go: the broker has them still."""
        if self.staff is None or self.staff.closed:
            return
        self.let_go()
        self.wait_for_jobs()
        self.close_threads()
        if self.hub is not None:
            wake(self.hub)

    def let_go(self) -> None:
        """Forget the tasks that have not begun."""
        staff = self.at_work()
        with self.guard:
            for job in self.waiting:
                self.jobs.pop(job.number, None)
            self.waiting.clear()
        staff.withdraw()
        with self.guard:
            for job in [job for job in self.jobs.values() if job.cancelled()]:
                del self.jobs[job.number]
                self.running -= 1

    def wait_for_jobs(self) -> None:
        """Wait, in the consumer's thread, until the last task has ended; in a cold shutdown not for long."""
        hub = get_event_loop()
        while self.jobs:
            if state.should_terminate:
                self.cancel_begun()
            self.quiet.clear()
            if self.jobs:
                self.quiet.wait(PUMP_SECONDS)
            if hub is not None:
                run_acks(hub)
            if state.should_terminate:
                self.cold = self.cold or originals.monotonic() + COLD_SECONDS
                if originals.monotonic() > self.cold:
                    break
        if hub is not None:  # of those that had ended before: its loop may have been left before it came to them
            run_acks(hub)

    def cancel_begun(self) -> None:
        """Have Celery cancel, in a cold shutdown, what has begun after it had cancelled the others."""
        for job in list(self.jobs.values()):
            request = job.request
            if job.ending is None and request is not None and request.time_start:
                request.cancel(self, emit_retry=not request.task.acks_late)

    def close_threads(self) -> None:
        staff = self.at_work()
        if staff.closed:  # a second signal was faster
            return
        left = [job.title for job in self.jobs.values()]
        if left:
            logger.error("these tasks do not end, as they never park: %s; they are left to end with the process", left)
            self.leave()
            return
        if self.app is not None:
            for crew in staff.crews:
                crew.scheduler.spawn(disconnect, self.app).join(COLD_SECONDS)
        staff.close()
        try:
            staff.join(COLD_SECONDS)
        except TimeoutError as error:
            logger.error("%s", error)
            self.leave()
        if self.door is not None:
            self.door.shutdown(timeout=COLD_SECONDS)
        self.stop_watch()
        signals.worker_process_shutdown.send(sender=None, pid=None, exitcode=0)

    def stop_watch(self) -> None:
        if self.watchdog is not None:
            self.watchdog.stop()
            self.watchdog = None

    def leave(self) -> None:
        """Let the process end without whoever is left."""
        staff = self.at_work()
        staff.closed = True
        staffs.discard(staff)
        for crew in staff.crews:
            schedulers.discard(crew.scheduler)  # or the interpreter's exit would wait for it, twice ten seconds
            for worker in list(crew.workers):
                worker.daemon = True

    def on_terminate(self) -> None:
        """End without waiting for tasks: each is cancelled. What is acknowledged late the broker has still."""
        if self.staff is None or self.staff.closed:
            return
        self.let_go()
        self.staff.cancel()
        deadline = originals.monotonic() + COLD_SECONDS
        while self.jobs and originals.monotonic() < deadline:
            self.quiet.clear()
            if self.jobs:
                self.quiet.wait(PUMP_SECONDS)
        self.close_threads()

    # ---- what it tells

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
