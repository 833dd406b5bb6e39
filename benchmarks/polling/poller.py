"""100 tasks count their work, and a poller reads their rate. The rates that it reads are compared with the true rate.

The poller is a HIGH dhaga of the first scheduler. At each poll it reads and resets a Counter, and reads a RateMeter on
the same Counter. This gives three rates:

- *nominal*: the mean of the counts of each poll, divided by the interval for which the poller meant to sleep;
- *mean of rates*: the mean of the counts of each poll, divided by the time that has really passed;
- *meter*: the RateMeter's rate, which is a ratio of sums: all counts, divided by all the time.

For the true rate, each task records the times at which it has finished its work. The true rate is the number of these
times in the period that the poller has watched, divided by the period. The same holds for each single poll.
"""

import functools
import itertools
import statistics
import timeit
from bisect import bisect_right
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from time import monotonic

import dhaga
from dhaga import HIGH, Scheduler
from dhaga.metrics import Counter, RateMeter, Reading

TASKS = 100
WARM_UP = 0.02
"""Seconds before the first poll."""


def _sleeping() -> None:
    dhaga.sleep(0.01)


@functools.cache
def _turns() -> int:
    """Return the number of iterations of an empty loop that take 10 µs on an idle CPU."""
    times = timeit.repeat("for _ in turns: pass", globals={"turns": range(1000)}, number=1, repeat=500)
    return round(1000 * 10e-6 / min(times))


def _computing() -> None:
    for _ in range(_turns()):
        pass
    dhaga.sleep(0)


WORK: dict[str, Callable[[], None]] = {"10 ms": _sleeping, "10 µs": _computing}
"""For each duration, a function whose call takes this long."""


@dataclass
class PolledTasks:
    """Tasks that count until ``over`` is set."""

    work: Callable[[], None]
    counter: Counter = field(default_factory=Counter)
    times: list[list[float]] = field(default_factory=list)
    over: bool = False

    def task(self) -> None:
        """Work repeatedly. Count each call in the shared counter, and record its time in a list of the task."""
        mine: list[float] = []
        self.times.append(mine)
        while not self.over:
            self.work()
            mine.append(monotonic())
            self.counter.add()

    def done(self) -> list[float]:
        """Return the times of all tasks, in order."""
        return sorted(itertools.chain(*self.times))


@dataclass(frozen=True)
class RateReadings:
    """The counts and rates that a poller has read."""

    interval: float
    before: int  # counted before the first poll
    counts: list[int]
    readings: list[Reading]
    marks: list[float]  # the time of the beginning, and then the times of the readings

    def nominal(self) -> list[float]:
        """Return the rates under the assumption that each poll took exactly the interval."""
        return [count / self.interval for count in self.counts]


def _poll(counter: Counter, interval: float, polls: int) -> RateReadings:
    dhaga.sleep(WARM_UP)
    seen = RateReadings(interval, counter.take(), [], [], [])
    meter = RateMeter(counter)
    seen.marks.append(meter._mark[1])
    for _ in range(polls):
        dhaga.sleep(interval)
        seen.counts.append(counter.take())
        seen.readings.append(meter.read())
        seen.marks.append(meter._mark[1])
    return seen


def _error(said: float, true: float) -> float:
    """Return the error in percent; 0 if both rates are 0."""
    return (said / true - 1) * 100 if said != true else 0.0


def _worst(said: list[float], true: list[float]) -> float:
    """Return the largest error of a single poll. Polls whose true rate is 0 are left out."""
    errors = (_error(one, other) for one, other in zip(said, true, strict=True) if other)
    return max(errors, key=abs, default=0.0)


def judged(seen: RateReadings, done: list[float]) -> dict[str, float]:
    """Compare the rates that were read with the true rates. Returns: the true rate, and errors in percent."""
    places = [bisect_right(done, mark) for mark in seen.marks]
    windows = [Reading(b - a, r.elapsed) for (a, b), r in zip(itertools.pairwise(places), seen.readings, strict=True)]
    true = (places[-1] - places[0]) / (seen.marks[-1] - seen.marks[0])
    rates = [reading.rate for reading in seen.readings]
    singly = [window.rate for window in windows]
    return {
        "true": true,
        "nominal": _error(statistics.fmean(seen.nominal()), true),
        "mean of rates": _error(statistics.fmean(rates), true),
        "meter": _error(sum(seen.readings, Reading()).rate, true),
        "nominal, worst poll": _worst(seen.nominal(), singly),
        "meter, worst poll": _worst(rates, singly),
        "slept": statistics.fmean(reading.elapsed for reading in seen.readings) / seen.interval,
    }


def polled(work: str, schedulers: int, interval: float, seconds: float) -> dict[str, float]:
    """Poll counting tasks. Returns: the true rate, errors in percent, and the number of lost or doubled counts."""
    _turns()
    counting = PolledTasks(WORK[work])
    with ExitStack() as stack:
        threads = [stack.enter_context(Scheduler(name=f"crowd {number}")) for number in range(schedulers)]
        stack.callback(setattr, counting, "over", True)
        tasks = [threads[number % schedulers].spawn(counting.task) for number in range(TASKS)]
        poller = threads[0].spawn(_poll, counting.counter, interval, max(1, round(seconds / interval)), priority=HIGH)
        seen = poller.result()
        counting.over = True
        for task in tasks:
            task.join()
    done = counting.done()
    taken = seen.before + sum(seen.counts) + counting.counter.take()
    return judged(seen, done) | {"lost": taken - len(done)}
