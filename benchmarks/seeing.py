"""Measures what inspection costs: `python -m benchmarks.seeing`. A yield among 100 dhagas is measured without
inspection, with a watchdog, during a trace, and while shares of the time are measured for `top`.

The figure is the CPU time of the whole process, including the watchdog's thread. Other programs can only increase it,
so all ways take several turns in each round, and the minimum of each way counts. A trace must cost nothing once it is
off again, so "off again" follows directly after the trace. It also shows how much two equal measurements differ.

A watchdog checks so rarely that its cost cannot be measured directly. So it checks more often here. The cost of one
check is computed from the number of checks, and multiplied by the real number of checks per second of wall-clock time.
The result does not depend on the fraction of this second that other programs use.
"""

import argparse
import contextlib
import json
import logging
import math
import statistics
import sys
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from itertools import repeat
from pathlib import Path
from time import process_time

import dhaga
from benchmarks.machine import surroundings
from benchmarks.tables.number_format import rounded
from dhaga import debug
from dhaga.debug._cpu_share import Shares
from dhaga.debug._watchdog import LOOKS_PER_THRESHOLD, Watchdog

CROWD = 100
COUNT = 100_000
"""Number of yields that are timed together; they take about 60 ms."""
TURNS = 8
ROUNDS = 9
THRESHOLD = 0.1
"""The watchdog's threshold in seconds, as `DHAGA_DEBUG=1` sets it."""

EAGER = 0.005
"""The threshold in seconds of the measured watchdog, which checks often enough for its cost to be measurable."""

WATCHED = 1.0
"""The target: maximum percent that a watchdog, or inspection that is off again, adds to a yield."""
TRACED = 2.0
"""The target: maximum microseconds that a trace adds to a yield."""

Samples = dict[str, list[float]]


@contextlib.contextmanager
def _shares() -> Iterator[None]:
    """Measure shares during the block, as for `top` and the page, which read the shares repeatedly."""
    shares = Shares()
    shares.now()
    try:
        yield
    finally:
        shares.stop()  # stop at once; otherwise another thread would stop it some turns later
        shares.probe.close()


WAYS: dict[str, Callable[[], AbstractContextManager[object]]] = {
    "off": contextlib.nullcontext,
    "watch": lambda: debug.watch(EAGER),
    "trace": debug.trace,
    "off again": contextlib.nullcontext,
    "shares": _shares,
}


def _yields(count: int) -> float:
    """Let 100 dhagas yield to each other. Returns: microseconds of CPU time per yield, measured by the first dhaga."""
    laps = count // CROWD
    times: list[float] = []

    def clock() -> None:
        dhaga.sleep(0)
        began = process_time()
        run(laps)
        times.append(process_time() - began)

    def run(laps: int) -> None:
        sleep = dhaga.sleep
        for _ in repeat(None, laps):
            sleep(0)

    dhagas = [dhaga.spawn(clock), *(dhaga.spawn(run, laps + 2) for _ in range(CROWD - 1))]
    for each in dhagas:
        each.result()
    return times[0] / (laps * CROWD) * 1e6


def _samples(rounds: int, count: int) -> Samples:
    """Measure in turn. Returns: microseconds per yield, one figure per round. The first round is the warm-up."""
    measured = [_round(count) for _ in range(rounds + 1)][1:]
    return {name: [each[name] for each in measured] for name in WAYS}


def _round(count: int) -> dict[str, float]:
    """Return the minimum of each way. Every turn begins with a different way."""
    least = dict.fromkeys(WAYS, math.inf)
    looks = 0.0  # per yield
    names = deque(WAYS)
    for _ in range(TURNS):
        for name in names:
            with WAYS[name]() as way:
                microseconds, seen = _yields(count), way._looks if isinstance(way, Watchdog) else 0
            if microseconds < least[name]:
                least[name] = microseconds
                looks = seen / count if name == "watch" else looks
        names.rotate()
    least["watch"] = watched(least["off"], least["watch"], looks)
    return least


def watched(off: float, watch: float, looks: float) -> float:
    """Return the microseconds of a yield with a watchdog that checks as often as in reality.

    ``watch``: microseconds of a yield with a watchdog that has made ``looks`` checks per yield. If ``looks`` is 0, the
    time was too short, and ``watch`` is returned.
    """
    if not looks:
        return watch
    look = (watch - off) / looks
    return off + look * off * 1e-6 * LOOKS_PER_THRESHOLD / THRESHOLD


def added(samples: Samples, name: str) -> list[float]:
    """Return the microseconds that inspection adds to a yield, round by round."""
    return [on - off for on, off in zip(samples[name], samples["off"], strict=True)]


def percent(samples: Samples, name: str) -> list[float]:
    """Return the percentage that inspection adds to a yield, round by round."""
    return [100 * (on / off - 1) for on, off in zip(samples[name], samples["off"], strict=True)]


def _missed(samples: Samples) -> list[str]:
    medians = {name: statistics.median(percent(samples, name)) for name in ("watch", "off again")}
    missed = [name for name, median in medians.items() if rounded(median) > WATCHED]
    return missed + (["trace"] if rounded(statistics.median(added(samples, "trace"))) > TRACED else [])


def _number(text: str) -> int:
    """Read an option. Raises: ArgumentTypeError."""
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"a number from 1 on, and not {text!r}")
    return int(text)


def main() -> None:
    """Measure, print, and write the samples where `--json` says; exit status 1 if a target is missed."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.seeing", description="Measure what it costs to be looked at; about a minute."
    )
    parser.add_argument("--rounds", type=_number, default=ROUNDS, metavar="N", help=f"to take medians of ({ROUNDS})")
    parser.add_argument("--count", type=_number, default=COUNT, metavar="N", help=f"yields at once ({COUNT:,})")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all samples there")
    options = parser.parse_args()
    if options.count < CROWD:
        parser.error(f"--count: at least {CROWD}, one for each dhaga")
    logging.disable(logging.WARNING)  # delays of EAGER seconds are normal on a shared machine
    samples = _samples(options.rounds, options.count)
    for name, each in samples.items():
        more, share = statistics.median(added(samples, name)), statistics.median(percent(samples, name))
        print(f"{name:10} {statistics.median(each) * 1e3:7.0f} ns a yield, {more * 1e3:+7.0f} ns, {share:+7.2f} %")
    missed = _missed(samples)
    targets = f"targets, at most {WATCHED:+g} % for watch and off again, {TRACED * 1e3:+,.0f} ns for trace"
    print(f"{targets}: {'missed by ' + ', '.join(missed) if missed else 'reached'}")
    if options.json:
        where = surroundings(rounds=options.rounds, turns=TURNS, yields=options.count)
        options.json.write_text(json.dumps({"where": where, "samples": samples}, indent=1) + "\n")
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
