"""Compares the cost of a submitted call with a spawn, and with the pools of others: `python -m benchmarks.pool`.

The calls are empty. In `batch`, 10,000 calls are submitted before the first result is requested. In `one by one`, each
result is requested before the next call. Time is measured end to end, whichever thread runs the calls. The rivals take
turns within each round: Dhaga's and the standard library's pools in one process, gevent's in another. The target
applies to the median of the ratios within a round.
"""

import argparse
import concurrent.futures
import contextlib
import json
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter
from typing import Any

import dhaga
from benchmarks.machine import surroundings
from dhaga.futures import Executor, Future
from dhaga.pool import Pool

CALLS = 10_000
ROUNDS = 15
THREADS, DHAGAS = 4, 32
TARGET = 1 / 3
"""The target: a call submitted in a batch costs at most this fraction of spawn + join."""

BASE = "spawn + join"
GEVENT = f"""
import json, sys
from time import perf_counter
from gevent.pool import Pool
from gevent.threadpool import ThreadPool
def batch(pool):
    began = perf_counter()
    for each in [pool.spawn(int) for _ in range({CALLS})]:
        each.get()
    return (perf_counter() - began) / {CALLS}
def one_by_one(pool):
    began = perf_counter()
    for _ in range({CALLS}):
        pool.spawn(int).get()
    return (perf_counter() - began) / {CALLS}
threads, greenlets = ThreadPool({THREADS}), Pool({DHAGAS})
for line in sys.stdin:
    print(json.dumps({{
        "gevent ThreadPool, batch": batch(threads), "gevent ThreadPool, one by one": one_by_one(threads),
        "gevent Pool, batch": batch(greenlets), "gevent Pool, one by one": one_by_one(greenlets),
    }}), flush=True)
"""

Sample = Callable[[], float]


def _seconds_each(work: Callable[[], object]) -> float:
    began = perf_counter()
    work()
    return (perf_counter() - began) / CALLS


def _spawn_join() -> None:
    for _ in range(CALLS):
        dhaga.spawn(int).join()


def _spawn_all_join_all() -> None:
    for each in [dhaga.spawn(int) for _ in range(CALLS)]:
        each.join()


def _batch(submit: Callable[..., Any]) -> None:
    for each in [submit(int) for _ in range(CALLS)]:
        each.result()


def _one_by_one(submit: Callable[..., Any]) -> None:
    for _ in range(CALLS):
        submit(int).result()


def _life_of(kind: Callable[[], Any]) -> None:
    """Apply to futures the operations that a call applies to its future."""
    for _ in range(CALLS):
        future = kind()
        future.set_running_or_notify_cancel()
        future.set_result(None)
        future.result()


@contextlib.contextmanager
def _in_this_process() -> Iterator[dict[str, Callable[[], object]]]:
    """Yield the rows that are measured in this process."""
    with (
        Pool(THREADS, DHAGAS) as pool,
        Pool(1, DHAGAS) as single,
        Executor(dhagas=DHAGAS) as here,
        concurrent.futures.ThreadPoolExecutor(THREADS) as standard,
    ):
        submits = {
            f"Pool({THREADS}, {DHAGAS})": pool.submit,
            f"Pool(1, {DHAGAS})": single.submit,
            "Executor here": here.submit,
            "ThreadPoolExecutor": standard.submit,
        }
        rows: dict[str, Callable[[], object]] = {BASE: _spawn_join, "spawn all, join all": _spawn_all_join_all}
        for name, submit in submits.items():
            rows[f"{name}, batch"] = lambda submit=submit: _batch(submit)  # type: ignore[misc]
            rows[f"{name}, one by one"] = lambda submit=submit: _one_by_one(submit)  # type: ignore[misc]
        rows["a Future's life, ours"] = lambda: _life_of(Future)
        rows["a Future's life, standard"] = lambda: _life_of(concurrent.futures.Future)
        yield rows


@contextlib.contextmanager
def _gevent() -> Iterator[Callable[[], dict[str, float]]]:
    """Yield a function that measures a round in gevent's process. Without gevent, it returns an empty dict."""
    if find_spec("gevent") is None:
        yield dict
        return
    command = [sys.executable, "-c", GEVENT]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        stdin, stdout = process.stdin, process.stdout
        assert stdin is not None and stdout is not None

        def measure() -> dict[str, float]:
            stdin.write("\n")
            stdin.flush()
            return dict(json.loads(stdout.readline()))

        yield measure
        stdin.close()


def _samples(rounds: int) -> dict[str, list[float]]:
    """Measure in turn. Returns: the seconds per call, one figure per round. The first round is the warm-up."""
    found: dict[str, list[float]] = {}
    with _in_this_process() as rows, _gevent() as gevent:
        for number in range(rounds + 1):
            measured = {name: _seconds_each(work) for name, work in rows.items()} | gevent()
            for name, seconds in measured.items():
                if number:
                    found.setdefault(name, []).append(seconds)
    return found


def _ratio(samples: dict[str, list[float]], name: str) -> float:
    """Return the median over the rounds of the cost of a call divided by the cost of spawn + join."""
    return statistics.median(mine / base for mine, base in zip(samples[name], samples[BASE], strict=True))


def main() -> None:
    """Measure, print, and write the samples where `--json` says; exit status 1 if the target is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pool")
    parser.add_argument(
        "--rounds", type=int, default=ROUNDS, metavar="N", help=f"rounds to take the median of ({ROUNDS})"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all samples there")
    options = parser.parse_args()
    samples = dhaga.spawn(_samples, options.rounds).result()
    for name, each in samples.items():
        print(f"{name:31} {statistics.median(each) * 1e6:8.2f} µs, {_ratio(samples, name):6.2f} x {BASE}")
    ours = [f"Pool({THREADS}, {DHAGAS}), batch", f"Pool(1, {DHAGAS}), batch", "Executor here, batch"]
    ratios = {name: _ratio(samples, name) for name in ours}
    missed = [name for name, ratio in ratios.items() if round(ratio, 2) > round(TARGET, 2)]
    print(f"target, at most {TARGET:.2f}: {'missed by ' + ', '.join(missed) if missed else 'reached'}")
    if options.json:
        results = {"where": surroundings(rounds=options.rounds), "samples": samples, "ratios": ratios}
        options.json.write_text(json.dumps(results, indent=1) + "\n")
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
