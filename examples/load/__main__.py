"""python -m examples.load URL --rate N | --users N | --find BOUND: load a server, and tell what it did."""

from __future__ import annotations

import contextlib
import json
import resource
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dhaga import debug

from . import options, preflight, report, scenarios
from .bounds import Bound
from .clients import CLIENTS
from .live_table import shown
from .load import Load, NoRequestMade
from .open_loop import MOST
from .preflight import Unreachable
from .rate_search import RateSearch
from .runner import ClosedLoad, LoadShape, OpenLoad, conduct
from .scenarios import BadScenario

BROKEN, WRONG, INTERRUPTED = 1, 2, 130
SPARE = 50  # open files that are not connections

PATIENCE = 2.0
"""Seconds that a scenario may keep all others from running before that is told: what the tester does takes less."""


def shape_of(chosen: Any) -> LoadShape:
    """Return how runs begin. Raises: BadScenario."""
    seconds = chosen.duration or options.DURATION
    if not chosen.users:
        return OpenLoad(chosen.rate, seconds, chosen.ramp or 0.0, most(chosen))
    if chosen.users > (bearable := allow_connections() - SPARE):
        raise BadScenario(
            f"{chosen.users:,} users need as many open files, of which there may be {bearable:,}: see ulimit -n"
        )
    ramp = options.RAMP if chosen.ramp is None else chosen.ramp
    return ClosedLoad(chosen.users, seconds, ramp, chosen.pause or 0.0)


def most(chosen: Any) -> int:
    """Return the maximum number of simultaneous runs, which the limit of open files bounds. Raises: BadScenario."""
    bearable = allow_connections() - SPARE
    if bearable < 1:
        raise BadScenario(f"there may be only {bearable + SPARE} open files: see ulimit -n")
    return min(chosen.max_in_flight or MOST, bearable)


def allow_connections() -> int:
    """Allow as many open files as may be. Returns: how many."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard if hard > 0 else 1_000_000


def tell(line: str) -> None:
    """Say something that is no result."""
    print(line, file=sys.stderr, flush=True)


@dataclass(frozen=True)
class Outcome:
    """What a test has come to, for people and as JSON, and the exit status."""

    text: str
    figures: dict[str, Any]
    status: int

    def publish(self, path: Path | None) -> int:
        """Print it, and write it where that was asked for. Returns: the exit status."""
        if path == Path("-"):
            print(json.dumps(self.figures))
            return self.status
        print(self.text)
        if path is not None:
            path.write_text(json.dumps(self.figures, indent=1) + "\n")
        return self.status


def test(load: Load, shape: LoadShape, bounds: Sequence[Bound]) -> Outcome:
    """Carry one test out; a Ctrl-C ends it early."""
    interrupted = False
    try:
        conduct(load, shape)
    except KeyboardInterrupt:
        interrupted = True
    heading = f"{load.url}: {shape}, scenario {load.scenarios.names}" + interrupted * " (interrupted)"
    figures = load.book.figures()
    broken = [bound for bound in bounds if not bound.holds(figures)]
    told = [f"broken: {bound}, it is {bound.told(bound.found(figures))}" for bound in broken]
    text = "\n\n".join([report.summary(load.book, heading), *told])
    status = INTERRUPTED if interrupted else BROKEN if broken else 0
    return Outcome(text, report.as_json(load.book) | {"broken": list(map(str, broken))}, status)


def find(finder: RateSearch, rate: float) -> Outcome:
    """Look for the highest rate; a Ctrl-C ends that early."""
    interrupted = False
    try:
        finder.find(rate)
    except KeyboardInterrupt:
        interrupted = True
    text = report.findings(finder) + interrupted * "\n(interrupted)"
    status = INTERRUPTED if interrupted else 0 if finder.passed else BROKEN
    return Outcome(text, report.findings_as_json(finder), status)


def outcome_of(chosen: Any) -> Outcome:
    """Do what was asked for."""
    load = Load(chosen.url, scenarios.read(chosen.scenario), CLIENTS[chosen.client], chosen.timeout)
    preflight.look(chosen.url, chosen.timeout)
    quiet = chosen.quiet or chosen.json == Path("-")
    with debug.watch(PATIENCE), shown(load, quiet) as face, contextlib.closing(load):
        if not chosen.find:
            return test(load, shape_of(chosen), chosen.fail_if)
        finder = RateSearch(
            load, chosen.find, chosen.step or options.STEP, lambda step: face.say(str(step)), most(chosen)
        )
        rate = chosen.rate or finder.first_rate()
        face.say(
            f"from {rate:,.4g} runs a second on: a step of {finder.lasting(rate):.3g} s, and a fifth of that to warm up"
        )
        return find(finder, rate)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command. Returns: its exit status."""
    chosen = options.read(arguments)
    try:
        return outcome_of(chosen).publish(chosen.json)
    except (Unreachable, NoRequestMade, BadScenario, OSError) as error:
        tell(f"error: {error}")
        return WRONG
    except KeyboardInterrupt:
        tell("interrupted")
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
