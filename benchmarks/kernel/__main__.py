"""Dhaga, gevent, asyncio, uvloop, threads and the raw limit at the same work: `python -m benchmarks.kernel`.

All rows take about twenty minutes; `--quick` gives a first impression in two or three. The docstring of a row's
function in `on_dhaga.py` says what the row measures; rows and targets are in `rows.py`.
"""

import argparse
import sys
from fnmatch import fnmatch
from pathlib import Path

from benchmarks.kernel.report import markdown
from benchmarks.kernel.rows import COLUMNS, ROWS, Row
from benchmarks.kernel.runner import Effort, Results, run
from benchmarks.machine import compiler, raise_file_limit

QUICK = Effort(rounds=1, loop=0.1, load=0.6)
ROUNDS, LOOP, LOAD = 5, 0.3, 2.0


def _arguments() -> argparse.Namespace:
    names = ", ".join(row.name for row in ROWS)
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kernel", description="rows: " + names)
    parser.add_argument("--only", nargs="+", metavar="NAME", help="only these rows; echo-* means all that begin so")
    parser.add_argument("--rivals", nargs="+", metavar="RIVAL", choices=COLUMNS, help="only some of these")
    parser.add_argument("--rounds", type=int, metavar="N", help=f"rounds to take the median of ({ROUNDS})")
    parser.add_argument("--quick", action="store_true", help="one round of short loops: an impression, not a result")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all samples there")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="measure nothing, print the table of such a file")
    return parser.parse_args()


def _effort(options: argparse.Namespace) -> Effort:
    if options.quick:
        return Effort(options.rounds or QUICK.rounds, QUICK.loop, QUICK.load)
    return Effort(options.rounds or ROUNDS, LOOP, LOAD)


def _chosen(patterns: list[str] | None) -> list[Row]:
    """Return the rows that match; exit if a pattern matches none."""
    if patterns is None:
        return list(ROWS)
    for pattern in patterns:
        if not any(fnmatch(row.name, pattern) for row in ROWS):
            sys.exit(f"no row {pattern}; there are {', '.join(row.name for row in ROWS)}")
    return [row for row in ROWS if any(fnmatch(row.name, pattern) for pattern in patterns)]


def _progress(text: str) -> None:
    start, end = ("\r", "") if sys.stderr.isatty() else ("", "\n")
    print(f"{start}{text:<60}", end=end, file=sys.stderr, flush=True)


def _measured(options: argparse.Namespace) -> Results:
    rows = _chosen(options.only)
    files = raise_file_limit()
    most = max((row.sizes[0] for row in rows if row.work == "echo"), default=0)
    if files < most + 100:
        sys.exit(f"{most} connections need more than the {files} open files that are allowed here (ulimit -Hn)")
    if most and compiler() is None:
        print("No C compiler or no epoll: the echo load comes from Python and may be the bottleneck.", file=sys.stderr)
    return run(rows, options.rivals or COLUMNS, _effort(options), _progress)


def main() -> None:
    """Measure, or read what was measured, and print the report; exit status 1 if anything failed."""
    options = _arguments()
    results = Results.load_from(options.markdown) if options.markdown else _measured(options)
    if options.json:
        results.save(options.json)
    print("\n" + markdown(results))
    sys.exit(1 if results.failures else 0)


if __name__ == "__main__":
    main()
