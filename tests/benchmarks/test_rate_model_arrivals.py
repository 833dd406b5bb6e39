"""The open loop: arrivals come when they are due, whatever became of the ones before; how upstreams are written."""

from __future__ import annotations

import pytest

from benchmarks.rate_model import arrivals as module
from benchmarks.rate_model.arrivals import LEAD, Arrivals

pytestmark = pytest.mark.once


class Clock:
    """A time that is set by hand."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(module, "monotonic", clock)
    return clock


def test_nothing_arrives_before_it_is_due(clock: Clock) -> None:
    arrivals = Arrivals(rate=1000, count=10)
    taken = [list(arrivals.take())]
    for offset in (0.0, 0.0009, 0.00101, 0.00199):
        clock.now = arrivals.start + offset
        taken.append(list(arrivals.take()))
    assert taken == [[], [0], [], [1], []]


def test_who_comes_late_gets_all_that_have_become_due_each_once(clock: Clock) -> None:
    arrivals = Arrivals(rate=1000, count=10)
    clock.now = arrivals.start + 0.0045
    first = list(arrivals.take())
    clock.now = arrivals.start + 60
    assert (first, arrivals.left(), list(arrivals.take()), arrivals.left(), list(arrivals.take())) == (
        *([0, 1, 2, 3, 4], True),
        *([5, 6, 7, 8, 9], False, []),
    )


def test_the_pause_lasts_until_the_next_one_is_due_and_never_below_zero(clock: Clock) -> None:
    arrivals = Arrivals(rate=100, count=10)
    assert arrivals.pause() == pytest.approx(LEAD)
    clock.now = arrivals.start + 0.004
    arrivals.take()
    assert arrivals.pause() == pytest.approx(0.006)
    clock.now = arrivals.start + 0.05
    assert arrivals.pause() == 0


def test_sleeping_as_long_as_told_gets_every_arrival(clock: Clock) -> None:
    arrivals = Arrivals(rate=3000, count=1000)
    taken: list[int] = []
    while arrivals.left():
        clock.now += arrivals.pause()
        taken += arrivals.take()
    assert taken == list(range(1000))
    assert clock.now == pytest.approx(arrivals.start + 999 / 3000)
