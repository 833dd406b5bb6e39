"""metrics: counting from anywhere at once, and rates by the clock."""

from __future__ import annotations

import asyncio
import operator
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import FrozenInstanceError
from functools import reduce
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dhaga
from dhaga.metrics import Counter, RateMeter, Reading
from dhaga.testing import VirtualClock, virtual_clock
from tests.kit.scripts import prints


@pytest.fixture
def hasty() -> Iterator[None]:
    """Have the interpreter switch threads as often as it can."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


# ---- Counter


def test_a_counter_tells_its_total_and_what_was_added_since_the_last_take() -> None:
    counter = Counter()
    assert (counter.total, counter.take()) == (0, 0)
    counter.add()
    counter.add(3)
    assert repr(counter) == "<Counter 4, 4 since the last take>"
    assert (counter.take(), counter.take(), counter.total) == (4, 0, 4)
    counter.add(0)
    counter.add(2**70)
    assert repr(counter) == f"<Counter {4 + 2**70}, {2**70} since the last take>"
    assert counter.take() == 2**70


@pytest.mark.parametrize("bad", [1.5, 1.0, "1", None, [1], 1j, Counter()], ids=repr)
def test_what_is_no_whole_number_is_refused_where_it_is_added(bad: Any) -> None:
    counter = Counter()
    with pytest.raises(TypeError, match="cannot be interpreted as an integer"):
        counter.add(bad)
    assert counter.total == 0


def test_a_counter_only_goes_up() -> None:
    counter = Counter()
    for down in (-1, -(2**70), Odd(-2)):
        with pytest.raises(ValueError, match="a Counter only goes up: it cannot add -"):
            counter.add(down)
    assert counter.total == 0


class Odd(int):
    """An int whose sums run code of their own, amid which others might run."""

    def __radd__(self, other: int) -> int:
        raise AssertionError("it was added as it is")


def test_whatever_is_an_int_is_added_as_a_plain_one() -> None:
    counter = Counter()
    for number in (True, Odd(5)):
        counter.add(number)
    assert counter.total == 6 and type(counter.total) is int


def test_it_counts_in_coroutines_and_callbacks() -> None:
    counter, meter = Counter(), RateMeter()

    async def counts() -> None:
        asyncio.get_running_loop().call_soon(counter.add)
        meter.add()
        await asyncio.sleep(0)
        counter.add(counter.take() + meter.read().count)

    asyncio.run(counts())
    assert counter.take() == 2 and counter.total == 3


ADDS = 3_000
AMOUNTS = [n % 4 for n in range(ADDS)]


def counted_by_all(add: Callable[[int], None], look: Callable[[], object]) -> int:
    """Add from 20 dhagas of four schedulers and from four threads, while two threads and a dhaga look.

    Returns: what was added.
    """
    over = False

    def adds() -> None:
        for amount in AMOUNTS:
            add(amount)
            if not amount:
                dhaga.sleep(0)

    def looks() -> None:
        while not over:
            look()
            dhaga.sleep(0)

    with ExitStack() as stack:
        rooms = [stack.enter_context(dhaga.Scheduler()) for _ in range(4)]
        lookers = [threading.Thread(target=looks) for _ in range(2)]
        threads = [threading.Thread(target=adds) for _ in range(4)]
        dhagas = [room.spawn(adds) for room in rooms for _ in range(5)]
        looker = rooms[0].spawn(looks)
        for thread in lookers + threads:
            thread.start()
        wait_for(*threads, *dhagas)
        over = True
        wait_for(*lookers, looker)
    return sum(AMOUNTS) * (len(threads) + len(dhagas))


def wait_for(*several: Any) -> None:
    for each in several:
        each.join()


@pytest.mark.usefixtures("hasty")
def test_nothing_is_lost_or_told_twice_by_concurrent_takes() -> None:
    counter, taken = Counter(), list[int]()
    added = counted_by_all(counter.add, lambda: taken.append(counter.take()))
    assert (counter.total, sum(taken) + counter.take()) == (added, added)
    assert min(taken) >= 0 and len(taken) > 3


@pytest.mark.usefixtures("hasty")
def test_nothing_is_lost_or_told_twice_by_concurrent_reads() -> None:
    meter, readings = RateMeter(), list[Reading]()
    began = meter._mark[1]
    added = counted_by_all(meter.add, lambda: readings.append(meter.read()))
    readings.append(meter.read())
    all_told = sum(readings, Reading())
    assert all_told.count == added
    assert all_told.elapsed == pytest.approx(meter._mark[1] - began, rel=1e-9)
    assert min(reading.count for reading in readings) >= 0
    assert min(reading.elapsed for reading in readings) >= 0


def test_a_signal_handler_counts_amid_the_counts_of_others() -> None:
    counter, strikes, added = Counter(), 0, 0
    taken: list[int] = []

    def strike(*_: object) -> None:
        nonlocal strikes
        strikes += 1
        counter.add()
        taken.append(counter.take())

    former = signal.signal(signal.SIGALRM, strike)
    signal.setitimer(signal.ITIMER_REAL, 0.0001, 0.0001)
    try:
        while strikes < 300:
            added += 1
            counter.add()
            taken.append(counter.take())
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, former)
    assert sum(taken) + counter.take() == counter.total == added + strikes


def test_what_ended_threads_have_counted_stays() -> None:
    counter = Counter()
    for _ in range(3):
        thread = threading.Thread(target=counter.add)
        thread.start()
        thread.join()
    with dhaga.Scheduler() as other:
        other.spawn(counter.add, 4).join()
    assert counter.take() == 7


def test_a_forked_child_counts_on_by_itself() -> None:
    assert prints(
        """
        import os
        from dhaga.metrics import Counter, RateMeter

        counter = Counter()
        meter = RateMeter(counter)
        counter.add(5)
        counter.take()
        counter.add()
        pid = os.fork()
        if not pid:
            counter.add(10)
            print("the child:", counter.take(), counter.total, meter.read().count, flush=True)
            os._exit(0)
        os.waitpid(pid, 0)
        print("the parent:", counter.take(), counter.total, meter.read().count)
    """
    ) == ["the child: 11 16 16", "the parent: 1 6 6"]


# ---- Reading


def test_a_rate_over_several_readings_is_a_ratio_of_sums() -> None:
    short, long = Reading(100, 0.1), Reading(1000, 10)
    assert (short.rate, long.rate) == (1000, 100)
    both = sum([short, long], Reading())
    assert both == short + long == Reading(1100, 10.1)
    assert both.rate == pytest.approx(108.91, abs=0.01)


def test_a_reading_of_no_time_has_no_rate() -> None:
    assert Reading().rate == Reading(5, 0.0).rate == 0.0


def test_a_reading_is_a_value() -> None:
    reading = Reading(1, 2.0)
    assert repr(reading) == "Reading(count=1, elapsed=2.0)" and {reading: 1}[Reading(1, 2.0)]
    with pytest.raises(FrozenInstanceError):
        reading.count = 2
    with pytest.raises(TypeError):
        reading + 1  # type: ignore[operator]


# ---- RateMeter


def test_a_meter_counts_by_the_clock_from_one_read_to_the_next() -> None:
    with virtual_clock() as clock:
        meter = RateMeter(clock=clock)
        meter.add(30)
        dhaga.sleep(2)
        meter.add(3)
        assert repr(meter) == "<RateMeter 33 in 2.000 s since the last read>"
        assert meter.read() == Reading(33, 2.0)
        assert meter.read() == Reading(0, 0.0)
        dhaga.sleep(1)
        assert meter.read() == Reading(0, 1.0)


def test_a_poller_that_is_late_sees_more_time_and_not_a_higher_rate() -> None:
    with virtual_clock() as clock:
        meter = RateMeter(clock=clock)

        def works() -> None:
            for _ in range(100):
                dhaga.sleep(0.1)
                meter.add(5)

        worker = dhaga.spawn(works)
        readings = []
        for late in (0, 0.5, 2):
            dhaga.sleep(1 + late)
            readings.append(meter.read())
        worker.join()
        readings.append(meter.read())
    assert [reading.elapsed for reading in readings] == pytest.approx([1, 1.5, 3, 4.5])
    assert [reading.rate for reading in readings] == pytest.approx([50] * 4, rel=0.15)  # at the edges one may miss
    assert sum(readings, Reading()).rate == pytest.approx(50)


def test_many_meters_watch_one_counter_each_at_its_own_pace() -> None:
    clock, counter = VirtualClock(), Counter()
    counter.add(1000)
    often, seldom = RateMeter(counter, clock), RateMeter(counter, clock)
    seen = []
    for _ in range(4):
        clock.now += 1
        counter.add(10)
        counter.take()
        seen.append(often.read())
    assert seen == [Reading(10, 1.0)] * 4
    assert seldom.read() == sum(seen, Reading()) == Reading(40, 4.0)


def test_what_is_counted_once_the_clock_is_read_belongs_to_the_next_reading() -> None:
    def clock() -> float:
        counter.add(100)  # as another thread might that runs as soon as this call is over
        return 7.0

    counter = Counter()
    meter = RateMeter(counter, clock)
    assert counter.total == 100 and meter.read() == Reading(100, 0.0)
    assert meter.read() == Reading(100, 0.0) and counter.total == 300


def test_who_is_overtaken_by_another_reader_reads_what_is_left() -> None:
    overtaken: list[Reading] = []

    def clock() -> float:
        if overtakes:
            overtakes.pop()
            now[0] += 1
            overtaken.append(meter.read())
            meter.add(3)
        return now[0]

    overtakes, now = list[int](), [0.0]
    meter = RateMeter(clock=clock)
    meter.add(5)
    now[0] += 1
    overtakes.append(1)
    assert meter.read() == Reading(3, 0.0)
    assert overtaken == [Reading(5, 2.0)]


Step = tuple[str, int]
STEPS = st.lists(st.tuples(st.sampled_from(["add", "sleep", "take", "read 0", "read 1"]), st.integers(0, 2**40)))


@given(STEPS)
def test_takes_and_readings_add_up_whatever_the_order(steps: list[Step]) -> None:
    clock, counter = VirtualClock(), Counter()
    meters = RateMeter(counter, clock), RateMeter(counter, clock)
    added, taken, readings = 0, 0, (list[Reading](), list[Reading]())
    for what, number in steps:
        if what == "add":
            counter.add(number)
            added += number
        elif what == "sleep":
            clock.now += number
        elif what == "take":
            taken += counter.take()
        else:
            which = int(what[-1])
            readings[which].append(meters[which].read())
    assert (counter.total, taken + counter.take()) == (added, added)
    for meter, seen in zip(meters, readings, strict=True):
        assert reduce(operator.add, seen, meter.read()) == Reading(added, clock.now)
