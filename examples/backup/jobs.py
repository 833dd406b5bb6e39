"""A job: items are passed to workers, each with its own connection, while a bar shows the progress.

`client` defines what is done with an item. The main thread fills the queue, draws the bar, increases the number of
workers if this is requested, and collects the problems.
"""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Final

from examples._late import Late

from .limiter import MOST_IN_FLIGHT, Bandwidth, ConcurrencyControl, sample_of
from .rpc import Address, Client, Stopped
from .tree import Entry, show
from .wire import printable
from .workers import Unit, WorkerGroup

AUTO: Final = 0  # as many dhagas as increase the speed
AUTO_START: Final = 1  # per thread
QUEUED: Final = 2048  # entries queued ahead of the workers, so that these do not run out of entries within a tick
TICK: Final = 0.1  # seconds between two updates of the bar
STOP_SECONDS: Final = 5.0
RSS_UNIT: Final = 1 if sys.platform == "darwin" else 1024

tqdm: Any = Late("tqdm")


@dataclass(frozen=True)
class Plan:
    """The settings of a job: `dhagas` per thread, or AUTO for as many as increase the speed; `bandwidth` in bytes/s,
    0 for no limit.
    """

    unit: Unit
    address: Address
    threads: int
    dhagas: int = 1
    bandwidth: float = 0.0
    bar: bool = False


@dataclass
class Tally:
    """The counts of one worker. Each tally has a single writer, so tallies are summed without a lock."""

    files: int = 0
    bytes: int = 0
    sent: int = 0
    deduplicated: int = 0


@dataclass
class Summary(Tally):
    """The counts of a job, and its time, CPU time and memory; `peak_rss` in bytes."""

    seconds: float = 0.0
    peak_rss: int = 0
    cpu_seconds: float = 0.0
    snapshot: str = ""
    workers: int = 0
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def rate(self) -> float:
        """Give bytes of files a second."""
        return self.bytes / self.seconds if self.seconds else 0.0

    def to_json(self) -> dict[str, Any]:
        """Return the summary as plain values."""
        return {**asdict(self), "rate": self.rate}


@dataclass
class Worker:
    """The objects that a worker uses."""

    client: Client
    tally: Tally


Work = Callable[[Worker, Entry], None]


