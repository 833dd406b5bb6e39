"""One measurement in this fresh process, for the runner: `python -m benchmarks.kernel.child RIVAL WORK ...`.

Prints one line of JSON: the sample of a loop, or the port of an echo server, which then serves until it is killed.
"""

import argparse
import asyncio
import importlib
import inspect
import json
import os
from collections.abc import Callable
from typing import Any

Work = Callable[..., Any]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.kernel.child")
    parser.add_argument("rival")
    parser.add_argument("work")
    parser.add_argument("--count", type=int, help="run once, that often, and print what the work returns")
    parser.add_argument("--least", type=float, default=0.3, help="else: seconds that the measured loop lasts at least")
    parser.add_argument("--step", type=int, default=1, help="the count of a loop is a multiple of this")
    parser.add_argument("--sizes", type=int, nargs="*", default=[])
    parser.add_argument("--serve", action="store_true", help="the work is an echo server")
    parser.add_argument("--cpu", type=int, help="stay on this CPU")
    return parser.parse_args()


def _new_loop(rival: str) -> asyncio.AbstractEventLoop:
    if rival != "uvloop":
        return asyncio.new_event_loop()
    import uvloop

    return uvloop.new_event_loop()


def _called(work: Work, rival: str, *arguments: Any) -> Any:
    """Call the work. A coroutine function runs on a new loop, whose creation is not part of the measured time."""
    if not inspect.iscoroutinefunction(work):
        return work(*arguments)
    with asyncio.Runner(loop_factory=lambda: _new_loop(rival)) as runner:
        return runner.run(work(*arguments))


def _repeated(work: Work, options: argparse.Namespace) -> float:
    """Repeat with a growing count until the loop takes long enough; short loops are the warm-up. Returns: the seconds
    per operation.
    """
    count: int = max(options.step, 1000 // options.step * options.step)
    while True:
        seconds = float(_called(work, options.rival, count, *options.sizes))
        if seconds >= options.least:
            return seconds / count
        growth = min(max(1.3 * options.least / seconds, 1.5), 50.0)
        count = int(count * growth) // options.step * options.step + options.step


def _ready(port: int) -> None:
    print(json.dumps({"port": port}), flush=True)


def main() -> None:
    """Run what the command line asks for."""
    options = _arguments()
    if options.cpu is not None:
        os.sched_setaffinity(0, {options.cpu})
    module = "asyncio" if options.rival == "uvloop" else options.rival
    work: Work = getattr(importlib.import_module(f"benchmarks.kernel.on_{module}"), options.work)
    if options.serve:
        _called(work, options.rival, _ready)
    elif options.count is not None:
        print(json.dumps({"sample": _called(work, options.rival, options.count, *options.sizes)}))
    else:
        print(json.dumps({"sample": _repeated(work, options)}))


if __name__ == "__main__":
    main()
