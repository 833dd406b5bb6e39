"""The search for a failure: a program is run with many seeds, on all cores, each run in a process of its own."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import tornado.platform.asyncio  # noqa: F401  # else each forked process would spend 25 ms on this import

from ... import monkey
from ..._kernel import originals
from .._base.ranges import is_number
from .._schedule.exhaustive import Schedules
from .._schedule.strategies import Exhaustive
from .._standard.standard import replaced
from .._world.world import check_count
from ..disk import remove_folders_of
from .limit import GRACE, late_text
from .outcome import Child, Order, Outcome, Program, Settings, start_child

REAL_SECONDS = 60.0
"""Seconds of real time that a run may take. Then the process of the run reports its threads and ends.

If the process does not end itself, the search kills it.
"""

RECENT = 100
"""The number of most recent runs among which new runs are counted. A run is new if no earlier run had the same events.
"""

clock = time.perf_counter


@dataclass
class Findings:
    """The findings of a search. ``complete``: whether neither an interruption nor a failure has ended the search."""

    runs: int = 0
    hashes: set[str] = field(default_factory=set)
    events: int = 0
    failures: list[Outcome] = field(default_factory=list)
    length: int = 1
    seconds: float = 0.0
    complete: bool = False
    interrupted: bool = False
    recent: deque[bool] = field(default_factory=partial(deque, maxlen=RECENT), repr=False)

    def measure(self, outcome: Outcome) -> None:
        """Note the length of the program from its run in FIFO order. This run is counted only if it failed."""
        self.length = max(1, outcome.length)
        if outcome.failed:
            self.add(outcome)

    def add(self, outcome: Outcome) -> None:
        self.runs += 1
        self.events += outcome.events
        self.recent.append(outcome.hash not in self.hashes)
        self.hashes.add(outcome.hash)
        if outcome.failed:
            self.failures.append(outcome)
            self.failures.sort(key=lambda each: each.seed)

    def rate_of_new(self) -> str:
        """Return how many of the last runs were new, as text. If hardly any run is new, more seeds will find little."""
        if self.runs <= RECENT:
            return ""
        return f" ({sum(self.recent)} of the last {RECENT} new)"

    def __str__(self) -> str:
        rate = self.runs / self.seconds if self.seconds else 0.0
        state = " (interrupted)" if self.interrupted else ""
        return (
            f"{self.runs:,} runs{state}, {len(self.hashes):,} of them different{self.rate_of_new()}, "
            f"{len(self.failures):,} failed; "
            f"{self.seconds:.1f} s, {rate:,.0f} runs a second"
        )


class Children:
    """The processes that make runs now, at most ``jobs`` of them."""

    def __init__(self, program: Program, settings: Settings, jobs: int, real_seconds: float) -> None:
        check_count("jobs", jobs)
        if not is_number(real_seconds) or not real_seconds > 0:
            raise ValueError(f"real_seconds is a number of seconds above 0, and not {real_seconds!r}")
        self.program = program
        self.settings = settings
        self.jobs = jobs
        self.real_seconds = real_seconds
        self.by_fd: dict[int, Child] = {}
        self.poll = originals.poll()
        self.read = monkey.original("os", "read")
        self.close = monkey.original("os", "close")
        self.waitpid = monkey.original("os", "waitpid")

    def start(self, order: Order) -> None:
        child = start_child(self.program, self.settings, order, clock(), self.real_seconds)
        self.by_fd[child.fd] = child
        self.poll.register(child.fd, originals.select_module.POLLIN)

    def wait(self) -> Iterator[Outcome]:
        """Wait until at least one process has ended, and yield the outcomes of the ended processes."""
        while self.by_fd:
            ended = [outcome for fd, _ in self.poll.poll(1000) if (outcome := self.receive(fd)) is not None]
            ended += self.kill_late()
            if ended:
                yield from ended
                return

    def receive(self, fd: int) -> Outcome | None:
        child = self.by_fd[fd]
        if data := self.read(fd, 1 << 16):
            child.received += data
            return None
        outcome = child.outcome(self.end(child))
        if outcome.kind in ("Hang", "ProcessDied"):
            remove_folders_of(child.pid)
        return outcome

    def end(self, child: Child) -> int:
        """Wait for the end of a process. Returns: the exit status of the process."""
        del self.by_fd[child.fd]
        self.poll.unregister(child.fd)
        self.close(child.fd)
        return os.waitstatus_to_exitcode(self.waitpid(child.pid, 0)[1])

    def kill_late(self) -> list[Outcome]:
        late = [child for child in self.by_fd.values() if clock() - child.began_at > self.real_seconds + GRACE]
        return [self.kill(child) for child in late]

    def kill(self, child: Child) -> Outcome:
        os.kill(child.pid, signal.SIGKILL)
        self.end(child)
        remove_folders_of(child.pid)
        return Outcome(child.order.seed, kind="Hang", report=late_text(child.order.seed, self.real_seconds))

    def kill_all(self) -> None:
        for child in list(self.by_fd.values()):
            self.kill(child)


def run_all(
    children: Children, orders: Iterable[Order], note: Callable[[Outcome], object], stop: Callable[[], bool]
) -> None:
    """Begin a run for each order, until ``stop()`` returns true. Wait for all begun runs. ``note`` may add orders."""
    waiting = iter(orders)
    while True:
        while len(children.by_fd) < children.jobs and not stop():
            order = next(waiting, None)
            if order is None:
                break
            children.start(order)
        if not children.by_fd:
            return
        for outcome in children.wait():
            note(outcome)


def orders_of(seeds: Sequence[int], schedules: Schedules | None) -> Iterator[Order]:
    if schedules is None:
        yield from (Order(seed) for seed in seeds)
        return
    # All schedules use one seed, because a program can have other choices after other draws.
    seed = first_of(seeds)
    for prefix in schedules:
        yield Order(seed, prefix=prefix)


def first_of(seeds: Sequence[int]) -> int:
    return seeds[0] if seeds else 0


def search(
    program: Program,
    seeds: int | Iterable[int] = 100,
    settings: Settings | None = None,
    *,
    jobs: int | None = None,
    keep_going: bool = False,
    real_seconds: float = REAL_SECONDS,
    progress: Callable[[Findings], object] | None = None,
) -> Findings:
    """Run a program with many seeds, each in a forked process, until a run fails.

    Before the seeds, one run in FIFO order and without preemptions measures the program's length for the strategy.
    ``Exhaustive`` needs no such run, uses only the first seed, and makes one run at a time. ``seeds``: the number of
    seeds, or the seeds themselves. ``jobs``: the number of processes at once, by default one for each core.
    ``keep_going``: whether the search continues after a failure.
    After a Ctrl-C, the search ends and returns its findings so far.
    Returns: the findings. Raises: TypeError, ValueError, PatchError.
    """
    settings = settings or Settings()
    settings.check()
    findings = Findings()
    exhaustive = isinstance(settings.strategy, Exhaustive)
    schedules = Schedules(settings.strategy.preemptions) if isinstance(settings.strategy, Exhaustive) else None
    if isinstance(seeds, int):
        check_count("seeds", seeds)
    wanted = range(seeds) if isinstance(seeds, int) else list(seeds)
    began_at = clock()
    children: Any = None

    def note(outcome: Outcome) -> None:
        findings.add(outcome)
        findings.seconds = clock() - began_at
        if schedules is not None:
            schedules.add(len(outcome.prefix), outcome.decisions)
        if progress is not None:
            progress(findings)

    def note_length(outcome: Outcome) -> None:
        findings.measure(outcome)
        if progress is not None and findings.runs:
            progress(findings)

    def stop() -> bool:
        return bool(findings.failures) and not keep_going

    with replaced():
        most = (os.cpu_count() or 1) if jobs is None else jobs
        children = Children(program, settings, 1 if exhaustive else most, real_seconds)
        try:
            if not exhaustive:
                run_all(children, [Order(first_of(wanted), switches="")], note_length, stop)
                children.settings = settings.for_length(findings.length)
            run_all(children, orders_of(wanted, schedules), note, stop)
        except KeyboardInterrupt:
            findings.interrupted = True
            children.kill_all()
    findings.seconds = clock() - began_at
    findings.complete = not findings.interrupted and not stop()
    return findings


def run_one(program: Program, settings: Settings, order: Order, real_seconds: float = REAL_SECONDS) -> Outcome:
    """Make one run in a process of its own. Returns: the outcome. Raises: TypeError, ValueError."""
    settings.check()
    with replaced():
        children = Children(program, settings, 1, real_seconds)
        children.start(order)
        try:
            return next(children.wait())
        finally:
            children.kill_all()


def progress_line(findings: Findings) -> None:
    """Write the progress of a search over the current line of the terminal. Do nothing if stderr is not a terminal."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\033[K{findings}")
        sys.stderr.flush()
