"""Measures what a coroutine hop costs: `python -m benchmarks.aio`. A dhaga's `await_(coroutine())` is compared with
asyncio's `await loop.create_task(coroutine())`, on each loop, with 1 and with 1,000 hops in flight.

Both run in turn in one process. The CPU time of the thread is measured, because other work on the machine disturbs it
least. A cell is the median of the rounds; a ratio is the median of the ratios within a round.
"""

import argparse
import asyncio
import json
import statistics
import time
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

import dhaga
from benchmarks.machine import surroundings
from dhaga import await_

TARGET = 1.5
"""The target: a dhaga's hop costs at most this many times the CPU time of asyncio's hop."""

PATH = Path(__file__).parent / "results" / "aio.json"

Works = Callable[[], Coroutine[Any, Any, None]]
Rival = Callable[[Works, int, int], Awaitable[float]]


async def empty() -> None:
    """End without having waited."""


async def one_turn() -> None:
    """Wait for one turn of the loop."""
    await asyncio.sleep(0)


async def of_dhagas(works: Works, width: int, count: int) -> float:
    """Let each of ``width`` dhagas await its share of the coroutines in turn. Returns: microseconds of CPU per hop."""

    def hops() -> None:
        for _ in range(count // width):
            await_(works())

    began = time.thread_time()
    for d in [dhaga.spawn(hops) for _ in range(width)]:
        await d
    return (time.thread_time() - began) / count * 1e6


async def of_tasks(works: Works, width: int, count: int) -> float:
    """Let each of ``width`` Tasks await its share of new Tasks in turn. Returns: microseconds of CPU per hop."""
    loop = asyncio.get_running_loop()

    async def hops() -> None:
        for _ in range(count // width):
            await loop.create_task(works())

    began = time.thread_time()
    await asyncio.gather(*[hops() for _ in range(width)])
    return (time.thread_time() - began) / count * 1e6


def loops() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Return a factory for each kind of loop that is installed."""
    found: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {"asyncio": asyncio.new_event_loop}
    try:
        import uvloop
    except ImportError:
        return found
    return {**found, "uvloop": uvloop.new_event_loop}


def measure(
    new_loop: Callable[[], asyncio.AbstractEventLoop], works: Works, width: int, options: Any
) -> dict[str, Any]:
    """Measure one row: all rounds of both rivals."""
    samples: dict[str, list[float]] = {"dhaga": [], "tasks": []}
    rivals: dict[str, Rival] = {"dhaga": of_dhagas, "tasks": of_tasks}
    for _ in range(options.rounds):
        for name, rival in rivals.items():
            with asyncio.Runner(loop_factory=new_loop) as runner:
                samples[name].append(runner.run(_measured(rival, works, width, options.count * max(width, 200))))
    ratios = [mine / theirs for mine, theirs in zip(samples["dhaga"], samples["tasks"], strict=True)]
    return {"samples": samples, "ratio": statistics.median(ratios), "target": TARGET}


async def _measured(rival: Rival, works: Works, width: int, count: int) -> float:
    return await rival(works, width, count)


def main() -> None:
    """Measure, print and save."""
    parser = argparse.ArgumentParser(prog="benchmarks.aio")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--count", type=int, default=100, help="hops of each, with 1,000 in flight")
    parser.add_argument("--out", type=Path, default=PATH)
    options = parser.parse_args()
    rows = {}
    for loop, new_loop in loops().items():
        for works in (empty, one_turn):
            for width in (1, 1000):
                name = f"{works.__name__} coroutine, {width:,} in flight, {loop}"
                rows[name] = row = measure(new_loop, works, width, options)
                mine, theirs = (statistics.median(samples) for samples in row["samples"].values())
                verdict = "" if row["ratio"] <= TARGET else f"  above the target of {TARGET}"
                print(f"{name:45} {mine:6.2f} µs, tasks {theirs:6.2f} µs: {row['ratio']:.2f}{verdict}", flush=True)
    where = surroundings(rounds=options.rounds)
    options.out.write_text(json.dumps({"where": where, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
