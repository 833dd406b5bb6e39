"""Random programs of threads, locks, queues and conditions, whose results do not depend on the threads' order.

A program is drawn from a seed, and runs on standard threads or on dhagas. It has phases, which a barrier separates. In
each phase, all threads have a job of the same kind:

- *add* to shared counters, with a read and a later write, while the counters' locks are held in ascending order;
- *trade*: put items into a bounded queue, or get items from it; the items of all getters are added up;
- *take turns* in a random order, with one condition: each thread writes its number into the log;
- *pass a gate* of a semaphore, and note whether too many threads were inside;
- *pipe* data that may be larger than a pipe, through bare fds and unbuffered files: the results of the writes and the
  number of received bytes are noted, and the error of the writes to a reader that leaves.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

THREADS = 4
PHASES = 5
COUNTERS = 3
WIDTH = 2
"""Number of threads that the gate admits."""

Job = tuple[Any, ...]


@dataclass
class Result:
    """The result of a program."""

    counters: list[int] = field(default_factory=lambda: [0] * COUNTERS)
    consumed: int = 0
    log: list[int] = field(default_factory=list)
    crowded: bool = False
    piped: list[str] = field(default_factory=list)


def phases_of(seed: int) -> list[tuple[str, list[Job]]]:
    """Draw a program: for each phase its kind and the job of each thread."""
    draw = random.Random(seed)
    return [(kind := draw.choice([*JOBS]), JOBS[kind](draw)) for _ in range(PHASES)]


def additions(draw: random.Random) -> list[Job]:
    def addition() -> Job:
        used = sorted(draw.sample(range(COUNTERS), draw.randint(1, COUNTERS)))
        return used, draw.randint(1, 9), draw.randint(0, 4)

    return [tuple(addition() for _ in range(draw.randint(1, 6))) for _ in range(THREADS)]


def trade(draw: random.Random) -> list[Job]:
    items = [draw.randint(1, 99) for _ in range(draw.randint(2, 12))]
    cut = draw.randint(0, len(items))
    return [("put", items[:cut]), ("put", items[cut:]), ("get", cut), ("get", len(items) - cut)]


def turns(draw: random.Random) -> list[Job]:
    order = [number for number in range(THREADS) for _ in range(draw.randint(1, 3))]
    draw.shuffle(order)
    return [(order,)] * THREADS


def visits(draw: random.Random) -> list[Job]:
    return [(draw.randint(1, 4), draw.randint(0, 4)) for _ in range(THREADS)]


def pipings(draw: random.Random) -> list[Job]:
    """Return the jobs of two writers and their readers. A reader reads everything, or leaves at once."""
    jobs: list[Job] = []
    for pair in range(2):
        by_file, leaves = draw.random() < 0.5, draw.random() < 0.3
        sizes = [draw.choice((1, 4096, 70_000, 200_000)) for _ in range(draw.randint(1, 3))]
        jobs.append(("write until it fails" if leaves else "write", pair, sizes, by_file))
        jobs.append(("leave" if leaves else "read", pair, draw.choice((1000, 65_536)), draw.random() < 0.5))
    return jobs


JOBS: dict[str, Callable[[random.Random], list[Job]]] = {
    "add": additions,
    "trade": trade,
    "take turns": turns,
    "pass a gate": visits,
    "pipe": pipings,
}


class Program:
    """A drawn program, with the threads, locks and queues of two modules. ``locked``: whether its locks are real."""

    def __init__(self, seed: int, threading: Any, queue: Any, os: Any, locked: bool = True) -> None:
        self.os = os
        self.pipes = [[os.pipe() for _ in range(2)] if kind == "pipe" else [] for kind, _ in phases_of(seed)]
        self.phases = phases_of(seed)
        self.threading = threading
        self.result = Result()
        self.errors: list[BaseException] = []
        self.locks = [threading.Lock() if locked else contextlib.nullcontext() for _ in range(COUNTERS + 1)]
        self.barrier = threading.Barrier(THREADS)
        self.turned = threading.Condition()
        self.gate = threading.Semaphore(WIDTH)
        self.inside = 0
        # For each phase: the number of turns taken, and the queue of offered items.
        self.taken = [0] * PHASES
        self.offered = [queue.Queue(2) for _ in range(PHASES)]

    def run(self) -> Result:
        """Run all threads to their end. Raises: the first error of any."""
        threads = [self.threading.Thread(target=self.work, args=(number,)) for number in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self.errors:
            raise self.errors[0]
        self.result.piped.sort()
        return self.result

    def work(self, me: int) -> None:
        """Do the jobs of a thread, one in each phase."""
        does: dict[str, Callable[..., None]] = {
            "add": self.add,
            "trade": self.trade,
            "take turns": self.take_turns,
            "pass a gate": self.visit,
            "pipe": self.pipe,
        }
        try:
            for phase, (kind, jobs) in enumerate(self.phases):
                does[kind](phase, me, *jobs[me])
                self.barrier.wait()
        except BaseException as error:
            self.errors.append(error)
            self.barrier.abort()

    def add(self, _phase: int, _me: int, *additions: tuple[list[int], int, int]) -> None:
        for used, amount, delay in additions:
            with contextlib.ExitStack() as held:
                for each in used:
                    held.enter_context(self.locks[each])
                for each in used:
                    before = self.result.counters[each]
                    idle(delay)
                    self.result.counters[each] = before + amount

    def trade(self, phase: int, _me: int, side: str, what: Any) -> None:
        if side == "put":
            for item in what:
                self.offered[phase].put(item)
            return
        for _ in range(what):
            item = self.offered[phase].get()
            with self.locks[COUNTERS]:
                before = self.result.consumed
                idle(1)
                self.result.consumed = before + item

    def take_turns(self, phase: int, me: int, order: list[int]) -> None:
        for _ in range(order.count(me)):
            with self.turned:
                while order[self.taken[phase]] != me:
                    self.turned.wait()
                self.result.log.append(me)
                # The last turn has no successor.
                self.taken[phase] = min(self.taken[phase] + 1, len(order) - 1)
                self.turned.notify_all()

    def visit(self, _phase: int, _me: int, times: int, delay: int) -> None:
        for _ in range(times):
            with self.gate:
                with self.locks[COUNTERS]:
                    self.inside += 1
                    self.result.crowded |= self.inside > WIDTH
                idle(delay)
                with self.locks[COUNTERS]:
                    self.inside -= 1

    def pipe(self, phase: int, _me: int, side: str, pair: int, what: Any, by_file: bool) -> None:
        reader, writer = self.pipes[phase][pair]
        if side.startswith("write"):
            with self.os.fdopen(writer, "wb", 0) as file:
                write = file.write if by_file else lambda data: self.os.write(writer, data)
                told = [said(write, bytes(size)) for size in what]
                # The number of bytes in the pipe before its reader leaves differs between runs.
                while side != "write" and told[-1] != "BrokenPipeError":
                    told = [said(write, bytes(what[0]))]
            self.result.piped.append(f"told {told if side == 'write' else told[-1]}")
            return
        with self.os.fdopen(reader, "rb", 0) as file:
            if side == "leave":
                return
            read = file.read if by_file else lambda size: self.os.read(reader, size)
            came = 0
            while data := read(what):
                came += len(data)
        self.result.piped.append(f"{came} came")


def said(call: Callable[..., object], *args: object) -> str:
    """Return the outcome of a call: its value, or the name of its error."""
    try:
        return repr(call(*args))
    except OSError as error:
        return type(error).__name__


def idle(rounds: int) -> None:
    """Compute for a moment."""
    for _ in range(rounds):
        pass
