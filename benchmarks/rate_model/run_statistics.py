"""The statistics of a run: the outcome of every request, rates per second, and added latencies.

There are three rates, each in windows of one second (or `window`) from the first arrival. The last window counts only
if it is complete.

kept       answers at most `KEPT_WITHIN` late, in the window in which their request was *due*. No answer can move to the
           next window, so a rate without losses and backlogs has deviation 0.
shifted    answers, in the window of their time minus the latency of their upstream. If a request is due just before the
           end of a window, and its answer is late, the answer counts in the next window.
completed  answers, in the window in which they came. The first window, in which answers begin, and the time after the
           last arrival are left out.
"""

import statistics
from collections.abc import Iterable, Sequence
from math import ceil, nan
from typing import Any

from benchmarks.rate_model.run import Run

KEPT_WITHIN = 0.1
"""Seconds. With 1,000/s and 60 ms, 50 threads fall behind by 0.2 s per second; a limit of a second would miss this."""

FINER = 10  # number of points of a chart's line per window
PERCENTS = (0, 1, *range(5, 100, 5), 99, 99.9, 100)


def figures(run: Run, window: float) -> dict[str, Any]:
    """Return the figures of an ended run, in a form for JSON."""
    plan, done, arrivals = run.plan, run.done, run.arrivals
    answered = [number for number in range(plan.count) if 0 < done[number] <= run.end]
    silent = sorted(set(range(plan.count)).difference(answered, run.failed))
    overdue = [number for number in silent if not run.hung(number)]
    late = {number: done[number] - run.ideal(number) for number in answered}
    kept = [arrivals.due(number) for number in answered if late[number] <= KEPT_WITHIN]
    windows = int(plan.count / plan.rate / window + 1e-9)  # the number of complete windows
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
    """Return the exact percentiles at `PERCENTS`, by the nearest rank; without values, an empty list."""
    ordered = sorted(values)
    return [round(ordered[max(0, ceil(len(ordered) * each / 100) - 1)], 6) for each in PERCENTS if ordered]


def at(added: Sequence[float], percent: float) -> float:
    """Return one of the percentiles; NaN if there was no answer."""
    return added[PERCENTS.index(percent)] if added else nan


def mean(rates: Sequence[float]) -> float:
    """Return the mean rate; without windows, 0."""
    return statistics.fmean(rates) if rates else 0.0


def deviation(rates: Sequence[float]) -> float:
    """Return the standard deviation of the windows' rates; with less than two windows, 0."""
    return statistics.pstdev(rates) if rates else 0.0
