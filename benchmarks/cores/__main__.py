"""Several cores in one process: `python -m benchmarks.cores [NAME …]`, on Linux, with a free-threaded Python.

A free-threaded Python does each work with one OS thread, with several, and with several processes. This Python, which
has the interpreter lock, does it with one and with several threads. The ways take turns within each round. On a shared
machine a rate depends on how many cores were free, so the CPU time per operation is shown, too. "By CPU" is the ratio
of rates that would result from the CPU times if each thread had a core.
"""

import argparse
import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.cores.report import TITLES, markdown
from benchmarks.cores.samples import ROOT, run
from benchmarks.cores.services import Python
from benchmarks.machine import raise_file_limit, surroundings
from benchmarks.samples import Results

ROUNDS, SECONDS = 5, 2.0
FREE_THREADED = ROOT / ".venv-3.15t" / "bin" / "python"
PACKAGES = ("flask", "httptools", "pg8000", "psycopg2-binary", "redis", "sqlalchemy")


def version_of(python: Path) -> str:
    """Return an interpreter's versions of Python, Dhaga and dependencies. Raises: ValueError if it has the lock."""
    try:
        done = subprocess.run(
            [python, "-m", "dhaga", "--version"], cwd=ROOT, capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError) as error:
        raise ValueError(
            f"{python} cannot run Dhaga ({error}): make {FREE_THREADED.parent.parent.name}/.test"
        ) from None
    if "free-threaded" not in done.stdout:
        raise ValueError(f"{python} is no free-threaded Python: {done.stdout.strip()}")
    return done.stdout.strip()


def where(free: Path, threads: int, rounds: int, seconds: float) -> dict[str, Any]:
    """Describe the machine, both Pythons, and the effort. Raises: ValueError."""
    return surroundings(*PACKAGES, threads=threads, rounds=rounds, seconds=seconds) | {
        "without the lock": version_of(free)
    }


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cores", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(TITLES))
    parser.add_argument("--threads", type=int, default=os.cpu_count(), metavar="N", help="(one for each core)")
    parser.add_argument("--rounds", type=int, default=ROUNDS, metavar="N", help=f"({ROUNDS})")
    parser.add_argument("--seconds", type=float, default=SECONDS, metavar="S", help=f"of each sample ({SECONDS:g})")
    parser.add_argument("--quick", action="store_true", help="one round of 0.5 s: an impression, not a result")
    parser.add_argument("--free-threaded", type=Path, default=FREE_THREADED, metavar="PYTHON", help="(.venv-3.15t's)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all samples there")
    parser.add_argument(
        "--markdown", type=Path, metavar="FILE", help="measure nothing, print the tables of such a file"
    )
    options = parser.parse_args()
    if unknown := [name for name in options.names if name not in TITLES]:
        parser.error(f"there is no {unknown[0]}; there are {', '.join(TITLES)}")
    if options.threads < 2:
        parser.error("--threads takes 2 or more: one thread is always measured beside them")
    if options.quick:
        options.rounds, options.seconds = 1, 0.5
    return options


def _measured(options: argparse.Namespace) -> Results:
    def keep(results: Results) -> None:
        if options.json:
            options.json.write_text(json.dumps(asdict(results), indent=1) + "\n")

    try:
        here = where(options.free_threaded, options.threads, options.rounds, options.seconds)
    except ValueError as error:
        sys.exit(str(error))
    raise_file_limit()
    pythons = Python(sys.executable, False), Python(str(options.free_threaded), True)
    return run(options.names or TITLES, pythons, options.threads, options.rounds, options.seconds, here, keep)


def main() -> None:
    """Measure, or read what was measured, and print the tables; exit status 1 if something failed."""
    options = _arguments()
    results = Results(**json.loads(options.markdown.read_text())) if options.markdown else _measured(options)
    print("\n" + markdown(results))
    sys.exit(1 if results.failures else 0)


if __name__ == "__main__":
    main()
