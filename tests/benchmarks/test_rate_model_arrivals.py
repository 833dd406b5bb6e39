"""The open loop: arrivals come when they are due, whatever became of the ones before; how upstreams are written."""

from __future__ import annotations

import pytest

from benchmarks.rate_model import arrivals as module
from benchmarks.rate_model.arrivals import LEAD, Arrivals
from benchmarks.rate_model.latency_spec import duration, in_words, latencies, spelled

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


@pytest.mark.parametrize(("text", "seconds"), [("500us", 0.0005), ("20ms", 0.02), (" 1.5s ", 1.5), ("1m", 60.0)])
def test_a_duration_has_a_unit(text: str, seconds: float) -> None:
    assert duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "20", "ms", "-1s", "20 parsecs", "1e3s", "20ms*", "20ms*0", "20ms*x", "20ms,,1s"])
def test_what_is_no_list_of_latencies_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="20ms"):
        latencies(text)


def test_upstreams_are_told_in_words() -> None:
    assert in_words(1000, latencies("20ms*9,30s")) == "1,000/s to 9 upstreams of 20 ms, 1 that hangs"
    assert in_words(50, latencies("1.5s*2"), real=True) == "50/s to 2 upstreams of 1.5 s (processes)"


@pytest.mark.parametrize("text", ["20ms", "20ms*9,30s", "1ms,2ms,1ms*3", "500us*2,1.5s"])
def test_latencies_are_written_as_they_are_read(text: str) -> None:
    assert spelled(latencies(text)) == text


def test_a_star_stands_for_so_many_upstreams() -> None:
    assert latencies("20ms*3, 30s") == [0.02, 0.02, 0.02, 30.0]
