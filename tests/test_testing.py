"""The test kit: it finds what it is there to find."""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import dhaga
from dhaga import testing
from dhaga._kernel.wait.current import this_thread
from dhaga.queue import Queue
from dhaga.testing import Sequencer, ShuffledQueue, cancel_at_every_event, cancel_at_every_park, settle, virtual_clock
from dhaga.threading import Lock, Semaphore
from tests._kernel.test_preemption_strikes import needs_events

# ---- the virtual clock


def test_the_clock_jumps_to_the_next_deadline_when_everybody_waits() -> None:
    began = time.monotonic()
    with virtual_clock() as clock:
        assert clock() == 0 and repr(clock) == "<VirtualClock at 0 s>"
        dhaga.sleep(1e6)
        assert clock() == 1e6
        dhaga.sleep(0)
        settle()
        assert clock() == 1e6
    assert time.monotonic() - began < 60


def test_deadlines_are_met_exactly_whatever_the_floats() -> None:
    """Durations that do not add up to the deadline must neither miss it nor turn round and round before it."""
    numbers = random.Random(1)
    with virtual_clock() as clock:

        def sleeps() -> None:
            for _ in range(30):
                seconds = numbers.choice([0.1, 0.2, 0.3, 1e-9, 1e5]) * numbers.random()
                deadline = clock() + seconds
                dhaga.sleep(seconds)
                assert clock() == deadline

        for d in [dhaga.spawn(sleeps) for _ in range(30)]:
            d.result()


def test_the_loops_own_timers_are_on_the_clock_too() -> None:
    with virtual_clock() as clock:
        me = dhaga.current()
        me.scheduler.ioloop.call_later(50, me.wake, "tornado's")
        assert dhaga.park("timer") == "tornado's" and round(clock(), 3) == 50
        me.scheduler.loop.call_later(50, me.wake, "asyncio's")
        assert dhaga.park("timer") == "asyncio's" and round(clock(), 3) == 100


def test_calls_in_helper_threads_and_fds_take_their_real_time() -> None:
    """The clock does not jump past a call under way: its Timeout does not expire."""
    with virtual_clock() as clock:
        d = dhaga.spawn(dhaga.offload, time.sleep, 0.05)
        with dhaga.Timeout(1000):
            d.join()
        assert clock() == 0


def test_what_is_left_over_is_named_and_ended() -> None:
    trace = []

    def left() -> None:
        try:
            dhaga.park("nothing")
        finally:
            trace.append("finally")

    with pytest.raises(AssertionError, match=r"left over: <Dhaga left WAITING nothing>"):
        with virtual_clock():
            dhaga.spawn(left, name="left")
            settle()
    with pytest.raises(AssertionError, match=r"left over: 1 timers"):
        with virtual_clock():
            scheduler = dhaga.current().scheduler
            scheduler.timers.add(5, dhaga.current())
    with pytest.raises(LookupError):
        with virtual_clock():
            dhaga.spawn(left, name="left")
            settle()
            raise LookupError("the test's own error comes first")
    assert trace == ["finally"] * 2


def test_one_that_will_not_end_is_left_alone_in_the_end() -> None:
    def stubborn() -> None:
        while True:
            try:
                dhaga.sleep(1000)
            except dhaga.Cancelled:
                pass

    with pytest.raises(AssertionError, match="left over"), virtual_clock():
        dhaga.spawn(stubborn)
        settle()


def test_it_steps_aside_for_main_code_that_has_a_scheduler_and_refuses_others() -> None:
    outer = dhaga.spawn(dhaga.park, "outer")
    settle()
    scheduler = dhaga.current().scheduler
    with virtual_clock() as clock:
        dhaga.sleep(1000)
        assert clock() == 1000 and dhaga.current().scheduler is not scheduler
        with virtual_clock() as inner:
            dhaga.sleep(5)
        assert (clock(), inner()) == (1000, 5)
    assert dhaga.current().scheduler is scheduler
    outer.wake("still there")
    assert outer.result() == "still there"

    def enters() -> None:
        with virtual_clock():
            pytest.fail("entered")

    async def coroutine() -> None:
        enters()

    def in_dhaga() -> None:
        with pytest.raises(RuntimeError, match="main code"):
            enters()

    dhaga.spawn(in_dhaga).result()
    with pytest.raises(RuntimeError, match="main code"):
        asyncio.run(coroutine())


