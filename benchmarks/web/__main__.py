"""Web servers at the same work, on one core each: `python -m benchmarks.web`, on Linux, with wrk.

`hello-100`, `hello-1000`: a small answer over 100 or 1,000 kept connections, to wrk on another core. `idle-polls`: the
same over 100 connections, before and while 10,000 more connections wait in the app for an event. Each measurement has a
new server process. The rivals take turns within each round, and a ratio is the median of the ratios within the rounds.
Other programs on the core affect wall-clock time, but not the server's CPU time per request.
"""

import argparse
import os
import statistics
import sys
from collections.abc import Collection, Iterable
from dataclasses import asdict
from importlib.metadata import version
from importlib.util import find_spec
from json import dumps, loads
from pathlib import Path
from subprocess import SubprocessError
from typing import Any

from benchmarks import samples
from benchmarks.machine import cpus, raise_file_limit, surroundings
from benchmarks.markdown import table
from benchmarks.samples import Sample
from benchmarks.web import load
from benchmarks.web.servers import (
    DHAGA,
    GUNICORN,
    GUNICORN_GEVENT,
    NEEDED,
    PYWSGI,
    RIVALS,
    UVICORN,
    serving,
)

ROUNDS, SECONDS, WARM_UP = 5, 4, 1
POLLS = 10_000
HELLO = {"hello-100": 100, "hello-1000": 1000}
IDLE = "idle-polls"
ROWS = (*HELLO, IDLE)
HOLDING = DHAGA, GUNICORN, PYWSGI, GUNICORN_GEVENT
"""The rivals that hold the idle polls, with a greenlet for each. Threads cannot, and uvicorn runs a different app."""

FASTER = ((DHAGA, PYWSGI, 10.0), (DHAGA, UVICORN, 1.5), (GUNICORN, GUNICORN_GEVENT, 1.3))
"""The targets: the first server serves at least this many times as many requests as the second."""

MOST_MB, LEAST_KEPT = 250.0, 0.7
"""The targets with idle polls: maximum MB of the process, and minimum fraction of the rate without idle polls."""


class Results(samples.Results):
    """The samples of this benchmark, and their ratios."""

    def ratio(self, row: str, ours: str, theirs: str, key: str) -> float:
        """Return the median over the rounds of the figure of ``ours`` divided by ``theirs``."""
        pairs = zip(self.of(row, ours, key), self.of(row, theirs, key), strict=False)
        return statistics.median([mine / other for mine, other in pairs] or [float("nan")])


# ---- measuring


def measure_hello(row: str, rival: str, seconds: int, cpus: tuple[int, int]) -> Sample:
    """Load a new server."""
    with serving(rival, cpus[0]) as server:
        load.wrk(server, HELLO[row], WARM_UP, cpus[1])
        return {**load.wrk(server, HELLO[row], seconds, cpus[1]), "memory": server.resident()}


def measure_polls(rival: str, count: int, seconds: int, cpus: tuple[int, int]) -> Sample:
    """Load a new server without the idle polls, and then with them."""
    with serving(rival, cpus[0], holds=True) as server:
        load.wrk(server, 100, WARM_UP, cpus[1])
        alone = load.wrk(server, 100, seconds, cpus[1])
        before = server.resident()
        with load.polls(server, count, cpus[1]):
            held = server.resident()
            beside = load.wrk(server, 100, seconds, cpus[1])
            after = server.resident()
    return {
        "before": before,
        "memory": max(held, after),
        "each": (held - before) * 1e3 / count,
        "alone": alone["rate"],
        "beside": beside["rate"],
        "kept": beside["rate"] / alone["rate"],
        "kept_by_cpu": alone["cpu"] / beside["cpu"],
        "errors": alone["errors"] + beside["errors"],
    }


def run(rows: Iterable[str], rivals: Collection[str], rounds: int, seconds: int, count: int) -> Results:
    """Measure every row, the rivals in turn. A rival that fails in a row is not run in it again."""
    pinned = cpus()
    if pinned is None:
        sys.exit("two CPUs are needed, one for the server and one for the load")
    results = Results(where(rounds, seconds))
    for row in rows:
        here = [rival for rival in (HOLDING if row == IDLE else RIVALS) if rival in rivals and not missing(rival)]
        for number in range(1, rounds + 1):
            for rival in here:
                if rival in results.failures.get(row, {}):
                    continue
                print(f"{row}, round {number} of {rounds}: {rival}", file=sys.stderr, flush=True)
                try:
                    if row == IDLE:
                        sample = measure_polls(rival, count, seconds, pinned)
                    else:
                        sample = measure_hello(row, rival, seconds, pinned)
                    results.samples.setdefault(row, {}).setdefault(rival, []).append(sample)
                except (OSError, RuntimeError, ValueError, SubprocessError) as error:
                    results.failures.setdefault(row, {})[rival] = f"{type(error).__name__}: {error}"
    return results


def missing(rival: str) -> bool:
    return rival in NEEDED and find_spec(NEEDED[rival]) is None


def where(rounds: int, seconds: int) -> dict[str, Any]:
    found = surroundings(rounds=rounds, load=seconds)
    names = [name for name in ("gunicorn", "httptools", "uvicorn") if find_spec(name) is not None]
    found["versions"] |= {name: version(name) for name in names}
    found["load average"] = os.getloadavg()
    return found


