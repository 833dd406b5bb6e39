"""A crowd for the primitives: dhagas of four schedulers and eight plain threads at once, timeouts and cancels among it.

Every operation that comes back is counted. The seed of a run decides all choices and is printed; ``--dhaga-seed``
repeats them, but not the moments at which the OS switches threads.
"""

from __future__ import annotations

import contextlib
import random
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import dhaga
from dhaga._kernel.wait.thread_waiter import os_threads

SCHEDULERS = 4
DHAGAS = 3
"""To a scheduler."""

THREADS = 8
WORKERS = SCHEDULERS * DHAGAS + THREADS

QUICK = 2_000
"""Operations that a scenario makes in the default suite."""

ROUND = 20_000
"""Operations that it makes in each round of a stress test, and then all over again by another seed."""

SCENARIOS = 32
"""How many there are, those with a share of the operations counted by that; may be a bit too low."""

STALL = 60
"""Seconds without any operation after which a run counts as hung: the machine may be busy, but it runs somebody."""

DEADLINE = 120
"""Seconds after which it counts as hung even if somebody still tries something."""

AFTERMATH = 3
"""Seconds that the others have to end once one has failed."""

SWITCH_INTERVALS = (0.00002, 0.0001, 0.001)
"""Seconds after which the interpreter switches threads, by default 0.005: a run has one of these."""

Work = Callable[["Worker"], None]


