"""CapacityLimiter: tokens that callers borrow."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import Any

import pytest

import dhaga
from dhaga import CapacityLimiter
from dhaga.testing import cancel_at_every_park, settle, virtual_clock
from tests.kit.parking import parked, victim


def test_as_many_as_there_are_tokens_get_in_the_others_in_the_order_of_parking() -> None:
    trace: list[object] = []
    with virtual_clock() as clock:
        limiter = CapacityLimiter(2)

        def works(n: int) -> None:
            with limiter:
                trace.append((clock(), n))
                dhaga.sleep(1)

        workers = [dhaga.spawn(works, n) for n in range(5)]
        dhaga.wait(workers)
    assert trace == [(0, 0), (0, 1), (1, 2), (1, 3), (2, 4)]


def test_a_caller_borrows_one_and_gives_back_its_own() -> None:
    with virtual_clock():
        limiter = CapacityLimiter(3)
        with pytest.raises(RuntimeError, match=r"main code has no token of <CapacityLimiter 0 of 3 borrowed"):
            limiter.release()
        with limiter:
            with pytest.raises(RuntimeError, match=r"has borrowed a token .* already"):
                limiter.acquire()
            other = dhaga.spawn(limiter.release)
            with pytest.raises(RuntimeError, match="has no token"):
                other.result()
            assert limiter.borrowed_tokens == 1
        assert limiter.borrowed_tokens == 0


def test_a_token_is_not_waited_for_longer_than_the_timeout() -> None:
    with virtual_clock() as clock:
        limiter = CapacityLimiter(1)
        holder = parked(lambda: (limiter.acquire() and dhaga.park("end")) or limiter.release())
        assert (limiter.acquire(blocking=False), limiter.acquire(timeout=0), limiter.acquire(timeout=2)) == (
            *(False, False, False),
        )
        assert clock() == 2
        holder.wake()
        assert limiter.acquire(timeout=2) and clock() == 2
        limiter.release()
        for bad in ({"blocking": False, "timeout": 1}, {"timeout": math.nan}):
            with limiter, pytest.raises((ValueError, RuntimeError)):
                limiter.acquire(**bad)


def test_the_number_of_tokens_can_be_changed_while_callers_wait() -> None:
    with virtual_clock():
        limiter = CapacityLimiter(1)

        def works() -> None:
            with limiter:
                dhaga.park("end")

        workers = [parked(works) for _ in range(4)]

        def inside() -> list[int]:
            settle()
            return [number for number, each in enumerate(workers) if each.reason == "end"]

        assert inside() == [0]
        limiter.total_tokens = 3
        assert inside() == [0, 1, 2] and limiter.available_tokens == 0
        limiter.total_tokens = 1
        workers[0].wake()
        workers[1].wake()
        assert inside() == [2] and limiter.borrowed_tokens == 1
        limiter.total_tokens = math.inf
        assert inside() == [2, 3] and limiter.available_tokens == math.inf
        limiter.total_tokens = 0
        workers[2].wake()
        workers[3].wake()
        dhaga.wait(workers)
        assert not limiter.acquire(blocking=False)


def test_statistics_and_repr_tell_the_state() -> None:
    with virtual_clock():
        limiter = CapacityLimiter(1)
        one = parked(lambda: limiter.acquire() and dhaga.park("end"), name="one")
        two = parked(limiter.acquire, name="two")
        assert limiter.statistics() == (1, 1, ("one",), 1)
        assert repr(limiter) == "<CapacityLimiter 1 of 1 borrowed, 1 parked>"
        assert (two.reason, str(two)) == ("capacity.acquire", "<Dhaga two WAITING capacity.acquire>")
        two.cancel()
        one.cancel()
        dhaga.wait([one, two])
        assert limiter.statistics().parked == 0


@pytest.mark.parametrize(("tokens", "error"), [(1.5, TypeError), ("2", TypeError), (-1, ValueError), (None, TypeError)])
def test_a_number_of_tokens_that_there_is_not_is_refused(tokens: Any, error: type[Exception]) -> None:
    limiter = CapacityLimiter(1)
    with pytest.raises(error, match="total_tokens"):
        CapacityLimiter(tokens)
    with pytest.raises(error, match="total_tokens"):
        limiter.total_tokens = tokens
    assert limiter.total_tokens == 1


def test_no_token_is_lost_or_doubled_at_whatever_park_one_is_cancelled() -> None:
    def scenario() -> tuple[dhaga.Dhaga, Callable[[], None]]:
        limiter = CapacityLimiter(2)
        inside: list[str] = []

        def uses(name: str, after: float) -> None:
            dhaga.sleep(after)
            for _ in range(2):
                with limiter:
                    inside.append(name)
                    try:
                        assert len(inside) <= 2
                        dhaga.sleep(1)
                    finally:
                        inside.remove(name)

        def check() -> None:
            assert not inside and limiter.statistics() == (2, 0, (), 0) and limiter._lent == 0

        for name, after in (("a", 0.1), ("b", 0.2), ("c", 0.4)):
            dhaga.spawn(uses, name, after)
        return victim(uses, "victim", 0.3), check

    assert cancel_at_every_park(scenario) == 5


def test_threads_and_dhagas_share_the_tokens() -> None:
    limiter, inside, most = CapacityLimiter(3), [], [0]

    def works() -> None:
        for _ in range(200):
            with limiter:
                inside.append(1)
                most[0] = max(most[0], len(inside))
                dhaga.sleep(0)
                inside.pop()

    threads = [threading.Thread(target=works) for _ in range(4)]
    for thread in threads:
        thread.start()
    dhagas = [dhaga.spawn(works) for _ in range(4)]
    dhaga.wait(dhagas)
    for thread in threads:
        dhaga.offload(thread.join)
    assert most[0] <= 3 and limiter.statistics() == (3, 0, (), 0)
