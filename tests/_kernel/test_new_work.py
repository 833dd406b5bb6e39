"""New work lets all work under way go first, begins in order of arrival, and does not starve."""

from __future__ import annotations

import contextlib
import gc
import weakref
from collections import deque
from types import SimpleNamespace
from typing import Any

import pytest

import dhaga
from dhaga._kernel.run.new_work import begin_new_work, end_work
from dhaga._kernel.run.run_queues import EXCHANGE_SECONDS, NEW_WORK_AT_ONCE, NEW_WORK_SECONDS, NewWorkQueue
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


def switches_of_begin() -> int:
    """Begin and end a unit of work. Returns: the number of switches before it began."""
    scheduler: Any = dhaga.current().scheduler
    before = scheduler.count_switches()
    begin_new_work()
    switches = int(scheduler.count_switches() - before)
    end_work()
    return switches


def test_new_work_begins_at_once_while_no_work_is_in_progress() -> None:
    dhagas = [dhaga.spawn(switches_of_begin) for _ in range(3)]
    assert [d.result() for d in dhagas] == [0, 0, 0]
    assert dhaga.current().scheduler.units_in_progress == 0


def test_a_dhaga_that_begins_unit_after_unit_lets_the_others_run() -> None:
    """As a server does for a client that sends its next request before it has read the answer."""
    trace: list[str] = []

    def work() -> None:
        trace.append("first")
        assert switches_of_begin() == 0
        dhaga.spawn(trace.append, "another dhaga")
        assert switches_of_begin() > 0
        trace.append("second")
        assert switches_of_begin() == 0  # no other dhaga is runnable

    dhaga.spawn(work).join()
    assert trace == ["first", "another dhaga", "second"]


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


@pytest.mark.parametrize("stands", [False, True], ids=["the clock runs", "the clock stands still"])
def test_new_work_begins_beside_dhagas_that_never_pause(stands: bool) -> None:
    """Some new work begins, in order, whenever none has begun for a time."""
    with virtual_clock() if stands else contextlib.nullcontext():
        begin_beside_one_that_never_pauses()


def begin_beside_one_that_never_pauses() -> None:
    came: list[int] = []
    begun: list[int] = []

    def compute() -> None:
        while len(begun) < 3 * NEW_WORK_AT_ONCE:
            dhaga.sleep(0)

    def begin(n: int) -> None:
        came.append(n)
        begin_new_work()
        begun.append(n)

    dhagas = [dhaga.spawn(compute), *(dhaga.spawn(begin, n) for n in range(3 * NEW_WORK_AT_ONCE))]
    ended = [weakref.ref(d) for d in dhagas]
    while dhagas:
        dhagas.pop().join()
    assert sorted(begun) == list(range(3 * NEW_WORK_AT_ONCE))
    if type(dhaga.current().scheduler.run_queue) is deque:
        assert begun == came == sorted(begun)
    assert begun[0] == came[0]  # it begins at once, because no work is in progress
    for first in range(1, 3 * NEW_WORK_AT_ONCE, NEW_WORK_AT_ONCE):  # a shuffled run queue shuffles each group
        group = slice(first, first + NEW_WORK_AT_ONCE)
        assert sorted(begun[group]) == sorted(came[group])
    dhaga.sleep(0)  # until its next park main code keeps what it has waited for
    gc.collect()
    assert [ref() for ref in ended] == [None] * len(ended)  # starved dhagas are not kept


def test_starved_new_work_begins_in_groups_with_a_time_between_them() -> None:
    now, run_queue = [0.0], []
    queue = NewWorkQueue(SimpleNamespace(clock=lambda: now[0], run_queue=run_queue))
    for _ in range(3 * NEW_WORK_AT_ONCE):
        queue.append(object())
    begun = []
    for full_lap in range(30):
        now[0] = full_lap * 0.3 * NEW_WORK_SECONDS
        queue.promote_starved()
        begun.append(len(run_queue))
        if len(run_queue) == 3 * NEW_WORK_AT_ONCE:
            break
    one, two, three = (n * NEW_WORK_AT_ONCE for n in (1, 2, 3))
    assert begun == [0, 0, 0, 0, one, one, one, one, one, two, two, two, two, two, three]


def test_new_work_begins_in_exchange_for_work_that_ends() -> None:
    trace: list[str] = []

    def compute() -> None:
        while len(trace) < 4:
            dhaga.sleep(0)

    def work(name: str) -> None:
        begin_new_work()
        trace.append(f"{name} begins")
        if name == "first":
            dhaga.sleep(1)
        trace.append(f"{name} ends")
        end_work()

    with virtual_clock() as clock:
        first = dhaga.spawn(work, "first")
        dhaga.sleep(0.5)
        dhagas = [dhaga.spawn(compute), dhaga.spawn(work, "second")]
        while not first.scheduler._new_work:
            dhaga.sleep(0)
        first.wake()  # like a reply
        first.join()
        laps = first.scheduler.laps
        for d in dhagas:
            d.join()
        assert clock() == 0.5
    assert trace == ["first begins", "first ends", "second begins", "second ends"]
    assert first.scheduler.laps - laps < 2  # before it counts as starved


def test_a_scheduler_that_was_not_idle_of_late_exchanges_nothing() -> None:
    scheduler = SimpleNamespace(run_queue=[], _busy_since=1.0, _lap_began=1 + 1.1 * EXCHANGE_SECONDS)
    queue = NewWorkQueue(scheduler)
    queue.extend("ab")
    queue.begin_in_exchange()
    assert not scheduler.run_queue
    scheduler._busy_since += 0.5 * EXCHANGE_SECONDS
    queue.begin_in_exchange()
    assert (scheduler.run_queue, list(queue)) == (["a"], ["b"])
    end_work()  # main code's scheduler has no new work


def test_a_scheduler_is_busy_since_its_last_idle_moment() -> None:
    with virtual_clock() as clock:
        dhaga.sleep(1)
        scheduler = dhaga.current().scheduler
        assert scheduler._busy_since == clock() == 1
        dhaga.sleep(0)
        dhaga.sleep(1)
        assert scheduler._busy_since == 2


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
    assert trace == ["begun", "cancelled", "begun"]
    assert not first.scheduler._new_work


def test_each_switch_counts_once_whatever_the_priority() -> None:
    """The yield of a LOW dhaga ends the lap's stretch, of which only the switches made count."""
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