class Worker:
    """One of the crowd: its number, its random choices, and how much it has done."""

    def __init__(self, number: int, seed: int, share: int) -> None:
        self.number = number
        self.random = random.Random(seed * 1000 + number)
        self.share = share
        self.completed = 0
        self.operations = 0
        self.cancels = 0

    def timeout(self) -> float | None:
        return self.random.choice((None, None, 0, 0.00001, 0.0001, 0.002))

    def short_timeout(self) -> float:
        return self.random.choice((0, 0.00001, 0.0001, 0.002))

    def tries(self, operations: int) -> Iterator[Any]:
        """Give a context a try, which lets a cancel end that try alone, until the worker's share is done.

        ``operations``: how many of them a try is that goes through.
        """
        for _ in range(self.times(operations)):
            before = self.completed
            while self.completed == before:
                yield self.one_try()
            self.operations += operations

    def times(self, operations: int) -> int:
        """Return how often this worker is to do so many operations."""
        return -(-self.share // operations)

    @contextlib.contextmanager
    def one_try(self) -> Iterator[None]:
        try:
            yield
            self.completed += 1
        except dhaga.Cancelled:
            self.cancels += 1

    def insist(self, fn: Callable[..., object], *args: Any) -> None:
        """Call something that is all or nothing until no cancel comes in between."""
        before = self.completed
        while self.completed == before:
            with self.one_try():
                fn(*args)

    def pause(self) -> None:
        """Let others in, sometimes."""
        if self.random.random() < 0.2:
            dhaga.sleep(0)


class Crowd:
    """Run work in dhagas of several schedulers and in plain threads at once, cancelling dhagas at random moments."""

    def __init__(self, seed: int, operations: int) -> None:
        self.seed = seed
        self.random = random.Random(seed)
        self.operations = operations
        self.errors: list[BaseException] = []
        self.begun: list[Worker] = []
        self.over = False
        self.workers = [Worker(number, seed, -(-operations // WORKERS)) for number in range(WORKERS)]

    def done(self) -> int:
        """Count the operations that have come back."""
        return sum(worker.operations for worker in self.workers)

    def run(self, *works: Work, cancel: bool = True, interval: float | None = None) -> None:
        """Have worker n do ``works[n % len(works)]``, the interpreter switching threads after ``interval`` seconds.

        Raises: the first error of any; TimeoutError if they hang.
        """
        former = sys.getswitchinterval()
        sys.setswitchinterval(interval or self.random.choice(SWITCH_INTERVALS))
        try:
            self.run_all(works, cancel)
        finally:
            sys.setswitchinterval(former)
        if self.errors:
            raise self.errors[0]
        assert self.done() >= self.operations

    def run_all(self, works: tuple[Work, ...], cancel: bool) -> None:
        with contextlib.ExitStack() as stack:
            schedulers = [stack.enter_context(dhaga.Scheduler(f"s{n}")) for n in range(SCHEDULERS)]
            jobs = [self.job(worker, works) for worker in self.workers]
            self.random.shuffle(jobs)
            dhagas = [schedulers[n % SCHEDULERS].spawn(jobs.pop(), name=f"d{n}") for n in range(SCHEDULERS * DHAGAS)]
            threads = [threading.Thread(target=job, name=f"t{n}", daemon=True) for n, job in enumerate(jobs)]
            canceller = threading.Thread(target=self.cancel_some, args=(dhagas,), daemon=True)
            for thread in threads:
                thread.start()
            if cancel:
                canceller.start()
            try:
                self.wait_for([*dhagas, *threads])
            except TimeoutError:
                stack.pop_all()  # they would not stop
                raise
            finally:
                self.over = True
            if cancel:
                canceller.join()

    def job(self, worker: Worker, works: tuple[Work, ...]) -> Callable[[], None]:
        def job() -> None:
            self.begun.append(worker)
            try:
                works[worker.number % len(works)](worker)
            except BaseException as error:
                self.errors.append(error)

        return job

    def cancel_some(self, dhagas: list[dhaga.Dhaga]) -> None:
        choose = random.Random(self.seed)
        while len(self.begun) < WORKERS:  # a dhaga cancelled before its start would do nothing
            time.sleep(0.0005)
        while not self.over:
            choose.choice(dhagas).cancel("by the crowd")
            time.sleep(choose.random() * 0.002)

    def wait_for(self, everybody: list[Any]) -> None:
        """Wait until all have ended, as long as there is progress."""
        deadline = time.monotonic() + DEADLINE
        done, stalls_at = -1, 0.0
        for one in everybody:
            while one.is_alive():
                one.join(0.2)
                now = time.monotonic()
                if self.done() != done:
                    done, stalls_at = self.done(), now + STALL
                if self.errors:  # the others may well wait for the one that failed
                    deadline = min(deadline, now + AFTERMATH)
                if now > min(stalls_at, deadline):
                    self.give_up([one for one in everybody if one.is_alive()])

    def give_up(self, left: list[Any]) -> None:
        state = f"{self.done()} operations, seed {self.seed}, errors {self.errors}"
        raise TimeoutError(f"hung after {state}:\n" + "\n".join(map(describe, left)))


class Stress:
    """A stress test: how many operations are to be made, how many have been, and by which seeds."""

    def __init__(self, goal: int, seed: int | None) -> None:
        self.goal = goal
        self.seed = random.randrange(1_000_000) if seed is None else seed
        self.rounds = -(-goal // (SCENARIOS * ROUND))
        self.done = 0
        self.began = time.monotonic()

    def __str__(self) -> str:
        seeds = f"seeds {self.seed} to {self.seed + self.rounds - 1}"
        verdict = f", short of {self.goal:,}" if self.short() else ""
        return f"{self.done:,} operations in {time.monotonic() - self.began:.0f} s, {seeds}{verdict}"

    def crowd(self, number: int, share: float) -> Crowd:
        """Return the crowd of round ``number``, which is to make its ``share`` of the operations."""
        return Crowd(self.seed + number, int((ROUND if self.goal else QUICK) * share))

    def short(self) -> bool:
        """Tell whether too few operations were made."""
        return self.done < self.goal


def describe(one: Any) -> str:
    """Tell where a dhaga or thread stands; of a thread that waits also whether its wake has come, and by which park."""
    if isinstance(one, dhaga.Dhaga):
        frame, head = one.gr_frame, f"{one!r} on {one.waits_on!r}"
    else:
        waiters = [
            f"{each!r}, woken: {each._woken}, lock open: {not each.wake_lock.locked()}, ticket: {each.parked}, "
            f"on {each.wait_target!r}, value {each._value!r}"
            for each in list(os_threads)
            if each.ident == one.ident
        ]
        frame, head = sys._current_frames().get(one.ident), "; ".join([repr(one), *waiters])
    return f"{head}\n" + "".join(traceback.format_stack(frame)[-6:] if frame is not None else ())
