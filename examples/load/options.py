"""The command line."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from . import bounds, preflight, quantities
from .clients import CLIENTS
from .load import PATIENCE
from .open_loop import MOST

DURATION = 10.0
RAMP = 1.0  # seconds in which users come, by default
STEP = 5.0  # seconds of a step of `--find`
R = TypeVar("R")

EXAMPLES = """
examples:
  python -m examples.load http://localhost:8000/ --rate 500 --duration 30s
  python -m examples.load http://localhost:8000/ --users 1000 --ramp 10s --pause 1s
  python -m examples.load http://localhost:8000/ --rate 200 --scenario shop.py:browse=9,buy=1 --fail-if 'p99>200ms'
  python -m examples.load http://localhost:8000/ --find p99=50ms

exit status: 0, 1 if a bound of --fail-if is broken (or none was found to hold), 2 if there is nothing that can be
tested, 130 after Ctrl-C
"""


def kind(read: Callable[[str], R], least: float | None = None) -> Callable[[str], R]:
    """Turn a reader's ValueError into an error of argparse."""

    def reading(text: str) -> R:
        try:
            value: Any = read(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from error
        if least is not None and not value > least:
            raise argparse.ArgumentTypeError(f"{text!r} is too little: it has to be above {least:g}")
        return value  # type: ignore[no-any-return]

    return reading


def whole(text: str) -> int:
    """Read a whole number. Raises: ValueError."""
    if not text.strip().isdecimal():
        raise ValueError(f"{text!r} is not a whole number: write one like 1000")
    return int(text)


def parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    found = argparse.ArgumentParser(
        prog="python -m examples.load",
        description="Load a web server with users that are dhagas, and measure what they see of it.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    found.add_argument("url", metavar="URL", type=kind(preflight.checked))
    _add_shape(found)
    _add_scenario(found)
    _add_outcome(found)
    return found


def _add_shape(found: argparse.ArgumentParser) -> None:
    seconds, above = quantities.seconds, kind(quantities.seconds, 0)
    shape = found.add_argument_group("how runs of the scenario begin")
    shape.add_argument(
        "--rate", type=kind(quantities.number, 0), metavar="N", help="so many are due each second, whatever the answers"
    )
    shape.add_argument("--users", type=kind(whole, 0), metavar="N", help="so many users, one run after the other each")
    shape.add_argument(
        "--find", type=kind(bounds.to_find), metavar="BOUND", action="append", help="the highest rate that holds this"
    )
    shape.add_argument("--duration", type=above, metavar="TIME", help=f"({DURATION:g}s)")
    shape.add_argument(
        "--ramp",
        type=kind(seconds),
        metavar="TIME",
        help=f"before it: the rate grows from 0 (0s), or the users come one by one ({RAMP:g}s); it is not measured",
    )
    shape.add_argument("--pause", type=kind(seconds), metavar="TIME", help="of a user between two runs (0s)")
    shape.add_argument(
        "--max-in-flight",
        type=kind(whole, 0),
        metavar="N",
        help=f"runs that are due when so many are under way are dropped, and count as errors ({MOST:,})",
    )
    shape.add_argument(
        "--step", type=above, metavar="TIME", help=f"a step of --find lasts so long at least ({STEP:g}s)"
    )


def _add_scenario(found: argparse.ArgumentParser) -> None:
    what = found.add_argument_group("what a run is")
    what.add_argument(
        "--scenario",
        action="append",
        default=[],
        metavar="PLACE:NAME[=WEIGHT][,…]",
        help="functions of a file or module that take a user (by default: fetch URL); chosen by their weights",
    )
    what.add_argument(
        "--client",
        choices=sorted(CLIENTS, reverse=True),
        default="requests",
        help="what users make requests with (requests); `light` has less, and takes a fraction of the CPU time",
    )
    what.add_argument(
        "--timeout",
        type=kind(quantities.seconds, 0),
        default=PATIENCE,
        metavar="TIME",
        help=f"of a request ({PATIENCE:g}s)",
    )


def _add_outcome(found: argparse.ArgumentParser) -> None:
    outcome = found.add_argument_group("what is told")
    outcome.add_argument(
        "--fail-if", type=kind(bounds.to_fail_by), action="append", default=[], metavar="BOUND", help="exit with 1"
    )
    outcome.add_argument(
        "--json", type=Path, metavar="FILE", help="write all figures there; -: to standard output alone"
    )
    outcome.add_argument("--quiet", action="store_true", help="show nothing before the end")


def read(arguments: Sequence[str] | None = None) -> Any:
    """Read the command line; what does not go together is told, and ends the program with status 2."""
    found = parser()
    options: Any = found.parse_args(arguments)
    for wrong in contradictions(options):
        found.error(wrong)
    return options


def contradictions(options: Any) -> list[str]:
    """Name what does not go together."""
    told = []
    if options.users and (options.rate or options.find):
        told.append("--users is another way than --rate and --find: give one")
    elif not (options.users or options.rate or options.find):
        told.append("say how much: --rate N, --users N or --find BOUND")
    if options.pause and not options.users:
        told.append("--pause is of --users: with --rate, runs begin when they are due")
    if options.users and options.max_in_flight:
        told.append("--max-in-flight is of --rate and --find: users make one run at a time each")
    if options.find and (options.ramp or options.duration):
        told.append("--find has steps instead of --ramp and --duration: --step tells how long each is")
    if options.step and not options.find:
        told.append("--step is of --find; --duration is how long a test is")
    if options.json and not options.json.absolute().parent.is_dir():
        told.append(f"--json {options.json}: there is no such folder")
    if options.find and options.fail_if:
        told.append("--find finds what holds; --fail-if is of --rate and --users")
    return told
