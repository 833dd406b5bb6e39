"""Random programs of threads, locks, queues and conditions, whose result is the same however the threads take turns.

A program is drawn from a seed and run on any kind of threads: the standard's, or dhagas. It has phases, which a barrier
divides. In each phase every thread has a job of the same kind:

- *add* to shared counters, by a read and a later write, with the counters' locks held in ascending order;
- *produce* for a bounded queue, or *consume* from it: what all have taken is added up;
- *take turns* in a drawn order, by one condition: each writes its number into the log;
- *pass a gate* of a semaphore, and note whether too many were inside.
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
"""How many the gate admits."""

Job = tuple[Any, ...]


@dataclass
class Result:
    """What a program comes to."""

    counters: list[int] = field(default_factory=lambda: [0] * COUNTERS)
    consumed: int = 0
    log: list[int] = field(default_factory=list)
    crowded: bool = False


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


JOBS: dict[str, Callable[[random.Random], list[Job]]] = {
    "add": additions,
    "trade": trade,
    "take turns": turns,
    "pass a gate": visits,
}


class Program:
    """A drawn program on the threads, locks and queues of two modules; ``locked``: whether it uses its locks."""

    def __init__(self, seed: int, threading: Any, queue: Any, locked: bool = True) -> None:
        self.phases = phases_of(seed)
        self.threading = threading
        self.result = Result()
        self.errors: list[BaseException] = []
        self.locks = [threading.Lock() if locked else contextlib.nullcontext() for _ in range(COUNTERS + 1)]
        self.barrier = threading.Barrier(THREADS)
        self.turned = threading.Condition()
        self.gate = threading.Semaphore(WIDTH)
        self.inside = 0
        # For each phase: how many turns have been taken, and what is offered.
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
        return self.result

    def work(self, me: int) -> None:
        """Do the jobs of a thread, one in each phase."""
        does: dict[str, Callable[..., None]] = {
            "add": self.add,
            "trade": self.trade,
            "take turns": self.take_turns,
            "pass a gate": self.visit,
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
                # The last turn is followed by nobody's.
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


def idle(rounds: int) -> None:
    """Compute for a moment."""
    for _ in range(rounds):
        pass
