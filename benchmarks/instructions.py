"""Counts instructions per operation of the kernel's rows and per request of a service, under valgrind. The counts show
what a change costs, even on a busy machine.

`python -m benchmarks.instructions` counts in both modes, and compares with the counts recorded for this Python in
`results/instructions.json`. `--check` fails if a row has grown by more than the tolerance; `--record` saves the counts.

A repeated count differs by 1 %, but a time on a shared machine by half. The counts do not include the operating
system's kernel, caches and branches; for the speed of a row, see `benchmarks.kernel`. Requests are counted if the
packages and databases of their service are available (`instructions_requests`). Recorded counts apply to one build of
Python; with another build, the counts are only printed.
"""

import argparse
import itertools
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path

from benchmarks import instructions_requests
from benchmarks.kernel.rows import ROWS

RECORDED = Path(__file__).parent / "results" / "instructions.json"
NAMES = (
    *("yield-100", "spawn-join", "lock", "lock-100", "queue-1", "queue-100"),
    *("queue-ping-pong", "event-ping-pong", "condition-ping-pong", "socketpair"),
)
REQUESTS = {f"request-{name}": name for name in instructions_requests.COUNTED}
"""For each row of requests, the name of the service."""

OPERATIONS = 2000
TOLERANCE = 5.0
"""The tolerance in percent. Runs differ by up to 1 %, with databases by 2 %. A flag read in each park costs 1–2 %."""

MODES = {"compiled": "0", "pure": "1"}
"""For each mode, the value of DHAGA_PURE."""

Counts = dict[str, dict[str, int]]
"""Instructions per operation, by mode and row."""


def build() -> str:
    """Return a description of the build to which the counts apply."""
    profile = "with" if "--enable-optimizations" in (sysconfig.get_config_var("CONFIG_ARGS") or "") else "without"
    python = f"CPython {platform.python_version()} by {platform.python_compiler()} {profile} profile"
    return f"{python}, greenlet {version('greenlet')}, {platform.machine()}"


def count() -> Counts:
    """Count all rows in both modes. Raises: RuntimeError if a row fails."""
    services = {row: name for row, name in REQUESTS.items() if instructions_requests.can_serve(name)}
    with ThreadPoolExecutor() as threads:
        return dict(zip(MODES, threads.map(_count_mode, MODES.values(), itertools.repeat(services)), strict=True))


def _count_mode(pure: str, services: dict[str, str]) -> dict[str, int]:
    environ = {**os.environ, "DHAGA_PURE": pure, "DHAGA_CHUNKS": "", "PYTHONHASHSEED": "0"}
    requests = {row: instructions_requests.count(name, environ) for row, name in services.items()}
    return {**_count_rows(environ), **requests}


def _count_rows(environ: dict[str, str]) -> dict[str, int]:
    with tempfile.TemporaryDirectory() as folder:
        valgrind = ["valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"]
        command = [*valgrind, f"--log-file={folder}/%p", sys.executable, "-m", "benchmarks.instructions", "--rows"]
        done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=600)
        if done.returncode:
            raise RuntimeError(done.stderr.strip() or f"exit status {done.returncode}")
        pids: dict[str, list[int]] = json.loads(done.stdout)
        return {name: _of_an_operation(Path(folder), *each) for name, each in pids.items()}


def _of_an_operation(folder: Path, less: int, more: int) -> int:
    """Return the instructions per operation: the difference of two children, divided by ``OPERATIONS``."""
    totals = []
    for pid in (less, more):
        found = re.search(r"I +refs: +([\d,]+)", (folder / str(pid)).read_text())
        if found is None:
            raise RuntimeError("valgrind printed no count: is it cachegrind of valgrind 3.20 or later?")
        totals.append(int(found[1].replace(",", "")))
    return round((totals[1] - totals[0]) / OPERATIONS)


def run_rows() -> None:
    """Run each row twice, in forked children, so that Python and Dhaga start once. Prints: the children's pids."""
    # Replace the clock: everything is slow under valgrind, so laps would end after a time, not after so many switches.
    from dhaga._kernel import originals

    time.monotonic = originals.monotonic = itertools.count(0.0, 1e-6).__next__
    from benchmarks.kernel import on_dhaga

    pids = {}
    for row in ROWS:
        if row.name in NAMES:
            pids[row.name] = [
                _in_a_child(getattr(on_dhaga, row.work), n, *row.sizes) for n in (2000, 2000 + OPERATIONS)
            ]
    print(json.dumps(pids))


def _in_a_child(work: object, *arguments: int) -> int:
    assert callable(work)
    pid = os.fork()
    if pid == 0:
        try:
            work(*arguments)
        except BaseException as error:
            print(repr(error), file=sys.stderr)
            os._exit(1)
        os._exit(0)
    if os.waitpid(pid, 0)[1]:
        raise RuntimeError(f"{work} failed")
    return pid


def grown(counts: Counts, recorded: Counts, tolerance: float) -> list[str]:
    """Return a line for each row whose count exceeds the recorded count by more than the tolerance in percent."""
    return [
        f"{mode} {name}: {now:,} instructions, {100 * (now / before - 1):+.1f} % (recorded: {before:,})"
        for mode, rows in counts.items()
        for name, now in rows.items()
        if (before := recorded.get(mode, {}).get(name)) and now > before * (1 + tolerance / 100)
    ]


def lines(counts: Counts, recorded: Counts) -> Iterable[str]:
    """Yield the lines of the table."""
    yield f"{'instructions each':<22}" + "".join(f"{mode:>12}{'':>9}" for mode in counts)
    for name in (*NAMES, *REQUESTS):
        line = f"{name:<22}"
        for mode, rows in counts.items():
            if name not in rows:
                line += "  not counted here"
                continue
            before = recorded.get(mode, {}).get(name)
            line += f"{rows[name]:>12,}" + (f"{100 * (rows[name] / before - 1):>+7.1f} %" if before else " " * 9)
        yield line


def main() -> None:
    """Count, compare, and record or check as asked."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.instructions")
    parser.add_argument("--record", action="store_true", help="make these counts the ones to compare with")
    parser.add_argument("--check", action="store_true", help="exit with status 1 if a row has grown")
    parser.add_argument(
        "--tolerance", type=float, default=TOLERANCE, metavar="PERCENT", help=f"of --check ({TOLERANCE})"
    )
    parser.add_argument("--rows", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rows:
        run_rows()
        return
    if shutil.which("valgrind") is None:
        print("nothing counted: there is no valgrind (Debian: apt-get install valgrind)")
        return
    everything: dict[str, Counts] = json.loads(RECORDED.read_text()) if RECORDED.exists() else {}
    counts, recorded = count(), everything.get(build(), {})
    print(build(), *lines(counts, recorded), sep="\n")
    if not recorded:
        print("no counts are recorded for this build of Python: --record does that")
    if options.record:
        RECORDED.write_text(json.dumps({**everything, build(): counts}, indent=1) + "\n")
    if options.check and (more := grown(counts, recorded, options.tolerance)):
        sys.exit("\n".join(["more instructions than recorded:", *more]))


if __name__ == "__main__":
    main()