# ---- settle


def test_settle_returns_when_nobody_has_anything_to_do() -> None:
    """Through chains of wakes, callbacks, tasks and sockets; but no time passes."""
    with virtual_clock() as clock:
        ours, theirs = socket.socketpair()
        loop = dhaga.current().scheduler.loop
        trace = []

        def chain(n: int) -> None:
            if n:
                d = dhaga.spawn(chain, n - 1)
                dhaga.sleep(0)
                d.join()
            trace.append(n)

        async def task() -> None:
            for _ in range(20):
                await asyncio.sleep(0)
            parked.wake("by a task")

        def answers(fd: Any, events: int) -> None:
            trace.append(ours.recv(1))
            dhaga.current
            loop.remove_reader(ours)

        parked = dhaga.spawn(lambda: trace.append(dhaga.park("task")))
        later = dhaga.spawn(dhaga.sleep, 1)
        dhaga.spawn(chain, 20)
        loop.call_soon(lambda: asyncio.ensure_future(task(), loop=loop))
        loop.add_reader(ours, answers, ours, 0)
        theirs.send(b"!")
        settle()
        assert sorted(map(str, trace)) == sorted(["b'!'", "by a task", *map(str, range(21))])
        assert clock() == 0 and later.state == "WAITING"
        settle()
        later.join()
        ours.close()
        theirs.close()


def test_several_may_settle_and_be_cancelled() -> None:
    with virtual_clock():
        settlers = [dhaga.spawn(settle) for _ in range(3)]
        cancelled = dhaga.spawn(settle)
        dhaga.spawn(cancelled.cancel)
        settle()
        for d in [*settlers, cancelled]:
            d.join()


def test_settle_works_on_real_time_and_is_refused_to_a_guest() -> None:
    d = dhaga.spawn(dhaga.park, "x")
    settle()
    assert d.state == "WAITING"
    d.wake()
    d.join()
    with dhaga.Scheduler() as scheduler:
        scheduler.spawn(settle).result()

    async def main() -> None:
        with pytest.raises(RuntimeError, match="a host's loop"):
            awaited = asyncio.ensure_future(dhaga.spawn(lambda: dhaga.sleep(0.01) or settle()))
            await awaited

    asyncio.run(main())


# ---- the sequencer


def test_steps_happen_in_the_order_of_their_numbers() -> None:
    trace = []

    def takes(*numbers: int) -> None:
        for number in numbers:
            with sequence(number):
                trace.append(number)
                dhaga.sleep(0)

    with virtual_clock():
        sequence = Sequencer()
        dhagas = [dhaga.spawn(takes, *numbers) for numbers in ((2, 3, 6), (1, 5), (0, 4, 7))]
        for d in dhagas:
            d.result()
    assert trace == list(range(8)) and repr(sequence) == "<Sequencer at step 8, parked before []>"


def test_a_step_is_taken_once_even_while_it_is_under_way() -> None:
    def takes(number: int) -> None:
        with sequence(number):
            trace.append(number)
            dhaga.sleep(1)

    trace: list[int] = []
    with virtual_clock():
        sequence = Sequencer()
        first, second, third = (dhaga.spawn(takes, number) for number in (0, 0, 1))
        with pytest.raises(RuntimeError, match="step 0 was taken before"):
            second.result()
        first.join()
        third.join()
    assert trace == [0, 1]


