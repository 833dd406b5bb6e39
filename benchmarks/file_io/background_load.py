"""The background load while a dhaga writes: dhagas that compute, and calls through the shared pool."""

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
"""Seconds that a dhaga computes between two yields."""

CALLING = 2 * MAX_THREADS
"""Number of dhagas that make calls through the shared pool. While half of the calls run, the other half is queued."""

CALL_WAITS = 0.02
"""Mean number of seconds that a call waits after its computation, as for an answer over the network. Waits vary from
half to one and a half times the mean, so that the calls do not synchronize."""

HASHED = bytes(64 * 1024)
"""Data that a call hashes. SHA-256 takes 50 µs to 0.2 ms, without the interpreter lock."""


class BackgroundLoad:
    """The work, and the number of turns that its computing dhagas have had."""

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
    """Compute briefly in C, and then wait, like a typical offloaded call."""
    hashlib.sha256(HASHED).digest()
    time.sleep(CALL_WAITS * random.uniform(0.5, 1.5))


@contextmanager
def under_load() -> Iterator[BackgroundLoad]:
    """Run the background load during a block. The block begins once all dhagas work."""
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
