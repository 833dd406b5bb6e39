"""A Celery worker in a separate process, with its CPU time and memory.

All tasks are in a queue before the worker consumes the queue, so the producers of tasks are not part of the figures.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from celery import Celery

from benchmarks.celery_pool.brokers import Addresses
from benchmarks.celery_pool.completion_times import CompletionTimes
from benchmarks.machine import children, cpu_seconds, private_memory

POOLS = ("dhaga", "gevent", "threads", "prefork")
PATIENCE = 60.0
"""Maximum number of seconds until a worker has started, and between the ends of two tasks."""

OPTIONS = ("--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel", "WARNING")
PREFETCHED = 1000
"""Maximum number of tasks that a worker has prefetched but not started; the same for all pools."""


@dataclass(frozen=True)
class PoolOptions:
    """A pool, and how many tasks it runs at once."""

    pool: str
    size: int

    @property
    def options(self) -> list[str]:
        """Return the worker's command-line options."""
        pool = "custom" if self.pool == "dhaga" else self.pool
        each = max(1, PREFETCHED // self.size)
        return ["--pool", pool, "--concurrency", str(self.size), "--prefetch-multiplier", str(each), *OPTIONS]


class CeleryWorker:
    """A running worker, and the tasks that were queued for it."""

    def __init__(
        self, process: subprocess.Popen[bytes], name: str, app: Celery, marks: CompletionTimes, log: Path
    ) -> None:
        self.process = process
        self.name = name
        self.app = app
        self.marks = marks
        self.log = log
        self.queues = [f"{name}-none"]

    def put(self, task: str, count: int, *more: object) -> list[str]:
        """Put ``count`` tasks into a new queue. Returns: the tasks' ids."""
        self.marks.clear()
        queue = f"{self.name}-{task}-{len(self.queues)}"
        self.queues.append(queue)
        with self.app.producer_or_acquire() as producer:
            send = self.app.send_task
            return [send(task, (number, *more), queue=queue, producer=producer).id for number in range(count)]

    def take(self) -> None:
        """Make the worker consume the queue that was filled last. Raises: RuntimeError if it does not answer."""
        deadline = time.monotonic() + PATIENCE
        while not self.app.control.add_consumer(
            self.queues[-1], destination=[self.name], reply=True, timeout=1.0, limit=1
        ):
            self.check(deadline)

    def wait(self, count: int) -> list[float]:
        """Wait until ``count`` tasks are done. Returns: their end times. Raises: RuntimeError if the worker hangs."""
        before, deadline = 0, time.monotonic() + PATIENCE
        while len(times := self.marks.times(count)) < count:
            if len(times) > before:
                before, deadline = len(times), time.monotonic() + PATIENCE
            self.check(deadline)
            time.sleep(0.02)
        return times

    def check(self, deadline: float) -> None:
        """Raise RuntimeError, with the worker's last output, if the worker has ended or the deadline has passed."""
        if self.process.poll() is not None or time.monotonic() > deadline:
            words = self.log.read_text(errors="replace")[-1000:].strip()
            raise RuntimeError(f"{self.name} {'hangs' if self.process.poll() is None else 'has ended'}: {words}")

    def cpu(self) -> float:
        """Return the CPU seconds that the worker and its processes have used."""
        return sum(cpu_seconds(process) or 0 for process in (self.process.pid, *children(self.process.pid)))

    def memory(self) -> float:
        """Return the bytes that the worker and its processes share with no other process."""
        return sum(private_memory(process) for process in (self.process.pid, *children(self.process.pid)))

    def stop(self) -> None:
        """End the worker, and remove its queues and their exchanges."""
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(20)
        finally:
            self.process.kill()
        with self.app.connection_for_write() as connection:
            for queue in self.queues:
                connection.default_channel.queue_delete(queue)
                connection.default_channel.exchange_delete(queue)


@contextmanager
def working(rival: PoolOptions, addresses: Addresses, folder: Path) -> Iterator[CeleryWorker]:
    """Run a worker. Raises: RuntimeError if the worker does not start."""
    name = f"{rival.pool}-{uuid4().hex[:8]}@benchmark"
    marks = CompletionTimes(folder / name)
    settings = {
        "CELERIES_POOL": rival.pool,
        "CELERIES_MARKS": str(folder / name),
        "CELERIES_BROKER": addresses.broker,
        "CELERIES_BACKEND": addresses.backend,
        "CELERY_CUSTOM_WORKER_POOL": "dhaga.integrations.celery:TaskPool",
    }
    command = ["celery", "-A", "benchmarks.celery_pool.app", "worker", "-n", name, "-Q", f"{name}-none", *rival.options]
    log = folder / f"{name}.log"
    with (
        log.open("wb") as output,
        subprocess.Popen(
            [sys.executable, "-m", *command],
            env=os.environ | settings,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        ) as process,
        Celery("celeries", broker=addresses.broker) as app,
    ):
        worker = CeleryWorker(process, name, app, marks, log)
        try:
            yield worker
            worker.stop()
        finally:
            process.kill()
