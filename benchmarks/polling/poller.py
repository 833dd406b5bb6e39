"""100 tasks that count what they do, and a poller that reads how fast they are: what it says, and what is true.

The poller is a HIGH dhaga of the first scheduler. At each poll it reads and resets a Counter, and reads a RateMeter on
the same one. Three rates come of it:

- *nominal*: what was counted over the interval that the poller meant to sleep, and the mean of that;
- *mean of rates*: over the time that has really passed, and the mean of that;
- *meter*: the RateMeter's, all that was counted over all the time, a ratio of sums.

The truth is told by the tasks: each keeps the times at which it was done. How many of those fall in the stretch that
the poller has watched, by its length, is the true rate; so it is for each single poll.
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
    """Return how many turns of an empty loop take 10 µs, on an idle CPU."""
    times = timeit.repeat("for _ in turns: pass", globals={"turns": range(1000)}, number=1, repeat=500)
    return round(1000 * 10e-6 / min(times))


def _computing() -> None:
    for _ in range(_turns()):
        pass
    dhaga.sleep(0)


WORK: dict[str, Callable[[], None]] = {"10 ms": _sleeping, "10 µs": _computing}
"""What a task does, by how long it takes."""


@dataclass
class PolledTasks:
    """Tasks that count, until they are told that it is over."""

    work: Callable[[], None]
    counter: Counter = field(default_factory=Counter)
    times: list[list[float]] = field(default_factory=list)
    over: bool = False

    def task(self) -> None:
        """Work, and count it: in the shared counter, and for the truth in a list of the task's own."""
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
    """What a poller has seen."""

    interval: float
    before: int  # counted before the first poll
    counts: list[int]
    readings: list[Reading]
    marks: list[float]  # the times of the readings, and of the beginning before them

    def nominal(self) -> list[float]:
        """Return what it would say if it took the interval for what it meant it to be."""
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
    """Return it in percent; if nothing has happened, and nothing else is said, there is none."""
    return (said / true - 1) * 100 if said != true else 0.0


def _worst(said: list[float], true: list[float]) -> float:
    """Return the error of the single poll that is farthest off; one in which nothing happened has none."""
    errors = (_error(one, other) for one, other in zip(said, true, strict=True) if other)
    return max(errors, key=abs, default=0.0)


def judged(seen: RateReadings, done: list[float]) -> dict[str, float]:
    """Compare what was said with what is true: errors in percent."""
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
    """Poll counting tasks. Returns: the true rate, errors in percent, and what the Counter lost or told twice."""
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
