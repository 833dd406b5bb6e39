"""The members of a scheduler: admitted, refused, cancelled together; and newcomers at its end."""

from __future__ import annotations

from typing import Any

import pytest

import dhaga
import dhaga.threading
from dhaga import queue
from dhaga.testing import settle, virtual_clock
from tests.kit.scripts import prints

MANY = 10_000


def accepts(connections: Any, handle: Any) -> None:
    while True:
        dhaga.spawn(handle, connections.get())


def test_ten_thousand_cancels_at_once() -> None:
    finals = 0

    def waits(parks: bool) -> None:
        nonlocal finals
        try:
            dhaga.park("nothing") if parks else dhaga.sleep(1000)
        finally:
            dhaga.sleep(1)
            finals += 1

    with virtual_clock() as clock:
        dhagas = [dhaga.spawn(waits, n % 2 == 0) for n in range(MANY)]
        settle()
        dhaga.current().scheduler.cancel_all("all")
        for d in dhagas:
            d.join()
        assert finals == MANY and clock() == 1


def test_what_a_stopped_scheduler_refuses_it_does_not_keep() -> None:
    with dhaga.Scheduler() as scheduler:
        pass
    with pytest.raises(RuntimeError, match="takes no more dhagas"):
        scheduler.spawn(int)
    assert not scheduler.live and not scheduler.count_runnable()


@pytest.mark.parametrize("priority", [dhaga.HIGH, dhaga.NORMAL, dhaga.LOW])
def test_stop_cancels_what_a_dhaga_spawns_that_had_not_met_its_cancel_yet(priority: Any) -> None:
    connections: queue.Queue[str] = queue.Queue()
    trace = []

    def handle(connection: str) -> None:
        trace.append(connection)
        try:
            dhaga.park("a client that says nothing")
        except dhaga.Cancelled as cancelled:
            trace.append(str(cancelled.reason))
            raise

    def client_and_stop_at_once() -> None:
        connections.put("client")
        scheduler.mode.begin_stop()  # type: ignore[attr-defined]

    with dhaga.Scheduler("s") as scheduler:
        scheduler.spawn(accepts, connections, handle, priority=priority)
        scheduler.spawn(dhaga.sleep, priority=dhaga.LOW).join()
        scheduler.spawn(client_and_stop_at_once, priority=priority)
    assert trace == ["client", "s stops"]


def test_stop_ends_a_dhaga_that_starts_its_successor_in_its_finally() -> None:
    begun = []

    def supervised(number: int) -> None:
        begun.append(number)
        try:
            dhaga.park("work")
        finally:
            dhaga.spawn(supervised, number + 1)

    with dhaga.Scheduler() as scheduler:
        scheduler.spawn(supervised, 0)
        scheduler.spawn(dhaga.sleep).join()
    assert begun == [0, 1]


def test_what_is_spawned_after_the_cancel_is_cancelled_once() -> None:
    trace = []

    def newcomer() -> None:
        try:
            dhaga.park("work")
        finally:
            dhaga.sleep(0.001)
            trace.append("cleaned up")

    def old() -> None:
        try:
            dhaga.park("work")
        finally:
            dhaga.spawn(newcomer)

    with dhaga.Scheduler() as scheduler:
        scheduler.spawn(old)
        scheduler.spawn(dhaga.sleep).join()
    assert trace == ["cleaned up"]


def test_the_exit_of_the_interpreter_cancels_what_is_spawned_in_a_finally() -> None:
    assert prints(
        """
        import time

        import dhaga

        def supervised():
            try:
                dhaga.park("work")
            finally:
                dhaga.spawn(dhaga.sleep, 1000)

        dhaga.spawn(supervised, daemon=True)
        dhaga.sleep(0)
        print("ends")
        """
    ) == ["ends"]


def test_a_dhaga_spawned_between_the_checks_and_the_end_is_refused() -> None:
    """The end comes at the worst moment: the spawner has passed all checks, but has not added the dhaga yet."""
    scheduler = dhaga.Scheduler().start()
    live = scheduler.live

    class LateSet(set[dhaga.Dhaga]):
        def add(self, d: dhaga.Dhaga) -> None:
            scheduler.live = live
            scheduler.stop()
            live.add(d)

    scheduler.live = LateSet()
    with pytest.raises(RuntimeError, match="stopped"):
        scheduler.spawn(int)
    assert not live
