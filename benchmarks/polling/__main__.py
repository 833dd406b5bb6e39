"""Counting under concurrency: `python -m benchmarks.polling`.

There are three questions. How wrong is a rate that is read by polling a counter, with and without
`dhaga.metrics.RateMeter`? What does a count cost in batches, in a `Counter` and under a lock? How long do callers wait
if they share one output? The modules `poller.py`, `counters.py` and `callers.py` describe the measurements.
"""

import argparse
import itertools
import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.machine import surroundings
from benchmarks.markdown import table
from benchmarks.polling import callers, charts, counters, poller, report
from benchmarks.polling.line_writers import SHARING
from benchmarks.polling.outputs import LIBRARIES, OUTPUTS
from benchmarks.tables.charts import Chart
from benchmarks.tables.outcome import Outcome, Tell

TITLE = "Counting under concurrency"
STORY = (
    "100 tasks count what they have done, and a poller reads the counter again and again to tell their rate. Published "
    "are errors that grow as the polls come closer together, up to 14.48 % for tasks of 10 ms, and up to 5.91 % for "
    "tasks of 10 µs: a poller sleeps longer than it means to. Beside that stand three ways to count, published as "
    "1 : 0.0084 : 0.0024 for local batches, an atomic and a mutex; and one output that all write to, under a lock or "
    "through a queue with one owner."
)
NOTES = [
    "Errors are sizes, against what the tasks themselves wrote down in the stretch that was polled: the median of the "
    "rounds, and from where to where they went. A worst poll is the one reading that is farthest off in a run.",
    "The poller is a HIGH dhaga of the first scheduler. The four schedulers are four OS threads under one interpreter "
    "lock, which a thread that computes keeps for 5 ms: so late a poller is there, whatever its priority.",
    "Under the lock and with an acknowledgement a caller goes on once its line is written; with the queue alone once "
    "the queue has taken it. Flat out a dhaga lets others run between two lines, as a thread is made to.",
]


@dataclass(frozen=True)
class Effort:
    """The extent of the measurement."""

    rounds: int
    intervals: tuple[float, ...]
    poll_seconds: float
    count_seconds: float
    callers: tuple[int, ...]
    write_seconds: float


FULL = Effort(3, (1, 0.5, 0.2, 0.05, 0.01), 1.5, 0.3, (100, 1000), 0.4)
QUICK = Effort(1, (0.05, 0.025, 0.01, 0.0025, 0.0005), 0.05, 0.02, (10, 50), 0.02)
SCHEDULERS = (1, 4)
MEASURED = {"polls": poller.polled, "ways": counters.rate, "outputs": callers.written}
"""For each part, the function that measures one row."""

Rows = list[dict[str, Any]]


def _rows(effort: Effort) -> dict[str, Rows]:
    """Return the arguments of each measurement, by part."""
    return {
        "polls": _product(
            interval=effort.intervals, work=poller.WORK, schedulers=SCHEDULERS, seconds=[effort.poll_seconds]
        ),
        "ways": _product(place=counters.PLACES, way=counters.WAYS, seconds=[effort.count_seconds]),
        "outputs": _product(
            output=OUTPUTS,
            callers=effort.callers,
            library=LIBRARIES,
            way=SHARING,
            seconds=[effort.write_seconds],
        ),
    }


def _product(**choices: Iterable[Any]) -> Rows:
    return [dict(zip(choices, each, strict=True)) for each in itertools.product(*choices.values())]


def _sampled(effort: Effort, tell: Tell) -> dict[str, Any]:
    """Measure all rows in each round. Returns: the rows by part, each with its results by round; and `add`, a time."""
    rows = _rows(effort)
    found: dict[str, Any] = {part: [row | {"rounds": []} for row in each] for part, each in rows.items()}
    found["add"] = []
    for number in range(effort.rounds):
        found["add"].append(counters.nanoseconds_of_add())
        for part, measured in MEASURED.items():
            tell(f"round {number + 1} of {effort.rounds}: {part}, {len(rows[part])} rows")
            for row, sample in zip(rows[part], found[part], strict=True):
                sample["rounds"].append(measured(**row))  # type: ignore[operator]
    return found


def run(effort: Effort, tell: Tell) -> Outcome:
    """Measure to the extent of ``effort``."""
    samples = _sampled(effort, tell)
    knobs = asdict(effort)
    where = surroundings(rounds=effort.rounds)
    claims, tables = report.claims(samples), report.tables(samples)
    return Outcome("polling", TITLE, STORY, where, knobs, samples, claims, tables, NOTES)


def measure(quick: bool, tell: Tell) -> Outcome:
    """Poll, count and write, for about three and a quarter minutes; with ``quick``, for six seconds."""
    return run(QUICK if quick else FULL, tell)


def draw(outcome: Outcome) -> list[Chart]:
    """Draw errors by interval, counts by way, and waits of callers."""
    return charts.charts(outcome.samples)


def _rounds(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"must be a whole number from 1, not {text}")
    return int(text)


def _folder(text: str) -> Path:
    path = Path(text)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return path


def _print(outcome: Outcome) -> None:
    for each in outcome.tables:
        print(f"{each.caption}\n\n{table(each.head, each.lines)}\n")
    for claim in outcome.claims:
        verdict = "reached" if claim.reached else "MISSED"
        print(f"{claim.what}: {claim.value:.3f} {claim.unit}, at most {claim.bound:g}: {verdict}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.polling", description=STORY)
    parser.add_argument("--quick", action="store_true", help="the smallest size, some 6 s: checks that all of it runs")
    parser.add_argument("--rounds", type=_rounds, metavar="N", help=f"{FULL.rounds}, of some 65 s each")
    parser.add_argument("--results", type=_folder, metavar="FOLDER", help="write polling.json there")
    return parser.parse_args()


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> None:
    """Measure and print; exit status 1 if a target is missed, 130 after Ctrl-C."""
    options = _options()
    effort = QUICK if options.quick else FULL
    try:
        outcome = run(replace(effort, rounds=options.rounds or effort.rounds), _tell)
        _print(outcome)
        if options.results:
            outcome.save(options.results)
    except KeyboardInterrupt:
        sys.exit(130)
    except OSError as error:  # no room for the output, too few files or processes
        sys.exit(f"python -m benchmarks.polling: {error}")
    sys.exit(not options.quick and not all(claim.reached for claim in outcome.claims))


if __name__ == "__main__":
    main()
