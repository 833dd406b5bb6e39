"""Celery's pools beside each other, on one broker: `python -m benchmarks.celery_pool`.

Each pool gets one Celery worker in each round, with the same settings; the pools take turns. The broker is Redis, or
the broker that `--broker` names. If `redis-server` is installed, the benchmark starts a Redis that writes nothing to
disk. All tasks are in a queue before the worker consumes it. A rate is measured from the end of the warm-up to the end
of the last task; the warm-up is the first tenth of the tasks, or the first wave of waiting tasks. All this takes less
than four minutes.
"""

import argparse
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path

from benchmarks.celery_pool.brokers import Addresses, serving
from benchmarks.celery_pool.charts import charts
from benchmarks.celery_pool.report import Rows, claims, tables
from benchmarks.celery_pool.samples import Sample, Work, sample
from benchmarks.celery_pool.workers import POOLS, PREFETCHED, PoolOptions
from benchmarks.machine import raise_file_limit, surroundings
from benchmarks.tables.charts import Chart
from benchmarks.tables.outcome import Outcome, Tell
from benchmarks.tables.standalone import show_tables

ROUNDS = 3
WORK, QUICK_WORK = Work(empty=2000, kept=1200, waves=3, seconds=1.0), Work(empty=40, kept=20, waves=2, seconds=0.05)
AT_ONCE, QUICK_AT_ONCE = 1000, 10
PROCESSES, QUICK_PROCESSES = 16, 2
"""Numbers of processes of prefork. Each adds about 30 MB, so 16 take more memory than 1,000 tasks of other pools."""

TITLE = "Celery's pools beside each other"
STORY = (
    "One worker with a pool of dhagas (`dhaga.integrations.celery:TaskPool`), of gevent's greenlets, of threads, and "
    "of processes, on one broker. No figures were published for it. How many empty tasks does it do in a second, how "
    "many that wait, and what memory do those take?"
)
NOTES = [
    "All workers have the same settings: tasks are acknowledged before they run, some 1,000 are taken in advance, "
    "neither gossip nor heartbeats; results are stored in Redis. Dhagas wait by `dhaga.sleep`, the others by "
    "`time.sleep`.",
    "gevent's greenlets share one backend of results (`result_backend_thread_safe`): by default each makes one, which "
    "takes three times as long as an empty task. The others have what is Celery's default, a backend for each thread.",
    f"prefork gets {PROCESSES} processes, as each costs tens of MB: 1,000 would need tens of GB. Its ideal rate of "
    "tasks that wait is as much less.",
    "Memory is what a worker and its processes share with no other; pages that prefork's processes share with each "
    "other are not counted.",
    "CPU µs are the worker's, with its processes, for each task.",
]


def _has(pool: str) -> bool:
    return pool != "gevent" or find_spec("gevent") is not None


def _rivals(quick: bool) -> list[PoolOptions]:
    at_once, processes = (QUICK_AT_ONCE, QUICK_PROCESSES) if quick else (AT_ONCE, PROCESSES)
    return [PoolOptions(pool, processes if pool == "prefork" else at_once) for pool in POOLS if _has(pool)]


def _in_turn(
    rivals: list[PoolOptions], rounds: int, addresses: Addresses, folder: Path, tell: Tell
) -> Iterator[Sample]:
    """Measure one pool at a time, in reverse order in every second round. Yields: each round, in the rivals' order."""
    for number in range(rounds):
        found = {}
        for rival in rivals[:: -1 if number % 2 else 1]:
            tell(f"round {number + 1} of {rounds}: {rival.pool}")
            found[rival.pool] = sample(rival, WORK, addresses, folder)
        yield from (found[rival.pool] for rival in rivals)


def _at_once(rivals: list[PoolOptions], addresses: Addresses, folder: Path) -> Iterator[Sample]:
    """Measure all pools at the same time. This only shows that the measurement works."""
    with ThreadPoolExecutor(len(rivals)) as pool:
        yield from pool.map(lambda rival: sample(rival, QUICK_WORK, addresses, folder), rivals)


def run(quick: bool, tell: Tell, rounds: int = ROUNDS, broker: str | None = None) -> Outcome:
    """Run all pools."""
    raise_file_limit()
    rivals = _rivals(quick)
    rows: Rows = {rival.pool: [] for rival in rivals}
    with serving(broker) as addresses, tempfile.TemporaryDirectory() as folder:
        if quick:
            rounds = 1
            found = _at_once(rivals, addresses, Path(folder))
        else:
            found = _in_turn(rivals, rounds, addresses, Path(folder), tell)
        for number, one in enumerate(found):
            rows[rivals[number % len(rivals)].pool].append(one)
    return _outcome(rows, WORK if not quick else QUICK_WORK, rounds, addresses.kind)


def _outcome(rows: Rows, work: Work, rounds: int, broker: str) -> Outcome:
    missing = [f"{pool} is not installed here: its rows are left out" for pool in POOLS if pool not in rows]
    return Outcome(
        name="celery_pool",
        title=TITLE,
        story=STORY,
        where=surroundings("celery", "kombu", "redis", rounds=rounds),
        knobs={"broker": broker, **asdict(work), "prefetched": PREFETCHED}
        | {f"tasks at once, {pool}": samples[0].in_flight for pool, samples in rows.items()},
        samples={pool: [asdict(one) for one in samples] for pool, samples in rows.items()},
        claims=claims(rows),
        tables=tables(rows),
        notes=[*NOTES, *missing],
    )


def measure(quick: bool, tell: Tell) -> Outcome:
    """Run all pools, for less than four minutes; with ``quick``, for some seconds."""
    return run(quick, tell)


def draw(outcome: Outcome) -> list[Chart]:
    """Draw rates and memory."""
    return charts({pool: [Sample(**one) for one in samples] for pool, samples in outcome.samples.items()})


def _rounds(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"must be a whole number from 1, not {text}")
    return int(text)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.celery_pool",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--quick", action="store_true", help="the smallest size: checks that all of it runs")
    parser.add_argument("--rounds", type=_rounds, default=ROUNDS, metavar="N", help=f"{ROUNDS}, of some 60 s each")
    parser.add_argument("--broker", metavar="URL", help="such as amqp://guest:guest@127.0.0.1:5672// (Redis)")
    parser.add_argument("--results", type=Path, metavar="FOLDER", help="write celery_pool.json there")
    return parser.parse_args()


def main() -> None:
    """Measure and print; exit status 1 if a claim is missed."""
    options = _options()
    try:
        outcome = run(
            options.quick, lambda text: print(text, file=sys.stderr, flush=True), options.rounds, options.broker
        )
    except (OSError, RuntimeError) as error:
        sys.exit(f"python -m benchmarks.celery_pool: {error}")
    if options.results:
        outcome.save(options.results)
    _print(outcome)
    sys.exit(not options.quick and not all(claim.reached for claim in outcome.claims))


def _print(outcome: Outcome) -> None:
    where = outcome.where
    versions = ", ".join(f"{name} {number}" for name, number in where["versions"].items())
    print(f"{where['python']}, {versions}; {where['system']}, {where['cpus']} x {where['processor']}; {outcome.knobs}")
    show_tables(outcome)
    print()
    for claim in outcome.claims:
        verdict = "reached" if claim.reached else "MISSED"
        rounds = f" ({claim.spread})" if claim.spread else ""
        print(f"{claim.what}: {claim.ours}{rounds}, to reach {claim.target}: {verdict}")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        raise SystemExit(130) from None
