"""What a run comes to: every request accounted for, rates by the second, and how late the answers were.

Three rates, each in windows of one second (or `window`) from the first arrival; the last window counts if it is whole.

kept       answers by the window in which the request was *due*, where they are at most `KEPT_WITHIN` late. None can
           slip into the next window here, so a rate that is held has deviation 0: nothing is lost, nothing piles up.
shifted    answers by the moment at which they came, less the latency of their upstream: a request that is due just
           before the end of a window, and late, counts in the next one.
completed  answers by the moment at which they came. The first window, in which answers begin, is left out, and so is
           what comes after the last arrival.
"""

import statistics
from collections.abc import Iterable, Sequence
from math import ceil, nan
from typing import Any

from benchmarks.rate_model.run import Run

KEPT_WITHIN = 0.1
"""Seconds. At 1,000/s and 60 ms 50 threads fall behind by 0.2 s a second: a limit of a second would call that held."""

FINER = 10  # times as many points has the line of a chart as there are windows
PERCENTS = (0, 1, *range(5, 100, 5), 99, 99.9, 100)


def figures(run: Run, window: float) -> dict[str, Any]:
    """Sum up a run that has ended; in a form for JSON."""
    plan, done, arrivals = run.plan, run.done, run.arrivals
    answered = [number for number in range(plan.count) if 0 < done[number] <= run.end]
    silent = sorted(set(range(plan.count)).difference(answered, run.failed))
    overdue = [number for number in silent if not run.hung(number)]
    late = {number: done[number] - run.ideal(number) for number in answered}
    kept = [arrivals.due(number) for number in answered if late[number] <= KEPT_WITHIN]
    windows = int(plan.count / plan.rate / window + 1e-9)  # the whole ones
    begin = arrivals.start - 0.5 / plan.rate  # no request is due at the edge of a window
    return {
        "arrivals": plan.count,
        "answered": len(answered),
        "hung": len(silent) - len(overdue),
        "overdue": len(overdue),
        "failed": len(run.failed),
        "why failed": sorted(set(run.failed.values()))[:3],
        "kept": rates(kept, begin, window, windows),
        "shifted": rates((done[n] - plan.latency(n) for n in answered), arrivals.start, window, windows),
        "completed": rates((done[n] for n in answered), arrivals.start, window, windows)[1:],
        "line": rates((done[n] for n in answered), arrivals.start, window / FINER, windows * FINER),
        "added": percentiles([*late.values(), *(run.end - run.ideal(number) for number in overdue)]),
    }


def rates(moments: Iterable[float], start: float, window: float, windows: int) -> list[float]:
    """Count moments by windows. Returns: the rate per second in each."""
    counts = [0] * windows
    for moment in moments:
        number = int((moment - start) // window)
        if 0 <= number < windows:
            counts[number] += 1
    return [round(count / window, 3) for count in counts]


def percentiles(values: list[float]) -> list[float]:
    """Return the value at each of `PERCENTS`, by the nearest rank, exactly; nothing of no values."""
    ordered = sorted(values)
    return [round(ordered[max(0, ceil(len(ordered) * each / 100) - 1)], 6) for each in PERCENTS if ordered]


def at(added: Sequence[float], percent: float) -> float:
    """Return one of the percentiles; not a number, if there was no answer to take it of."""
    return added[PERCENTS.index(percent)] if added else nan


def mean(rates: Sequence[float]) -> float:
    """Return the average rate, 0 of no window."""
    return statistics.fmean(rates) if rates else 0.0


def deviation(rates: Sequence[float]) -> float:
    """Return the standard deviation of windows, 0 of less than two."""
    return statistics.pstdev(rates) if rates else 0.0
