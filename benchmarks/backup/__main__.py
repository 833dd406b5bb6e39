"""A backup of many small files over a long line, by threads and by dhagas: `python -m benchmarks.backup`.

All rivals run the same program, `examples.backup`. Client and server are separate processes. Their traffic passes
through a relay that gives loopback a chosen latency and bandwidth. The client has one CPU; relay and server share
another. Each backup goes to a new store, which is read completely at the end. Missing or wrong data ends the
measurement.
"""

import argparse
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

from benchmarks.backup import report
from benchmarks.backup.quantities import duration, rate
from benchmarks.backup.samples import QUICK, RIVALS, Effort, sampled
from benchmarks.backup.tree import SHAPES
from benchmarks.machine import raise_file_limit, surroundings
from benchmarks.tables.charts import Chart
from benchmarks.tables.isolated_process import interruptible
from benchmarks.tables.outcome import Outcome, Tell
from benchmarks.tables.standalone import save, show, tell

TITLE = "Backup of many files over a long line"
STORY = (
    "A client saves a tree of files, each of which costs round trips: have you got this, then take it. Published: 1 GB "
    "in 32,000 files took 44 minutes with 32 threads and 14 with 4 threads of 32 dhagas each, 2.2 GB of program files "
    "37 and 15. Here the same is done by one program on either, over a line with a round trip of 40 ms; and as 4 x 32 "
    "are four times as many, also by 128 threads, and by 128 and by 1,024 dhagas in one OS thread."
)


def measure(quick: bool, tell: Tell) -> Outcome:
    """Measure all rivals over all lines."""
    return measured(QUICK if quick else Effort(), tell)


def measured(effort: Effort, tell: Tell) -> Outcome:
    """Measure with a chosen effort. Raises: OSError, RuntimeError."""
    raise_file_limit()
    samples = sampled(effort, tell)
    shape = effort.shape
    return Outcome(
        *("backup", TITLE, STORY, surroundings("msgpack", "zstandard", "blake3", **asdict(effort))),
        knobs={**asdict(effort), "files": shape.files, "bytes": shape.bytes, "rivals": RIVALS},
        samples=samples,
        claims=list(report.claims(samples, effort.tree)),
        tables=report.tables(samples, shape.files),
        notes=report.notes(samples, effort),
    )


def draw(outcome: Outcome) -> list[Chart]:
    """Draw time, CPU time, added memory and progress."""
    return report.charts(outcome.samples)


# ---- as a command


def _scale(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0.001 <= value <= 10:
        raise argparse.ArgumentTypeError(f"{text!r} is no scale: write a number from 0.001 to 10")
    return value


def _rounds(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) <= 100:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of rounds: write one from 1 to 100")
    return int(text)


def _directory(text: str) -> str:
    if not Path(text).is_dir():
        raise argparse.ArgumentTypeError(f"{text} is no directory")
    return text


def _as_written(read: Callable[[str], float]) -> Callable[[str], str]:
    def check(text: str) -> str:
        read(text)
        return text

    return check


def _arguments() -> argparse.Namespace:
    usual = Effort()
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.backup",
        description=f"{TITLE}, by threads and by dhagas. Takes three minutes and a half; at full size half an hour.",
    )
    parser.add_argument("--quick", action="store_true", help="one round of a few files: checks that all of it runs")
    parser.add_argument("--scale", type=_scale, metavar="X", help=f"of the published tree ({usual.scale})")
    parser.add_argument("--tree", choices=list(SHAPES), help=f"which of the two published ({usual.tree})")
    parser.add_argument("--rtt", type=_as_written(duration), metavar="TIME", help=f"of the line ({usual.rtt})")
    rates = " ".join(usual.rates)
    parser.add_argument("--rate", type=_as_written(rate), nargs="+", dest="rates", help=f"one line each ({rates})")
    parser.add_argument("--rounds", type=_rounds, metavar="N", help=f"({usual.rounds})")
    parser.add_argument("--scratch", type=_directory, metavar="FOLDER", help=f"for tree and stores ({usual.scratch})")
    parser.add_argument("--results", type=Path, metavar="FOLDER", help="write the JSON and the charts there")
    return parser.parse_args()


def _effort(options: argparse.Namespace) -> Effort:
    effort = QUICK if options.quick else Effort()
    given = {key: getattr(options, key) for key in asdict(effort) if getattr(options, key) is not None}
    return replace(effort, **given)


def main() -> None:
    """Measure and print; exit status 1 if something failed."""
    options = _arguments()
    try:
        with interruptible():
            outcome = measured(_effort(options), tell)
        if options.results:
            save(outcome, draw(outcome), options.results)
    except (OSError, RuntimeError) as error:
        sys.exit(f"{type(error).__name__}: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
    show(outcome)
    print("", *outcome.notes, sep="\n")


if __name__ == "__main__":
    main()
