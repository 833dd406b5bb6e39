"""The virtual scheduler; what tests do with it is in tests/test_testing.py."""

from __future__ import annotations

from collections import deque

import dhaga
from dhaga._kernel.process.virtual_clock import JumpingSelector, VirtualClock, abandon, new_virtual_scheduler
from dhaga._kernel.wait.current import this_thread


class Recorded(deque[object]):
    pass


def test_the_clock_jumps_to_the_deadline_and_the_queues_are_those_given() -> None:
    outer, this_thread.main = this_thread.main, None
    clock = VirtualClock()
    scheduler = new_virtual_scheduler(JumpingSelector(clock), Recorded, new_starts=False)
    try:
        dhaga.sleep(3600)
        assert clock() == 3600
        assert type(scheduler.run_queue) is Recorded and type(scheduler.new_queues[0].not_started) is deque
    finally:
        abandon(scheduler)
        this_thread.main = outer


def test_abandon_ends_the_dhagas_that_are_left() -> None:
    outer, this_thread.main = this_thread.main, None
    scheduler = new_virtual_scheduler(JumpingSelector(VirtualClock()))
    sleeper = dhaga.spawn(dhaga.sleep, 9)
    dhaga.sleep(1)
    abandon(scheduler)
    this_thread.main = outer
    assert sleeper.state == "DONE"
