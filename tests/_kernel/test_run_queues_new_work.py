"""New work lets all work under way go first, begins in order of arrival, and does not starve."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import dhaga
from dhaga._kernel.run.run_queues import NEW_WORK_AT_ONCE
from dhaga._kernel.run.scheduler import begin_new_work
from dhaga.testing import virtual_clock


def test_new_work_begins_in_order_once_no_work_under_way_is_runnable() -> None:
    trace: list[str] = []
    came: list[str] = []

    def begin(name: str) -> None:
        came.append(name)
        begin_new_work()
        trace.append(f"{name} begins")
        for _ in range(3):
            dhaga.sleep(0)
        trace.append(f"{name} ends")

    with virtual_clock():
        dhagas = [dhaga.spawn(begin, str(n)) for n in range(3)]
        dhagas.append(dhaga.spawn(trace.append, "low", priority=dhaga.LOW))
        for d in dhagas:
            d.join()
    assert trace == [*(f"{name} {what}" for name in came for what in ("begins", "ends")), "low"]


def test_new_work_begins_while_the_work_under_way_is_parked() -> None:
    trace: list[str] = []
    came: list[str] = []

    def begin(name: str) -> None:
        came.append(name)
        begin_new_work()
        trace.append(f"{name} begins")
        dhaga.sleep(1)
        trace.append(f"{name} ends")

    with virtual_clock():
        for d in [dhaga.spawn(begin, str(n)) for n in range(3)]:
            d.join()
    assert trace[:3] == [f"{name} begins" for name in came]
    assert sorted(trace[3:]) == [f"{n} ends" for n in range(3)]


def test_new_work_alone_begins_at_once() -> None:
    def begin() -> int:
        scheduler: Any = dhaga.current().scheduler
        before = scheduler.count_switches()
        begin_new_work()
        return int(scheduler.count_switches() - before)

    assert dhaga.spawn(begin).result() == 0


def test_main_code_threads_and_other_priorities_begin_at_once() -> None:
    trace: list[str] = []

    def begin(name: str) -> None:
        begin_new_work()
        trace.append(name)

    with virtual_clock():
        other = dhaga.spawn(trace.append, "another")
        high = dhaga.spawn(begin, "high", priority=dhaga.HIGH)
        begin("main code")
        other.join()
        high.join()
    assert trace == ["main code", "high", "another"]
    dhaga.offload(begin, "thread")
    assert trace[-1] == "thread"


def test_new_work_begins_beside_dhagas_that_never_pause() -> None:
    """A full lap in which none began promotes some, in order."""
    begun: list[int] = []

    def compute() -> None:
        while len(begun) < 3 * NEW_WORK_AT_ONCE:
            dhaga.sleep(0)

    def begin(n: int) -> None:
        begin_new_work()
        begun.append(n)

    dhagas = [dhaga.spawn(compute), *(dhaga.spawn(begin, n) for n in range(3 * NEW_WORK_AT_ONCE))]
    ended = [weakref.ref(d) for d in dhagas]
    while dhagas:
        dhagas.pop().join()
    assert begun == list(range(3 * NEW_WORK_AT_ONCE))
    dhaga.sleep(0)  # until its next park main code keeps what it has waited for
    gc.collect()
    assert [ref() for ref in ended] == [None] * len(ended)  # what starved is not kept


def test_a_cancel_before_the_work_begins_is_raised_at_its_next_park() -> None:
    trace: list[str] = []
    came: list[str] = []

    def begin(name: str) -> None:
        came.append(name)
        begin_new_work()
        trace.append("begun")
        dhaga.sleep(1)

    def cancel() -> None:
        while len(came) < 2:
            dhaga.sleep(0)
        late.cancel()
        trace.append("cancelled")

    with virtual_clock() as clock:
        first = dhaga.spawn(begin, "first")
        late = dhaga.spawn(begin, "late")
        dhaga.spawn(cancel).join()
        late.join()
        assert clock() == 0
        first.join()
    assert trace == ["cancelled", "begun", "begun"]
    assert not first.scheduler._new_work


def test_each_switch_counts_once_whatever_the_priority() -> None:
    """A LOW dhaga and new work that yield end their stretch, of which only the switches made count."""
    with virtual_clock():
        scheduler = dhaga.current().scheduler
        counts: list[int] = []

        def yields(level: dhaga.Priority) -> None:
            with dhaga.priority(level):
                dhaga.sleep(0)
                before = scheduler.count_switches()
                for _ in range(50):
                    dhaga.sleep(0)
                counts.append(scheduler.count_switches() - before)

        for level in dhaga.NORMAL, dhaga.LOW:
            dhaga.spawn(yields, level).join()
        # Some yields also go through the hub's loop, which counts no dhaga twice.
        assert all(50 <= count <= 60 for count in counts), counts
