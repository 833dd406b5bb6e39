"""One sample: the figures of one worker, from its start to its end."""

import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.celery_pool.brokers import Addresses, stored
from benchmarks.celery_pool.workers import CeleryWorker, PoolOptions, working


@dataclass(frozen=True)
class Work:
    """The work of a worker: numbers of empty tasks, and waves of waiting tasks; a wave fills all places of the pool."""

    empty: int
    kept: int
    waves: int
    seconds: float

    @property
    def warm_up(self) -> int:
        """Return the number of tasks before the measurement."""
        return self.empty // 4


@dataclass(frozen=True)
class Sample:
    """The result: tasks per second, the worker's CPU seconds per task, and its bytes when idle and when tasks wait."""

    empty: float
    empty_cpu: float
    kept: float
    kept_cpu: float
    waiting: float
    waiting_cpu: float
    idle: float
    busy: float
    in_flight: int
    seconds: float

    @property
    def of_ideal(self) -> float:
        """Return the rate of waiting tasks as a fraction of the ideal rate, at which a task takes only its wait."""
        return self.waiting * self.seconds / self.in_flight


def sample(rival: PoolOptions, work: Work, addresses: Addresses, folder: Path) -> Sample:
    """Run a worker and measure it. Raises: RuntimeError if it fails, hangs or loses a result."""
    with working(rival, addresses, folder) as worker:
        _done(worker, "empty", work.warm_up)
        idle = worker.memory()
        empty, empty_cpu = _rate(worker, "empty", work.empty)
        kept, kept_cpu = _kept(worker, work.kept, addresses)
        waiting, waiting_cpu, busy = _waiting(worker, rival.size, work)
    return Sample(
        empty, empty_cpu, kept, kept_cpu, waiting, waiting_cpu, idle, busy, in_flight=rival.size, seconds=work.seconds
    )


def _done(worker: CeleryWorker, task: str, count: int) -> list[float]:
    worker.put(task, count)
    worker.take()
    return worker.wait(count)


def between(times: list[float], skipped: int) -> float:
    """Return the rate of tasks per second from the end of the ``skipped`` first tasks to the end."""
    return (len(times) - skipped) / (times[-1] - times[skipped - 1])


def _rate(worker: CeleryWorker, task: str, count: int) -> tuple[float, float]:
    """Return the rate of empty tasks without the first tenth, and the CPU seconds per task."""
    before = worker.cpu()
    times = _done(worker, task, count)
    return between(times, count // 10), (worker.cpu() - before) / count


def _kept(worker: CeleryWorker, count: int, addresses: Addresses) -> tuple[float, float]:
    """Return the same figures for tasks with results, and check that all results are stored. Raises: RuntimeError."""
    tasks = worker.put("kept", count)
    before = worker.cpu()
    worker.take()
    times = worker.wait(count)
    cpu = worker.cpu() - before
    if (there := stored(addresses.backend, tasks)) != count:
        raise RuntimeError(f"{worker.name}: {there} results of {count}")
    return between(times, count // 10), cpu / count


def _waiting(worker: CeleryWorker, at_once: int, work: Work) -> tuple[float, float, float]:
    """Return the rate of waiting tasks after the first wave, CPU seconds per task, and memory while a wave waits."""
    count = at_once * work.waves
    worker.put("waiting", count, work.seconds)
    before = worker.cpu()
    worker.take()
    worker.wait(at_once)
    time.sleep(work.seconds / 2)
    busy = worker.memory()
    times = worker.wait(count)
    return between(times, at_once), (worker.cpu() - before) / count, busy
