"""Calls in OS threads: each brings its own result, or its own error, to the one who made it."""

from __future__ import annotations

import time

import dhaga
from dhaga.metrics import Counter
from tests.soak.attempts import DEADLINE, Attempt, Scenario
from tests.soak.run import Run

THREADS = 2
"""Of the pool, fewer than there are callers: calls queue up, and are taken back when their callers are cancelled."""


class Planned(Exception):
    """What a call is to raise."""


class Offload(Scenario):
    """Calls through the shared pool and one of our own, some of which are given up before they have ended."""

    name = "offload"
    width = 5

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self.pool = dhaga.OffloadPool("soak", THREADS)
        self.begun, self.ended = Counter(), Counter()

    def attempt(self, attempt: Attempt) -> None:
        choose = attempt.choose
        door = choose.choice((dhaga.offload, self.pool.offload, self.pool.finish))
        for _ in range(choose.randint(1, 10)):
            number, seconds = choose.getrandbits(60), choose.choice((0.0, 0.0, choose.random() * 0.004))
            try:
                with dhaga.Timeout(choose.choice((None, None, seconds / 2))):
                    answer = door(self.call, number, seconds)
            except Planned as error:
                answer = error.args[0]
            except TimeoutError:
                continue
            if answer != number ^ 1:
                raise AssertionError(f"a call returned {answer} for {number}")
            self.done()

    def call(self, number: int, seconds: float) -> int:
        """Take a while, and return what only this call can. From: an OS thread."""
        self.begun.add()
        try:
            time.sleep(seconds)
            if number % 5 == 0:
                raise Planned(number ^ 1)
            return number ^ 1
        finally:
            self.ended.add()

    def close(self) -> None:
        self.pool.shutdown(timeout=DEADLINE)
        deadline = time.monotonic() + DEADLINE
        while self.begun.total != self.ended.total and time.monotonic() < deadline:
            dhaga.sleep(0.01)
        if self.begun.total != self.ended.total:
            raise AssertionError(f"of {self.begun.total} calls begun {self.ended.total} have ended")
