"""A crowd that uses primitives: dhagas of four schedulers and eight plain threads, with timeouts and cancels.

Every completed operation is counted. The seed of a run decides all random choices and is printed. ``--dhaga-seed``
repeats these choices, but not the moments at which the OS switches threads.
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
"""Number of dhagas of each scheduler."""

THREADS = 8
WORKERS = SCHEDULERS * DHAGAS + THREADS

QUICK = 2_000
"""Number of operations of a scenario in the default suite."""

ROUND = 20_000
"""Number of operations of a scenario in each round of a stress test. Each round has its own seed."""

SCENARIOS = 32
"""Number of scenarios. A scenario with a share of the operations counts as this share. The number may be too low."""

STALL = 60
"""Seconds without an operation after which a run counts as hung. Even a busy machine runs some worker meanwhile."""

DEADLINE = 120
"""Number of seconds after which a run counts as hung even if operations still complete."""

AFTERMATH = 3
"""Number of seconds in which the other workers must end after one has failed."""

SWITCH_INTERVALS = (0.00002, 0.0001, 0.001)
"""Switch intervals of the interpreter, in seconds; a run has one of them. Python's default is 0.005."""

Work = Callable[["Worker"], None]


class Worker:
    """A member of the crowd, with its number, its random choices and its counts."""

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
        """Yield a context for each try until the worker's share is done. A cancel ends only the current try.

        ``operations``: number of operations in a completed try.
        """
        for _ in range(self.times(operations)):
            before = self.completed
            while self.completed == before:
                yield self.one_try()
            self.operations += operations

    def times(self, operations: int) -> int:
        """Return how often this worker must make ``operations`` operations."""
        return -(-self.share // operations)

    @contextlib.contextmanager
    def one_try(self) -> Iterator[None]:
        try:
            yield
            self.completed += 1
        except dhaga.Cancelled:
            self.cancels += 1

    def insist(self, fn: Callable[..., object], *args: Any) -> None:
        """Call an all-or-nothing function until a call is not cancelled."""
        before = self.completed
        while self.completed == before:
            with self.one_try():
                fn(*args)

    def pause(self) -> None:
        """Yield to other dhagas with a probability of 20 %."""
        if self.random.random() < 0.2:
            dhaga.sleep(0)


class Crowd:
    """Workers in dhagas of several schedulers and in plain threads. Dhagas are cancelled at random moments."""

    def __init__(self, seed: int, operations: int) -> None:
        self.seed = seed
        self.random = random.Random(seed)
        self.operations = operations
        self.errors: list[BaseException] = []
        self.begun: list[Worker] = []
        self.over = False
        self.workers = [Worker(number, seed, -(-operations // WORKERS)) for number in range(WORKERS)]

    def done(self) -> int:
        """Return the number of completed operations."""
        return sum(worker.operations for worker in self.workers)

    def run(self, *works: Work, cancel: bool = True, interval: float | None = None) -> None:
        """Run ``works[n % len(works)]`` in worker n. ``interval``: the interpreter's switch interval in seconds.

        Raises: the first error of a worker; TimeoutError if the workers hang.
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
                stack.pop_all()  # the hung dhagas would not stop
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
                if self.errors:  # the other workers may wait for the one that failed
                    deadline = min(deadline, now + AFTERMATH)
                if now > min(stalls_at, deadline):
                    self.give_up([one for one in everybody if one.is_alive()])

    def give_up(self, left: list[Any]) -> None:
        state = f"{self.done()} operations, seed {self.seed}, errors {self.errors}"
        raise TimeoutError(f"hung after {state}:\n" + "\n".join(map(describe, left)))


class Stress:
    """A stress test: the goal and the number of operations so far, and the seeds."""

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
        """Return the crowd of round ``number``. ``share``: its share of the operations of a whole scenario."""
        return Crowd(self.seed + number, int((ROUND if self.goal else QUICK) * share))

    def short(self) -> bool:
        """Return whether too few operations were made."""
        return self.done < self.goal


def describe(one: Any) -> str:
    """Return the stack of a dhaga or thread; for a waiting thread, also the state of its park and its wake."""
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