# ---- reporting


NOTES = """\
gevent.pywsgi sends head and body apart and leaves Nagle's algorithm on: over few connections it then waits 40 ms for
each client's delayed acknowledgement, which shows in its rate, not in its CPU time. With `nodelay` it does not.
"""


def verdict(reached: bool) -> str:
    return "yes" if reached else "**no**"


def hello_lines(results: Results) -> Iterable[list[str]]:
    for row in HELLO:
        for rival in results.samples.get(row, {}):
            value = {key: results.median(row, rival, key) for key in ("rate", "cpu", "p50", "p99", "memory", "errors")}
            yield [
                *(row, rival, f"{value['rate']:,.0f}", f"{value['cpu']:.1f}", f"{value['p50'] / 1e3:.1f}"),
                *(f"{value['p99'] / 1e3:.1f}", f"{value['memory']:.0f}", f"{value['errors']:.0f}"),
            ]


def target_lines(results: Results) -> Iterable[list[str]]:
    for row in HELLO:
        for ours, theirs, bound in FASTER:
            by_rate, by_cpu = results.ratio(row, ours, theirs, "rate"), 1 / results.ratio(row, ours, theirs, "cpu")
            if by_rate == by_rate:
                reached = verdict(round(by_rate, 2) >= bound)
                yield [row, f"{ours} to {theirs}", f"≥ {bound:g}", f"{by_rate:.2f}", f"{by_cpu:.2f}", reached]


def poll_lines(results: Results) -> Iterable[list[str]]:
    for rival in results.samples.get(IDLE, {}):
        names = ("before", "memory", "each", "alone", "beside", "kept", "kept_by_cpu", "errors")
        value = {key: results.median(IDLE, rival, key) for key in names}
        reached = value["memory"] < MOST_MB and value["kept"] >= LEAST_KEPT
        yield [
            *(rival, f"{value['before']:.0f}", f"{value['memory']:.0f}", f"{value['each']:.1f}"),
            *(f"{value['alone']:,.0f}", f"{value['beside']:,.0f}", f"{value['kept']:.0%}"),
            *(f"{value['kept_by_cpu']:.0%}", f"{value['errors']:.0f}"),
            verdict(reached) if rival in (DHAGA, GUNICORN) else "–",
        ]


def markdown(results: Results) -> str:
    """Return the whole report."""
    found = results.where
    versions = ", ".join(f"{name} {number}" for name, number in found["versions"].items())
    parts = [
        f"{found['python']}, {versions}; {found['system']}, {found['cpus']} x {found['processor']}. Medians of "
        f"{found['effort']['rounds']} rounds of {found['effort']['load']:g} s, server and wrk on a CPU each; load "
        f"average at the start: {found['load average'][0]:.1f}. {found.get('remark', '')}"
    ]
    head = ["row", "server", "requests/s", "CPU µs a request", "p50 ms", "p99 ms", "MB", "errors"]
    parts.append(table(head, hello_lines(results)))
    head = ["row", "ratio of", "target", "by rate", "by CPU time", "reached"]
    parts += [table(head, target_lines(results)), NOTES.strip()]
    if IDLE in results.samples:
        head = [
            "server",
            "MB without",
            "MB with",
            "KB a poll",
            "requests/s without",
            "with",
            "kept",
            "kept by CPU time",
        ]
        target = f"< {MOST_MB:g} MB, ≥ {LEAST_KEPT:.0%}"
        parts.append(table([*head, "errors", target], poll_lines(results)))
    failures = [f"- {row}, {rival}: {why}" for row, each in results.failures.items() for rival, why in each.items()]
    return "\n\n".join([*parts, *(["Failed:\n\n" + "\n".join(failures)] if failures else [])])


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.web")
    parser.add_argument("--only", nargs="+", metavar="ROW", choices=ROWS, default=ROWS, help=", ".join(ROWS))
    parser.add_argument("--rivals", nargs="+", metavar="RIVAL", choices=RIVALS, default=RIVALS, help=", ".join(RIVALS))
    parser.add_argument("--rounds", type=int, default=ROUNDS, metavar="N", help=f"({ROUNDS})")
    parser.add_argument("--seconds", type=int, default=SECONDS, metavar="S", help=f"under load ({SECONDS})")
    parser.add_argument("--polls", type=int, default=POLLS, metavar="N", help=f"idle ones ({POLLS:,})")
    parser.add_argument(
        "--quick", action="store_true", help="one round of 1 s, 1,000 polls: an impression, not a result"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all samples there")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="measure nothing, print the table of such a file")
    return parser.parse_args()


def main() -> None:
    """Measure, or read what was measured, and print the report; exit status 1 if anything failed."""
    options = _arguments()
    if options.markdown:
        results = Results(**loads(options.markdown.read_text()))
    elif options.quick:
        raise_file_limit()
        results = run(options.only, options.rivals, 1, 1, 1_000)
    else:
        raise_file_limit()
        results = run(options.only, options.rivals, options.rounds, options.seconds, options.polls)
    if options.json:
        options.json.write_text(dumps(asdict(results), indent=1) + "\n")
    print("\n" + markdown(results))
    sys.exit(1 if results.failures else 0)


if __name__ == "__main__":
    main()
