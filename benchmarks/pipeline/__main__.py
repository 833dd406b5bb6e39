"""A web server that calls a backend for each page: `python -m benchmarks.pipeline`, on Linux, with wrk.

The backend answers after 2 ms, over kept connections. The server has one CPU; wrk and the backend share another. Each
server is a new process. Its two pages are loaded in turns of a second: a page without a backend call, and a page that
shows the backend's answer. The rivals take turns within each round.
"""

import argparse
import contextlib
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from subprocess import SubprocessError

from benchmarks.machine import raise_file_limit, surroundings
from benchmarks.pipeline import report
from benchmarks.pipeline.apps import THREADS
from benchmarks.pipeline.backend import source
from benchmarks.pipeline.samples import QUICK, Effort, MachineUnfit, Samples, installed, sampled
from benchmarks.pipeline.servers import RIVALS, Rival
from benchmarks.tables.charts import Chart
from benchmarks.tables.isolated_process import interruptible
from benchmarks.tables.outcome import Outcome, Tell
from benchmarks.tables.standalone import save, show, tell

TITLE = "A processing pool that calls out"


def story(effort: Effort) -> str:
    """Return a text about the compared servers and the published figures."""
    return (
        f"A web server answers each page with the help of a backend that takes {effort.delay:g} ms. Published, with "
        "ab: 40,000 requests a second without the remote call, 8,000 when the threads of a pool block on it, 30,000 "
        "when it is asynchronous. Here the backend is called by threads that block, by dhagas, by gevent's greenlets "
        "and by coroutines, each over connections that are kept; each server is measured without the call, too."
    )


def notes(effort: Effort) -> list[str]:
    """Return the notes for readers of the figures."""
    most = THREADS * 1e3 / effort.delay
    return [
        f"{THREADS} threads that block for {effort.delay:g} ms each make at most {most:,.0f} calls a second, on any "
        "machine: the other rows are bound by the CPU of their server, that one by its pool.",
        "dhagas and threads: dhaga.http.wsgi.Server in both, and one WSGI app; the threads are an OffloadPool. gevent: "
        "the same app on gevent.pywsgi with TCP_NODELAY, and on gunicorn's gevent worker, of which the faster one "
        "counts. Coroutines: an ASGI app on uvicorn with httptools, on asyncio's loop and on uvloop's.",
        "The client of the backend is the same for threads, dhagas and gevent, but for the module `socket`; for "
        "coroutines it is a protocol on the same parser. A bare epoll loop, in a process of its own, sends the same "
        "requests and receives the answers, and does nothing else.",
        "After each turn the backend's count of calls is compared with the pages that were served.",
    ]


def measure(quick: bool, tell: Tell) -> Outcome:
    """Measure all servers."""
    return measured(RIVALS, QUICK if quick else Effort(), tell)


def measured(rivals: Sequence[Rival], effort: Effort, tell: Tell) -> Outcome:
    """Measure some servers. Raises: MachineUnfit, RuntimeError, OSError, SubprocessError."""
    raise_file_limit()
    found = installed(rivals)
    missing = [
        f"{rival.name} was not measured: {rival.needs} is not installed." for rival in rivals if rival not in found
    ]
    where = surroundings("uvicorn", "gunicorn", "httptools", **asdict(effort))
    samples = sampled(found, effort, tell)
    return Outcome(
        *("pipeline", TITLE, story(effort), where),
        knobs={**asdict(effort), "threads": THREADS, "backend": source()},
        samples=asdict(samples),
        claims=list(report.claims(samples)),
        tables=report.tables(samples),
        notes=[*notes(effort), *missing],
    )


def draw(outcome: Outcome) -> list[Chart]:
    """Draw the rates, and the CPU time of a page."""
    return report.charts(Samples(**outcome.samples))


# ---- as a command


def _positive(text: str) -> float:
    with contextlib.suppress(ValueError):
        if 0 < float(text) < 1e6:
            return float(text)
    raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")


def _count(text: str) -> int:
    with contextlib.suppress(ValueError):
        if 1 <= int(text) <= 10_000:
            return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 to 10,000")


def _arguments() -> argparse.Namespace:
    names, usual = [rival.name for rival in RIVALS], Effort()
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.pipeline",
        description=f"{TITLE}: pages a second of servers that call a backend for each. Takes three minutes.",
    )
    parser.add_argument("--quick", action="store_true", help="one round of moments: checks that all of it runs")
    parser.add_argument("--rivals", nargs="+", metavar="NAME", choices=names, default=names, help="; ".join(names))
    parser.add_argument("--rounds", type=_count, metavar="N", help=f"({usual.rounds})")
    parser.add_argument("--turns", type=_count, metavar="N", help=f"of each page in a round ({usual.turns})")
    parser.add_argument("--seconds", type=_positive, metavar="S", help=f"of a turn of a page ({usual.seconds:g})")
    parser.add_argument("--connections", type=_count, metavar="N", help=f"of wrk ({usual.connections})")
    parser.add_argument("--delay", type=_positive, metavar="MS", help=f"until the backend answers ({usual.delay:g})")
    parser.add_argument("--results", type=Path, metavar="FOLDER", help="write the JSON and the charts there")
    return parser.parse_args()


def _effort(options: argparse.Namespace) -> Effort:
    given = {key: value for key in asdict(Effort()) if (value := getattr(options, key, None)) is not None}
    return Effort(**{**asdict(QUICK if options.quick else Effort()), **given})


def main() -> None:
    """Measure and print. Exit status: 1 if something failed, 2 if this machine cannot measure."""
    options = _arguments()
    rivals = [rival for rival in RIVALS if rival.name in options.rivals]
    try:
        with interruptible():
            outcome = measured(rivals, _effort(options), tell)
        show(outcome)
        if options.results:
            save(outcome, draw(outcome), options.results)
    except MachineUnfit as error:
        print(error, file=sys.stderr)
        sys.exit(2)
    except (OSError, RuntimeError, SubprocessError) as error:
        sys.exit(f"{type(error).__name__}: {error}")
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