def test_steps_are_in_order_between_os_threads() -> None:
    trace = []
    sequence = Sequencer()

    def takes(first: int) -> None:
        for number in range(first, 300, 3):
            with sequence(number):
                trace.append(number)

    threads = [threading.Thread(target=takes, args=(n,)) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert trace == list(range(300))


def test_a_step_is_taken_once_and_one_that_never_comes_is_a_deadlock() -> None:
    with virtual_clock():
        sequence = Sequencer()
        with sequence(0):
            pass
        with pytest.raises(RuntimeError, match="step 0 was taken before"), sequence(0):
            pass

        def waits() -> None:
            with sequence(2):
                pytest.fail("its turn has not come")

        d = dhaga.spawn(waits, name="d")
        with pytest.raises(dhaga.Deadlock, match="d: waits for step 2"):
            d.join()
        d.cancel()
        d.join()
        assert repr(sequence) == "<Sequencer at step 1, parked before []>"


# ---- the shuffled run queue


def test_a_shuffled_run_queue_gives_everything_once_in_an_order_that_the_seed_decides() -> None:
    def order(seed: int) -> list[int]:
        queue = ShuffledQueue(seed)
        queue.extend(range(100))
        return [queue.popleft() for _ in range(100)]

    assert order(1) == order(1) != order(2)
    assert sorted(order(1)) == list(range(100)) != order(1)
    with pytest.raises(IndexError):
        ShuffledQueue(1).popleft()


def order_of_ten(shuffle: int | None = None) -> list[int]:
    """Return in which order ten dhagas that have yielded once go on."""
    trace: list[int] = []

    def runs(n: int) -> None:
        dhaga.sleep(0)
        trace.append(n)

    with virtual_clock(shuffle):
        for d in [dhaga.spawn(runs, n) for n in range(10)]:
            d.join()
    return trace


def test_the_seed_is_used_and_finds_what_depends_on_the_order(monkeypatch: pytest.MonkeyPatch) -> None:
    def orders(seed: int | None) -> list[int]:
        monkeypatch.setattr(testing, "seed", seed)
        return order_of_ten()

    assert orders(None) == list(range(10))
    assert orders(1) == orders(1) and len({tuple(orders(seed)) for seed in range(5)}) == 5


def test_a_clock_may_be_shuffled_by_a_seed_of_its_own() -> None:
    assert order_of_ten(1) == order_of_ten(1) != order_of_ten(2)
    assert sorted(order_of_ten(2)) == list(range(10))


def test_those_who_have_not_begun_are_shuffled_too() -> None:
    def order(shuffle: int | None) -> list[int]:
        trace: list[int] = []
        with virtual_clock(shuffle):
            for d in [dhaga.spawn(trace.append, n) for n in range(10)]:
                d.join()
        return trace

    assert order(None) == list(range(10)) == sorted(order(1))
    assert order(1) == order(1) and len({tuple(order(seed)) for seed in range(5)}) == 5


# ---- cancels at every park: planted bugs


class NaiveSemaphore:
    """A semaphore as one may write it over ``park`` without thinking of cancels; ``bug`` says what is wrong with it."""

    def __init__(self, value: int, bug: str) -> None:
        self.value = value
        self.bug = bug
        self.waiters: deque[Any] = deque()

    def acquire(self) -> None:
        if self.value:
            self.value -= 1
            return
        me = dhaga.current()
        self.waiters.append(me)
        dhaga.park("naive", None if self.bug == "stale waiter" else lambda: self.waiters.remove(me))
        if self.bug == "parks after the hand-over":
            dhaga.sleep(0)

    def release(self) -> None:
        if self.waiters:
            waiter = self.waiters.popleft()
            if waiter.wake() or self.bug == "stale waiter":
                return
        self.value += 1


def with_semaphore(bug: str) -> Callable[[], tuple[dhaga.Dhaga, Callable[[], object]]]:
    def scenario() -> tuple[dhaga.Dhaga, Callable[[], object]]:
        semaphore = NaiveSemaphore(1, bug)

        def works() -> None:
            semaphore.acquire()
            if bug == "no finally":
                dhaga.sleep(1)
                semaphore.release()
                return
            try:
                dhaga.sleep(1)
            finally:
                semaphore.release()

        def check() -> None:
            assert semaphore.value == 1, "a permit is lost"

        dhaga.spawn(works)
        victim = dhaga.spawn(works)
        dhaga.spawn(works)
        return victim, check

    return scenario


def test_a_scenario_that_loses_nothing_passes_and_its_parks_are_counted() -> None:
    assert cancel_at_every_park(with_semaphore("none")) == 2


@pytest.mark.parametrize("bug", ["stale waiter", "parks after the hand-over", "no finally"])
def test_a_planted_bug_is_found_and_the_note_says_where(bug: str) -> None:
    with pytest.raises((AssertionError, dhaga.Deadlock)) as info:
        cancel_at_every_park(with_semaphore(bug))
    *_, note = info.value.__notes__  # a Deadlock has one of its own
    assert note.startswith("the victim was to get a cancel ") and ("naive" in note or "sleep" in note)


def test_an_item_that_is_lost_is_found() -> None:
    """By a queue on which the getter takes the item itself, after its wake."""

    class NaiveQueue:
        def __init__(self) -> None:
            self.items: deque[int] = deque()
            self.getters: deque[Any] = deque()

        def put(self, item: int) -> None:
            if self.getters:
                self.getters.popleft().wake(item)
            else:
                self.items.append(item)

        def get(self) -> int:
            if self.items:
                return self.items.popleft()
            me = dhaga.current()
            self.getters.append(me)
            item = dhaga.park("naive", lambda: self.getters.remove(me))
            dhaga.sleep(1)
            return item

    def scenario() -> tuple[dhaga.Dhaga, Callable[[], object]]:
        queue, got = NaiveQueue(), list[int]()

        def gets() -> None:
            got.append(queue.get())

        def check() -> None:
            assert sorted([*got, *queue.items]) == [0, 1], "an item is lost"

        victim = dhaga.spawn(gets)
        dhaga.spawn(lambda: [queue.put(n) for n in range(2)])
        return victim, check

    with pytest.raises(AssertionError, match="an item is lost") as info:
        cancel_at_every_park(scenario)
    assert "a cancel at once at park 2 of: naive, sleep" in info.value.__notes__[0]


def test_an_error_of_the_victims_own_is_told() -> None:
    def scenario() -> tuple[dhaga.Dhaga, Callable[[], object]]:
        def works() -> None:
            try:
                dhaga.sleep(1)
            except dhaga.Cancelled:
                raise LookupError("clumsy") from None

        return dhaga.spawn(works), lambda: None

    with pytest.raises(LookupError, match="clumsy"):
        cancel_at_every_park(scenario)


def test_the_victim_is_struck_at_each_moment_of_each_park() -> None:
    strikes = []

    def scenario() -> tuple[dhaga.Dhaga, Callable[[], object]]:
        queue: Queue[int] = Queue()

        def works() -> None:
            for step in ("get", "sleep", "yield"):
                try:
                    queue.get() if step == "get" else dhaga.sleep(int(step == "sleep"))
                except BaseException as error:
                    strikes.append((step, type(error).__name__))
                    raise

        def check() -> None: ...

        victim = dhaga.spawn(works)
        dhaga.spawn(queue.put, 1)
        return victim, check

    assert cancel_at_every_park(scenario) == 2  # sleep(0) of one that nobody cancels is no park
    assert set(strikes) == {(step, "Cancelled") for step in ("get", "sleep", "yield")} | {("get", "TimeoutError")}


def test_a_shield_holds_off_an_injected_timeout_as_that_of_a_block_around_it() -> None:
    reached: list[str] = []

    def scenario() -> tuple[dhaga.Dhaga, Callable[[], object]]:
        reached.clear()
        gate = Semaphore(0)

        def opens() -> None:
            dhaga.sleep(1)
            gate.release()

        def waits() -> None:
            with dhaga.shield():
                gate.acquire()
                reached.append("the end of the shield")
            dhaga.sleep(1)

        def check() -> None:
            assert reached == ["the end of the shield"]

        dhaga.spawn(opens)
        return dhaga.spawn(waits), check

    assert cancel_at_every_park(scenario) == 2


def test_a_victim_that_has_parked_before_is_refused() -> None:
    def scenario() -> tuple[dhaga.Dhaga, Callable[[], object]]:
        victim = dhaga.spawn(dhaga.sleep, 1)
        settle()
        return victim, lambda: None

    with pytest.raises(AssertionError, match="has parked before it could be watched"):
        cancel_at_every_park(scenario)


def test_the_primitives_pass() -> None:
    """As an example of its use, and of the speed: some hundred replays."""

    def scenario() -> tuple[dhaga.Dhaga, Callable[[], object]]:
        lock, semaphore = Lock(), Semaphore(2)

        def works() -> None:
            for _ in range(3):
                with semaphore, lock:
                    dhaga.sleep(1)

        def check() -> None:
            assert not lock.locked() and semaphore.acquire(False) and semaphore.acquire(False)

        victim = dhaga.spawn(works)
        for _ in range(3):
            dhaga.spawn(works)
        return victim, check

    assert cancel_at_every_park(scenario) >= 6
    assert this_thread.main is None


# ---- a cancel at every event


def with_permit(work: Callable[[Semaphore], object]) -> Callable[[], tuple[dhaga.Dhaga, Callable[[], object]]]:
    def scenario() -> tuple[dhaga.Dhaga, Callable[[], object]]:
        permits = Semaphore(1)

        def check() -> None:
            assert permits.acquire(blocking=False), "a permit is lost"

        return dhaga.spawn(work, permits), check

    return scenario


def compute() -> int:
    return sum(each * each for each in range(5))


def in_a_with(permits: Semaphore) -> None:
    with permits:
        compute()


def in_a_finally(permits: Semaphore) -> None:
    permits.acquire()
    try:
        compute()
    finally:
        compute()
        permits.release()


def below_a_generator(permits: Semaphore) -> None:
    @contextlib.contextmanager
    def held() -> Iterator[None]:
        permits.acquire()
        compute()
        try:
            yield
        finally:
            compute()
            permits.release()

    with held():
        compute()


def in_nested_scopes(permits: Semaphore) -> None:
    with dhaga.Scope() as scope, permits:
        scope.spawn(compute)
        compute()


SAFE = [in_a_with, in_a_finally, below_a_generator, in_nested_scopes]


def call_before_the_try(permits: Semaphore) -> None:
    permits.acquire()
    compute()
    try:
        compute()
    finally:
        permits.release()


def no_finally(permits: Semaphore) -> None:
    permits.acquire()
    compute()
    permits.release()


def release_in_an_except(permits: Semaphore) -> None:
    permits.acquire()
    try:
        compute()
    except BaseException:
        permits.release()
        raise
    compute()
    permits.release()


@needs_events
@pytest.mark.parametrize("work", SAFE)
def test_code_that_tidies_up_loses_nothing_at_any_event(work: Callable[[Semaphore], object]) -> None:
    assert cancel_at_every_event(with_permit(work)) > 5


@needs_events
@pytest.mark.parametrize("work", [call_before_the_try, no_finally, release_in_an_except])
def test_a_permit_that_a_strike_loses_is_found_and_the_note_names_the_line(work: Callable[[Semaphore], object]) -> None:
    with pytest.raises(AssertionError, match="a permit is lost") as info:
        cancel_at_every_event(with_permit(work))
    assert f" in {work.__name__}" in info.value.__notes__[0]
