"""Search one model with one tool, and print the tries and seconds until its defect is found: run by ``rivals.py``."""

from __future__ import annotations

import json
import resource
import sys
import threading
import time
from typing import Any

from benchmarks.simulation.rival_models import MODELS, Model

MOST = 2000
"""Maximum number of tries."""


def with_frontrun(model: Model, seed: int, strategy: str) -> int | None:
    import frontrun

    more: dict[str, Any] = {"seed": seed, "max_attempts": MOST} if strategy == "random" else {"max_executions": MOST}
    packages = {"trace_packages": [f"{name}.*" for name in model.packages]} if model.packages else {}
    result = frontrun.explore(
        model.setup, model.workers, model.invariant, strategy=strategy, reproduce_on_failure=0, **packages, **more
    )
    return None if result.property_holds else int(result.num_explored)


def with_interleave_test(model: Model, seed: int, strategy: str) -> int | None:
    import interleave_test

    def once() -> None:
        state = model.setup()
        tasks = [interleave_test.spawn(worker, state) for worker in model.workers]
        for task in tasks:
            task.join()
        assert model.invariant(state)

    include = [__file__, sys.modules[Model.__module__].__file__]
    include += [next(iter(__import__(name).__path__)) for name in model.packages]
    result = interleave_test.explore(
        once, iterations=MOST, seed=seed, strategy=strategy, include=include, raise_on_failure=False
    )
    return None if result.ok else int(result.schedules_run)


def with_simulation(model: Model, seed: int, preempt: str) -> int | None:
    from dhaga.simulation import Settings, search

    def once() -> None:
        state = model.setup()
        threads = [threading.Thread(target=worker, args=(state,)) for worker in model.workers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert model.invariant(state)

    seeds = range(MOST * seed, MOST * (seed + 1))
    found = search(once, seeds, Settings(preempt=preempt, modules=model.packages), jobs=1)
    return found.runs if found.failures else None


TOOLS = {
    "frontrun": with_frontrun,
    "interleave-test": with_interleave_test,
    "simulation": with_simulation,
}


def cpu() -> float:
    """Return the seconds of CPU of this process and of its children that have ended."""
    used = [resource.getrusage(whose) for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def main() -> None:
    tool, kind, name, rounds = sys.argv[1:]
    found = []
    for seed in range(int(rounds)):
        began, cpu_began = time.perf_counter(), cpu()
        tries = TOOLS[tool](MODELS[name], seed, kind)
        seconds = {"seconds": round(time.perf_counter() - began, 4), "cpu": round(cpu() - cpu_began, 4)}
        found.append({"tries": tries, **seconds})
    print(json.dumps(found))


if __name__ == "__main__":
    main()
