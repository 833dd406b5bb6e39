"""Timers: ten thousand sleeps and timeouts, in order and each once."""

from __future__ import annotations

import dhaga
from dhaga.testing import virtual_clock

MANY = 10_000


def test_ten_thousand_dhagas_sleep_and_wake_in_order() -> None:
    woken: list[int] = []
    with virtual_clock() as clock:

        def sleeps(n: int) -> None:
            dhaga.sleep(n + 1)
            woken.append(n)

        for n in range(MANY):
            dhaga.spawn(sleeps, n)
        dhaga.sleep(MANY + 2)
        assert woken == list(range(MANY)) and clock() == MANY + 2


def test_ten_thousand_timeouts_at_once() -> None:
    expired = 0

    def waits(n: int) -> None:
        nonlocal expired
        try:
            with dhaga.Timeout(1), dhaga.Timeout(2 + n):
                dhaga.park("nothing")
        except TimeoutError:
            expired += 1

    with virtual_clock() as clock:
        for d in [dhaga.spawn(waits, n) for n in range(MANY)]:
            d.join()
        assert clock() == 1 and expired == MANY
        assert len(dhaga.current().scheduler.timers.heap) < 200  # the dead ones were swept


def test_ten_thousand_joins_time_out_on_one() -> None:
    with virtual_clock():
        one = dhaga.spawn(dhaga.sleep, 10)
        for joiner in [dhaga.spawn(one.join, 1) for _ in range(1000)]:
            joiner.join()
        assert not any(one._joiners) and one.is_alive()
        one.join()
