"""RateLimiter: a token bucket."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import dhaga
from dhaga import RateLimiter
from dhaga.testing import VirtualClock, cancel_at_every_park, settle, virtual_clock
from tests.kit.parking import parked, victim


def passes(limiter: RateLimiter, clock: VirtualClock, count: int) -> list[float]:
    """Return the times at which so many calls one after the other may begin."""
    times = []
    for _ in range(count):
        with limiter:
            times.append(round(clock(), 6))
    return times


def test_calls_begin_evenly() -> None:
    with virtual_clock() as clock:
        assert passes(RateLimiter(4), clock, 5) == [0, 0.25, 0.5, 0.75, 1]


def test_a_burst_passes_at_once_after_a_rest_and_no_more() -> None:
    with virtual_clock() as clock:
        limiter = RateLimiter(10, per=60, burst=3)
        assert passes(limiter, clock, 5) == [0, 0, 0, 6, 12]
        dhaga.sleep(100)
        assert passes(limiter, clock, 4) == [112, 112, 112, 118]


def test_a_slow_call_does_not_slow_the_rate_down() -> None:
    with virtual_clock() as clock:
        limiter, times = RateLimiter(10), []
        for _ in range(4):
            with limiter:
                times.append(round(clock(), 6))
                dhaga.sleep(0.07)
        assert times == [0, 0.1, 0.2, 0.3]


def test_callers_take_turns_in_the_order_of_parking_whatever_they_want() -> None:
    trace: list[object] = []
    with virtual_clock() as clock:
        limiter = RateLimiter(1, burst=3)
        limiter.acquire(3)

        def takes(tokens: int) -> None:
            limiter.acquire(tokens)
            trace.append((round(clock(), 6), tokens))

        dhaga.wait([dhaga.spawn(takes, tokens) for tokens in (3, 1, 2)])
    assert trace == [(3, 3), (4, 1), (6, 2)]


def test_a_timeout_that_is_too_short_is_told_at_once_and_takes_nothing() -> None:
    with virtual_clock() as clock:
        limiter = RateLimiter(1)
        assert limiter.acquire(timeout=0) and not limiter.acquire(timeout=0)
        assert not limiter.acquire(timeout=0.9) and clock() == 0
        assert limiter.acquire(timeout=1) and clock() == 1
        waits = parked(limiter.acquire, timeout=float("inf"))
        assert not limiter.acquire(timeout=0.5) and clock() == 1.5  # behind the other, which has its turn
        waits.join()
        assert clock() == 2


def test_one_that_is_cancelled_has_taken_nothing() -> None:
    with virtual_clock() as clock:
        limiter = RateLimiter(1)
        limiter.acquire()
        first, second = parked(limiter.acquire), dhaga.spawn(lambda: limiter.acquire() and clock())
        settle()
        assert (first.reason, second.reason) == ("sleep", "rate.acquire")
        first.cancel()
        assert second.result() == 1


def test_the_rate_can_be_changed() -> None:
    with virtual_clock() as clock:
        limiter = RateLimiter(1)
        assert passes(limiter, clock, 2) == [0, 1]
        limiter.rate = 10
        assert limiter.rate == pytest.approx(10) and passes(limiter, clock, 2) == [1.1, 1.2]


@pytest.mark.parametrize(("rate", "after"), [(1000, 1.001), (0.5, 4)])
def test_a_rate_that_changes_while_a_caller_sleeps_holds_for_the_next_one(rate: float, after: float) -> None:
    with virtual_clock() as clock:
        limiter = RateLimiter(1)
        limiter.acquire()
        first = parked(limiter.acquire)
        limiter.rate = rate
        first.join()
        assert clock() == 1
        limiter.acquire()
        assert round(clock(), 6) == after


def test_the_repr_tells_the_state() -> None:
    with virtual_clock():
        limiter = RateLimiter(10, per=60, burst=3)
        limiter.acquire(3)
        waits = [parked(limiter.acquire) for _ in range(2)]
        assert repr(limiter) == "<RateLimiter 10 in 60 s, 0.0 of 3 saved, 2 parked>"
        dhaga.wait(waits)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        *(((0,), ValueError), ((-1,), ValueError), ((float("nan"),), ValueError), ((float("inf"),), ValueError)),
        *((("1",), TypeError), ((1, 0), ValueError), ((1, 1, 0), ValueError), ((1, 1, "2"), TypeError)),
    ],
)
def test_nonsense_is_refused(arguments: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=r"rate|per|burst"):
        RateLimiter(*arguments)


@pytest.mark.parametrize("tokens", [0, -1, 4])
def test_more_than_the_burst_cannot_be_taken_at_once(tokens: int) -> None:
    with pytest.raises(ValueError, match="from 1 to 3 tokens"):
        RateLimiter(1, burst=3).acquire(tokens)


def test_no_token_is_lost_at_whatever_park_one_is_cancelled() -> None:
    def scenario() -> tuple[dhaga.Dhaga, Callable[[], None]]:
        limiter = RateLimiter(1)
        began = dhaga.current().scheduler.clock()
        took: list[str] = []

        def takes(name: str) -> None:
            for _ in range(2):
                limiter.acquire()
                took.append(name)

        def check() -> None:
            assert took.count("other") == 2 and not limiter._turn.locked()
            assert round(limiter._full_at - began) == len(took)

        dhaga.spawn(takes, "other")
        return victim(takes, "victim"), check

    assert cancel_at_every_park(scenario) >= 1  # 3 where the other always comes first


def test_plain_threads_wait_their_turn_too() -> None:
    limiter = RateLimiter(1000)
    with dhaga.Scope() as scope:
        for _ in range(4):
            scope.spawn(dhaga.offload, limiter.acquire)
            scope.spawn(limiter.acquire)
    assert limiter._full_at > 0 and not limiter._turn.locked()
