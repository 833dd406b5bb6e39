"""Performs runs in this new process, for `runner.py`: `python -m benchmarks.rate_model.child WAY WINDOW PLAN ...`.

Prints a line of JSON for each run.
"""

import gc
import importlib
import json
import sys
from time import process_time
from typing import Any

from benchmarks.rate_model import memory
from benchmarks.rate_model.run import Plan, Run
from benchmarks.rate_model.run_statistics import figures


def performed(way: str, plan: Plan, window: float) -> dict[str, Any]:
    """Perform a plan in one way. Existing objects are frozen for the garbage collector, as in a service."""
    perform = importlib.import_module(f"benchmarks.rate_model.on_{way}").perform
    gc.collect()
    gc.freeze()
    began, before = process_time(), memory.start()
    run = Run(plan)
    perform(run)
    spent, peak = process_time() - began, memory.peak()
    return figures(run, window) | {"cpu": spent / plan.count, "memory": {"before": before, "peak": peak}}


def main() -> None:
    """Perform the plans of the command line."""
    way, window, *plans = sys.argv[1:]
    for plan in plans:
        print(json.dumps(performed(way, Plan(**json.loads(plan)), float(window))), flush=True)


if __name__ == "__main__":
    main()
