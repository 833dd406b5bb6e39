"""One measurement in this new process: `python -m benchmarks.cores.child WORK THREADS SECONDS`.

Prints one line of JSON: the number of operations, the seconds they took, and the CPU seconds of the process.
"""

import argparse
import json
import os
import time

import dhaga
from benchmarks.cores.works import WORKS, World

WARM_UP = 0.3


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.cores.child")
    parser.add_argument("work", choices=WORKS)
    parser.add_argument("threads", type=int)
    parser.add_argument("seconds", type=float)
    return parser.parse_args()


def main() -> None:
    """Let the OS threads work, and count the operations from the main thread."""
    options = _arguments()
    world = World([dhaga.Scheduler(f"core-{number}").start() for number in range(options.threads)])
    for number, scheduler in enumerate(world.schedulers):
        scheduler.spawn(WORKS[options.work], world, number).result()
    time.sleep(WARM_UP)
    done, began, spent = world.done(), time.perf_counter(), time.process_time()
    time.sleep(options.seconds)
    figures = {
        "operations": world.done() - done,
        "seconds": time.perf_counter() - began,
        "cpu": time.process_time() - spent,
    }
    print(json.dumps(figures), flush=True)
    os._exit(0)  # the works never end


if __name__ == "__main__":
    main()