class Job:
    """One run of a command. Use it as a context manager; its end, even by an error, ends the workers."""

    def __init__(self, plan: Plan) -> None:
        unit = plan.unit
        self.plan = plan
        self.summary = Summary()
        self.bandwidth = Bandwidth(plan.bandwidth, unit) if plan.bandwidth else None
        self.stop = unit.threading.Event()
        self.client = self._client()  # the main thread's own
        self._workers: list[Worker] = []
        self._tasks: list[Future[Any]] = []
        self._queue: Any = unit.queue.Queue(QUEUED)
        self._failures: list[BaseException] = []
        self._offered = 0
        self._bar: Any = None  # a tqdm, in a terminal
        self._next_tick = 0.0
        self._began = unit.time.monotonic()
        self._used = unit.time.process_time()
        self._group: WorkerGroup | None = None

    def __enter__(self) -> Job:
        raise_descriptor_limit()
        self.client.connect()
        self._group = self.plan.unit.group(self.plan.threads, self.plan.dhagas or MOST_IN_FLIGHT)
        if self.plan.bar:
            tqdm.tqdm.monitor_interval = 0  # no monitor thread, because the main thread draws the bar in time
            self._bar = tqdm.tqdm(unit="B", unit_scale=True, total=0, mininterval=0, leave=False, dynamic_ncols=True)
        return self

    def __exit__(self, *error: object) -> None:
        self._end_workers()
        if self._group:
            self._group.stop(STOP_SECONDS)
        self.client.close()
        if self._bar is not None:
            self._bar.close()
        self._close_summary()

    def problem(self, path: bytes, text: str) -> None:
        """Report what went wrong with one entry; the job goes on."""
        self.summary.problems.append(f"{show(path)}: {printable(text)}")

    def note(self, path: bytes, text: str) -> None:
        """Report a fact about an entry that is no problem but useful to know."""
        self.summary.notes.append(f"{show(path)}: {text}")

    def each(self, entries: Iterable[Entry], work: Work) -> None:
        """Pass every entry to the workers, and wait until all are done.

        Raises: the first error that a worker could not handle.
        """
        growth = self._growth()
        self._grow(growth.wanted, work)
        for entry in entries:
            self._offer(entry, growth, work)
        self._offer(None, growth, work)
        for task in self._tasks:
            while not task.done() and not self._failures:
                self.plan.unit.futures.wait([task], TICK)
                self._tick(growth, work)
        self._raise_failure()
        self._tasks.clear()
        self._queue = self.plan.unit.queue.Queue(QUEUED)

    def _client(self) -> Client:
        return Client(self.plan.unit, self.plan.address, self.stop, self.bandwidth)

    def _growth(self) -> ConcurrencyControl:
        threads, dhagas = self.plan.threads, self.plan.dhagas
        if dhagas != AUTO:
            return ConcurrencyControl(threads * dhagas, 1, most=0)
        return ConcurrencyControl(threads * AUTO_START, processors(), self.plan.bandwidth)

    def _grow(self, wanted: int, work: Work) -> None:
        assert self._group
        while len(self._tasks) < wanted:
            worker = Worker(self._client(), Tally())
            self._workers.append(worker)
            self._tasks.append(self._group.start(self._work, worker, work))
        self.summary.workers = max(self.summary.workers, wanted)

    def _offer(self, entry: Entry | None, growth: ConcurrencyControl, work: Work) -> None:
        self._offered += entry.size if entry else 0
        while True:
            self._raise_failure()
            self._tick(growth, work)
            try:
                self._queue.put_nowait(entry)
                return
            except self.plan.unit.queue.Full:
                # Not put(timeout=), because every get would wake this thread, and cost a switch of OS threads.
                self.plan.unit.time.sleep(TICK)

    def _work(self, worker: Worker, work: Work) -> None:
        try:
            while (entry := self._queue.get()) is not None and not self.stop.is_set():
                work(worker, entry)
            self._queue.put(None)  # so that the next worker also ends
        except Stopped:
            pass
        except Exception as error:
            self._failures.append(error)
            self.stop.set()
        finally:
            worker.client.close()

    def _end_workers(self) -> None:
        self.stop.set()
        for worker in self._workers:
            worker.client.cut()
        self._clear_queue()
        self._queue.put(None)
        self.plan.unit.futures.wait(self._tasks, STOP_SECONDS)

    def _clear_queue(self) -> None:
        try:
            while True:
                self._queue.get_nowait()
        except self.plan.unit.queue.Empty:
            pass

    def _raise_failure(self) -> None:
        if self._failures:
            raise self._failures[0]

    def _tick(self, growth: ConcurrencyControl, work: Work) -> None:
        now = self.plan.unit.time.monotonic()
        if now < self._next_tick:
            return
        self._next_tick = now + TICK
        if self.plan.dhagas == AUTO:
            requests = sum(worker.client.requests for worker in self._workers)
            passed = self.bandwidth.passed if self.bandwidth else 0
            self._grow(growth.observe(sample_of(self.plan.unit, requests, passed)), work)
        if self._bar is not None:
            self._draw(self._bar)

    def _draw(self, bar: Any) -> None:
        done = self._total()
        bar.total = max(self._offered, done.bytes)
        bar.n = done.bytes
        smaller = f"{done.bytes / done.sent:.1f} x smaller, " if done.sent else ""
        bar.set_postfix_str(f"{smaller}{done.files} files", refresh=False)
        bar.refresh()

    def _total(self) -> Tally:
        tallies = [worker.tally for worker in self._workers]
        return Tally(*(sum(getattr(tally, part.name) for tally in tallies) for part in fields(Tally)))

    def _close_summary(self) -> None:
        summary = self.summary
        for name, value in asdict(self._total()).items():
            setattr(summary, name, value)
        summary.seconds = self.plan.unit.time.monotonic() - self._began
        summary.peak_rss = peak_rss()
        summary.cpu_seconds = self.plan.unit.time.process_time() - self._used
        summary.problems.sort()
        summary.notes.sort()


def peak_rss() -> int:
    """Return the maximum of this process's resident bytes."""
    for line in _status():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * RSS_UNIT


def _status() -> list[str]:
    """Return the lines of Linux's status of this process, because ru_maxrss may be the peak of the parent process."""
    try:
        return Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return []


def processors() -> int:
    """Count the processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def raise_descriptor_limit() -> None:
    """Raise this process's limit of open sockets and files to the maximum."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = 65_536 if hard == resource.RLIM_INFINITY else min(hard, 65_536)
    if soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
