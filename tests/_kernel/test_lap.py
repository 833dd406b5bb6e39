"""Laps: the loop and its timers get their turn however busy the dhagas are."""

from __future__ import annotations

import pytest

import dhaga
from dhaga import HIGH
from dhaga._kernel.run import lap
from dhaga.testing import settle, virtual_clock


def test_the_loop_gets_its_turn_under_a_full_run_queue() -> None:
    """A callback and a timer of the loop come while dhagas are always runnable."""
    seen = []

    def spins() -> None:
        while len(seen) < 2:
            dhaga.sleep(0)

    loop = dhaga.current().scheduler.loop
    dhagas = [dhaga.spawn(spins) for _ in range(100)]
    loop.call_soon(seen.append, "callback")
    loop.call_later(0.001, seen.append, "timer")
    for d in dhagas:
        d.join()
    assert seen == ["callback", "timer"]


def test_a_lap_is_bounded_in_switches_where_the_clock_stands_still() -> None:
    switches = 0

    def spins() -> None:
        nonlocal switches
        while not seen:
            switches += 1
            dhaga.sleep(0)

    seen: list[str] = []
    with virtual_clock():
        dhaga.current().scheduler.loop.call_soon(seen.append, "callback")
        dhaga.spawn(spins).join()
    assert switches <= 2 * lap.SWITCHES_PER_CLOCK_CHECK * lap.CLOCK_CHECKS_PER_LAP


def test_the_clock_is_looked_at_more_often_while_dhagas_compute() -> None:
    """With a second of computing between yields, a sleeper is served after the very switch in which it was due."""
    late: list[float] = []
    with virtual_clock() as clock:

        def computes() -> None:
            while not late:
                clock.now += 1
                dhaga.sleep(0)

        def sleeps() -> None:
            due = clock() + 30
            dhaga.sleep(30)
            late.append(clock() - due)

        for _ in range(50):
            dhaga.spawn(computes)
        dhaga.spawn(sleeps, priority=HIGH).join()
        settle()
    assert late[0] <= 2


@pytest.mark.logs
@pytest.mark.parametrize("error", [LookupError("of a handler"), GeneratorExit()])
def test_an_error_that_ends_a_lap_early_does_not_stop_the_scheduler(error: BaseException) -> None:
    """A signal handler of the standard module may raise in any code, also on the hub."""

    class Struck:
        def _expire(self) -> None:
            raise error

    with virtual_clock():
        dhaga.current().scheduler.expire_after(1, Struck())
        sleepers = [dhaga.spawn(dhaga.sleep, seconds) for seconds in (1, 2)]
        for each in sleepers:
            each.join()
