"""Searches with one simulation tool, in this new process: `python -m benchmarks.young.simulations TOOL MODEL`.

Prints as JSON the number of runs that each of five searches took to find the fault (null: not found in 200), and the
CPU seconds per run. The models: two steps that may end in the wrong order, as coroutines and as threads; and the same
coroutines without the fault.
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

MOST = 200
"""Maximum number of runs of a search."""
SEARCHES = 5

Coroutines = Callable[[], Any]


async def wrong_order_of_coroutines() -> None:
    steps = await _steps()
    assert steps == ["created", "shipped"]


async def coroutines_without_a_fault() -> None:
    steps = await _steps()
    assert sorted(steps) == ["created", "shipped"]


async def _steps() -> list[str]:
    steps: list[str] = []

    async def step(name: str) -> None:
        await asyncio.sleep(0.005)
        steps.append(name)

    await asyncio.gather(step("created"), step("shipped"))
    return steps


def wrong_order_of_threads() -> None:
    steps: list[str] = []

    def step(name: str) -> None:
        time.sleep(0.005)
        steps.append(name)

    threads = [threading.Thread(target=step, args=(name,)) for name in ("created", "shipped")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert steps == ["created", "shipped"]


# ---- the tools: each returns the number of runs until the fault, or None


def dhaga(model: Coroutines, seed: int) -> int | None:
    from dhaga.simulation import search

    def once() -> None:
        if model is wrong_order_of_threads:
            model()
        else:
            asyncio.run(model())

    found = search(once, range(MOST * seed, MOST * (seed + 1)), jobs=1)
    return found.runs if found.failures else None


def simloom(model: Coroutines, seed: int) -> int | None:
    import simloom

    explored = simloom.explore(model, runs=MOST, start_seed=MOST * seed)
    return explored.runs if explored.failures else None


def seedloop(model: Coroutines, seed: int) -> int | None:
    import seedloop

    async def scenario(_: object) -> None:
        await model()

    checked = seedloop.check(scenario, seeds=range(MOST * seed, MOST * (seed + 1)), on_failure="return")
    return None if checked.failing_seed is None else checked.checked


def detangle(model: Coroutines, seed: int) -> int | None:
    import detangle

    try:
        detangle.explore(model, runs=MOST, seed=seed, shrink=False, database=False)
    except detangle.BugFound as error:
        return int(error.report.runs)
    return None


TOOLS = {each.__name__: each for each in (dhaga, simloom, seedloop, detangle)}
MODELS = {
    each.__name__: each for each in (wrong_order_of_coroutines, wrong_order_of_threads, coroutines_without_a_fault)
}


def cpu() -> float:
    """Return the seconds of CPU of this process and of its children that have ended."""
    used = [resource.getrusage(whose) for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def main() -> None:
    """Run what the command line asks for."""
    tool, name = TOOLS[sys.argv[1]], MODELS[sys.argv[2]]
    tool(name, SEARCHES)  # its imports
    began = cpu()
    tries = [tool(name, seed) for seed in range(SEARCHES)]
    runs = sum(MOST if each is None else each for each in tries)
    print(json.dumps({"tries": tries, "cpu": (cpu() - began) / runs}))


if __name__ == "__main__":
    main()
