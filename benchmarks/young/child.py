"""One work in this new process: `python -m benchmarks.young.child FRAMEWORK WORK` prints its sample as JSON."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable
from itertools import repeat
from time import process_time
from typing import Any

from benchmarks.kernel.memory import resident
from benchmarks.kernel.sleepers import groups
from benchmarks.machine import cpus
from benchmarks.young.frameworks import FRAMEWORKS, Framework

LEAST = 0.3
"""Minimum CPU seconds of a measured loop."""
RING = 100
SLEEPERS = 10_000


def _nothing() -> None:
    pass


def spawn_join(framework: Framework, count: int) -> float:
    """Spawn and join one after another."""
    spawn, join = framework.spawn, framework.join
    started = process_time()
    for _ in repeat(None, count):
        join(spawn(_nothing))
    return process_time() - started


def yield_ring(framework: Framework, count: int) -> float:
    """Let a hundred microthreads yield."""
    yield_ = framework.yield_

    def work() -> None:
        for _ in repeat(None, count // RING):
            yield_()

    started = process_time()
    for each in [framework.spawn(work) for _ in range(RING)]:
        framework.join(each)
    return process_time() - started


def ping_pong(framework: Framework, count: int) -> float:
    """Pass an item back and forth through two queues or channels."""
    (put_there, get_there), (put_back, get_back) = framework.channel(), framework.channel()

    def pong() -> None:
        for _ in repeat(None, count):
            put_back(get_there())

    other = framework.spawn(pong)
    started = process_time()
    for item in range(count):
        put_there(item)
        get_back()
    seconds = process_time() - started
    framework.join(other)
    return seconds


def await_coroutine(framework: Framework, count: int) -> float:
    """Let a microthread await a coroutine that yields once."""
    await_ = framework.await_
    assert await_ is not None
    started = process_time()
    for _ in repeat(None, count):
        await_(asyncio.sleep(0))
    return process_time() - started


LOOPS: dict[str, Callable[[Framework, int], float]] = {
    each.__name__: each for each in (spawn_join, yield_ring, ping_pong, await_coroutine)
}


def seconds_each(framework: Framework, work: Callable[[Framework, int], float]) -> float:
    """Repeat with a growing count until the loop takes long enough; short loops are the warm-up."""
    count = 1000
    while True:
        seconds = work(framework, count)
        if seconds >= LEAST:
            return seconds / count
        count = int(count * min(max(1.3 * LEAST / seconds, 1.5), 20)) // RING * RING


def sleepers(framework: Framework) -> dict[str, float]:
    """Return the CPU seconds per sleep of 10,000 simultaneous sleeps, and the bytes of a sleeper."""
    sample: dict[str, float] = {}
    for group in groups(SLEEPERS):
        before = resident()

        def work(group: Any = group) -> None:
            framework.sleep(group.begin_sleep())
            group.end_sleep()

        asleep = [framework.spawn(work) for _ in range(SLEEPERS)]
        while not group.all_began():
            framework.sleep(0.05)
        sample["bytes"] = (resident() - before) / SLEEPERS
        for each in asleep:
            framework.join(each)
        sample["seconds"] = group.cpu_seconds / SLEEPERS
    return sample


def main() -> None:
    """Run what the command line asks for, on one CPU."""
    name, work = sys.argv[1:]
    if apart := cpus():
        os.sched_setaffinity(0, {apart[0]})
    framework = FRAMEWORKS[name]()
    samples: list[Any] = []
    measured = sleepers if work == "sleepers" else lambda framework: seconds_each(framework, LOOPS[work])
    run = (work == "await_coroutine" and framework.run_with_coroutines) or framework.run
    run(lambda: samples.append(measured(framework)))
    print(json.dumps(samples[0]), flush=True)
    os._exit(0)  # some frameworks would wait for their threads


if __name__ == "__main__":
    main()
