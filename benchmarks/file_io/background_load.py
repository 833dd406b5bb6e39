"""What a process is busy with while a dhaga writes: dhagas that compute, and calls through the shared pool."""

from __future__ import annotations

import hashlib
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter

import dhaga
from dhaga._workers.offload import MAX_THREADS

COMPUTING = 100
COMPUTES = 0.000_05
"""Seconds between two yields."""

CALLING = 2 * MAX_THREADS
"""Dhagas that make calls through the shared pool: while one set of calls is under way, as many are in line."""

CALL_WAITS = 0.02
"""Seconds that a call waits on the average, as for an answer from elsewhere, beside what it computes; from half to one
and a half times that, so that they do not come in waves."""

HASHED = bytes(64 * 1024)
"""SHA-256 takes 50 µs to 0.2 ms for it, without the interpreter lock."""


class BackgroundLoad:
    """The work, and how many turns its dhagas have had."""

    def __init__(self) -> None:
        self.turns = 0
        self.over = False

    def compute(self) -> None:
        """Compute and yield, again and again."""
        while not self.over:
            end = perf_counter() + COMPUTES
            while perf_counter() < end:
                pass
            self.turns += 1
            dhaga.sleep(0)

    def call(self) -> None:
        """Make calls through the shared pool."""
        while not self.over:
            dhaga.offload(hash_and_wait)


def hash_and_wait() -> None:
    """Do what an offloaded call does: compute a little in C, and wait."""
    hashlib.sha256(HASHED).digest()
    time.sleep(CALL_WAITS * random.uniform(0.5, 1.5))


@contextmanager
def under_load() -> Iterator[BackgroundLoad]:
    """Be busy for a block, which begins when all are at work."""
    work = BackgroundLoad()
    dhagas = [dhaga.spawn(work.compute) for _ in range(COMPUTING)]
    dhagas += [dhaga.spawn(work.call) for _ in range(CALLING)]
    try:
        dhaga.sleep(2 * CALL_WAITS)
        yield work
    finally:
        work.over = True
        for each in dhagas:
            each.join()
