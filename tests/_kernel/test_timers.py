"""Timers: ten thousand sleeps and timeouts, in order and each once."""

from __future__ import annotations

import sys
import threading as standard
from types import FrameType
from typing import Any

import pytest

import dhaga
from dhaga._kernel.run import timers as timers_module
from dhaga._kernel.run.timers import BATCH, Timers
from dhaga._sync.semaphore import Semaphore
from dhaga._sync.simple_queue import SimpleQueue
from dhaga.testing import VirtualClock, virtual_clock

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


def test_a_high_dhaga_wakes_first_however_many_deadlines_are_due_before_its_own() -> None:
    order: list[str] = []

    def sleeps(name: str, seconds: float) -> None:
        dhaga.sleep(seconds)
        order.append(name)

    with virtual_clock():
        normal = [dhaga.spawn(sleeps, "normal", 1.0) for _ in range(2000)]
        urgent = [dhaga.spawn(sleeps, "high", 1.0, priority=dhaga.HIGH) for _ in range(3)]
        for each in (*normal, *urgent):
            each.join()
        timers = dhaga.current().scheduler.timers
        assert order == ["high"] * 3 + ["normal"] * 2000
        assert len(timers) == 0 and not timers.urgent and timers.fired == 2003


class SlowTimers(Timers):
    """Timers whose batches take as long as many laps."""

    __slots__ = ("clock", "log")

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__()
        self.clock = clock
        self.log: list[object] = []

    def fire(self, now: float) -> bool:
        self.log.append(self.fired)
        self.clock.now += 1.0 if self.fired < 3 * BATCH else 0.0
        return super().fire(now)


def test_woken_dhagas_run_between_the_batches_of_many_deadlines() -> None:
    def sleeps() -> None:
        dhaga.sleep(1.0)
        timers.log.append("one has run")

    with virtual_clock() as clock:
        dhaga.spawn(int).join()
        timers = SlowTimers(clock)
        dhaga.current().scheduler.timers = timers
        for each in [dhaga.spawn(sleeps) for _ in range(3 * BATCH)]:
            each.join()
    second, third = (timers.log.index(n) for n in (BATCH, 2 * BATCH))
    assert "one has run" in timers.log[:second] and "one has run" in timers.log[second:third]


def test_timeouts_of_high_dhagas_that_are_not_needed_leave_little_behind() -> None:
    def waits() -> None:
        for _ in range(5000):
            queue.put(1)
            with dhaga.fail_after(1000):
                queue.get(timeout=1000)
            empty.acquire(timeout=0.0001)

    queue, empty = SimpleQueue[int](), Semaphore(0)
    with virtual_clock():
        dhaga.spawn(waits, priority=dhaga.HIGH).result()
        timers = dhaga.current().scheduler.timers
        assert len(timers.heap) < 300 and len(timers.urgent) < 300 and len(timers) == 0


def test_waits_of_a_high_dhaga_for_another_os_thread_leave_nothing_behind() -> None:
    def waits() -> None:
        for _ in range(1000):
            assert items.get(timeout=1000)
            answers.put(1)

    def feed() -> None:
        for _ in range(1000):
            items.put(1)
            answers.get()

    items, answers = SimpleQueue[int](), SimpleQueue[int]()
    scheduler = dhaga.current().scheduler
    feeder = standard.Thread(target=feed)
    feeder.start()
    dhaga.spawn(waits, priority=dhaga.HIGH).result()
    feeder.join()
    assert len(scheduler.timers.heap) < 300 and len(scheduler.timers.urgent) < 300


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
        for joiner in [dhaga.spawn(one.join, 1) for _ in range(10_000)]:
            joiner.join()
        assert not any(one._joiners) and one.is_alive()
        one.join()


@pytest.mark.skipif(
    sys.version_info[:2] == (3, 12), reason="3.12 may report no instructions of a function it has run before"
)
def test_an_entry_that_a_finalizer_adds_while_the_heap_is_rebuilt_is_kept() -> None:
    """A finalizer may run between any two bytecodes, and sleep."""

    class Sleeper:
        def _expire(self) -> None:
            fired.append(self)

    def strike(frame: FrameType, event: str, _: object) -> Any:
        if frame.f_code.co_filename != timers_module.__file__ or frame.f_code.co_name == "add":
            return None
        frame.f_trace_opcodes = True
        if event == "opcode" and len(sleepers) < 2000:
            sys.settrace(None)
            sleepers.append(Sleeper())
            timers.add(len(sleepers) % 3, sleepers[-1])
            sys.settrace(strike)
        return strike

    timers, fired, sleepers = Timers(), list[Sleeper](), list[Sleeper]()
    entries = [timers.add(100.0, Sleeper()) for _ in range(1000)]
    for entry in entries[:-1]:  # as discard() would empty them, without a rebuild
        entry[2] = None
    timers.discarded = 999
    former = sys.gettrace()
    sys.settrace(strike)
    try:
        timers.discard(entries[-1])
    finally:
        sys.settrace(former)
    assert len(timers.heap) == len(sleepers) > 10
    while timers.fire(3.0):
        pass
    assert set(fired) == set(sleepers)
