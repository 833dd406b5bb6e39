"""``Timeout`` blocks: they nest, the right one catches, and nothing handed over in time is lost."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import dhaga
from dhaga._kernel.run.timers import Entry, Timers
from dhaga.queue import Queue
from dhaga.testing import settle, virtual_clock
from tests.kit.raised import error_of


def test_a_block_ends_at_its_second_exactly() -> None:
    with virtual_clock() as clock:
        for wait in (
            lambda: dhaga.sleep(1000),
            lambda: dhaga.park("x"),
            lambda: Queue().get(),
            dhaga.spawn(dhaga.sleep, 90).join,
        ):
            began = clock()
            with pytest.raises(TimeoutError, match=r"not done within 2\.5 s") as info:
                with dhaga.Timeout(2.5) as timeout:
                    wait()
            assert clock() == began + 2.5
            assert timeout.expired and repr(timeout) == "<Timeout 2.5 s, expired>"
            assert type(info.value.__cause__).__name__ == "Expired"
        dhaga.sleep(100)


def test_a_block_that_is_done_in_time_is_left_alone() -> None:
    with virtual_clock() as clock:
        with dhaga.Timeout(2) as timeout:
            dhaga.sleep(1)
            dhaga.sleep(0.5)
        assert not timeout.expired and repr(timeout) == "<Timeout 2 s>"
        dhaga.sleep(10)
        with dhaga.Timeout(None) as timeout:
            dhaga.sleep(1000)
        assert not timeout.expired and clock() == 1011.5
        assert not len(dhaga.current().scheduler.timers)


@pytest.mark.parametrize(("outer", "inner", "caught"), [(3, 1, "inner"), (1, 3, "outer"), (2, 2, "outer")])
def test_of_nested_blocks_the_right_one_catches(outer: float, inner: float, caught: str) -> None:
    trace = []
    with virtual_clock() as clock:
        try:
            with dhaga.Timeout(outer) as outer_block:
                try:
                    with dhaga.Timeout(inner):
                        dhaga.sleep(1000)
                except TimeoutError:
                    trace.append("inner")
        except TimeoutError:
            trace.append("outer")
        assert trace == [caught] and clock() == min(outer, inner)
        assert outer_block.expired is (caught == "outer")
        dhaga.sleep(10)  # nothing of either is left


def test_blocks_of_different_dhagas_do_not_meet() -> None:
    trace = []

    def waits(seconds: float) -> None:
        try:
            with dhaga.Timeout(seconds):
                dhaga.sleep(1000)
        except TimeoutError:
            trace.append((seconds, clock()))

    with virtual_clock() as clock:
        for d in [dhaga.spawn(waits, seconds) for seconds in (3, 1, 2)]:
            d.join()
    assert trace == [(1, 1), (2, 2), (3, 3)]


def test_except_clauses_for_errors_of_the_work_do_not_take_it() -> None:
    """Inside the block it is no Exception: no ``except OSError`` around a socket takes it for a network error."""
    with virtual_clock(), pytest.raises(TimeoutError):
        with dhaga.Timeout(1):
            try:
                dhaga.sleep(1000)
            except Exception:
                pytest.fail("taken")


def test_an_error_of_the_block_passes_even_a_timeout_error_of_its_own() -> None:
    with virtual_clock():
        for error in (LookupError(), TimeoutError("of its own"), dhaga.Cancelled()):
            with pytest.raises(type(error)) as info, dhaga.Timeout(1):
                raise error
            assert info.value is error


def test_an_expiry_while_runnable_comes_at_the_next_park_or_never() -> None:
    """The wake came first: the item that it handed over is kept."""
    queue: Queue[str] = Queue()
    trace: list[Any] = []

    def gets(parks_again: bool) -> None:
        try:
            with dhaga.Timeout(1) as timeout:
                trace.append(queue.get())
                trace.append(timeout.expired)
                if parks_again:
                    dhaga.sleep(1000)
        except TimeoutError:
            trace.append("timed out")
        dhaga.sleep(1)
        trace.append("nothing is left of it")

    with virtual_clock() as clock:

        def puts() -> None:
            """Make the getter runnable, and let its timeout expire before it runs."""
            queue.put("item")
            clock.now += 1

        for parks_again in (True, False):
            d = dhaga.spawn(gets, parks_again)
            settle()
            dhaga.current().scheduler.loop.call_soon(puts)
            d.join()
    assert trace == [
        *["item", True, "timed out", "nothing is left of it"],
        *["item", True, "nothing is left of it"],
    ]


def test_a_cancel_passes_through_and_a_finally_within_is_bounded_too() -> None:
    trace = []

    def waits() -> None:
        with dhaga.Timeout(5):
            try:
                dhaga.sleep(1000)
            finally:
                dhaga.sleep(2)
                trace.append(clock())

    with virtual_clock() as clock:
        d = dhaga.spawn(waits)
        settle()
        d.cancel("reason")
        with pytest.raises(dhaga.Cancelled, match="reason"):
            d.result()
        d = dhaga.spawn(waits)
        with pytest.raises(TimeoutError):
            d.result()
    assert trace == [2, 9]


def test_a_block_that_swallows_its_expiry_goes_on_and_ends_normally() -> None:
    with virtual_clock() as clock:
        with dhaga.Timeout(1) as timeout:
            try:
                dhaga.sleep(1000)
            except BaseException as error:
                assert type(error).__name__ == "Expired"
            dhaga.sleep(1)
        assert timeout.expired and clock() == 2


def test_no_time_ends_the_first_park_that_must_wait_only() -> None:
    with virtual_clock() as clock:
        queue: Queue[int] = Queue()
        queue.put(1)
        with pytest.raises(TimeoutError), dhaga.Timeout(0):
            assert queue.get() == 1
            queue.put(1)
            dhaga.park("x")
        assert clock() == 0


class TooSlow(Exception):
    pass


def test_a_timeout_raises_the_error_that_it_was_given() -> None:
    error = TooSlow("of the instance")
    with virtual_clock():
        with pytest.raises(TooSlow) as raised, dhaga.Timeout(1, TooSlow):
            dhaga.sleep(2)
        assert isinstance(raised.value.__cause__, BaseException)
        with pytest.raises(TooSlow) as raised, dhaga.Timeout(1, error):
            dhaga.sleep(2)
        assert raised.value is error
        with dhaga.Timeout(2, TooSlow) as timeout:
            dhaga.sleep(1)
        assert not timeout.expired


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ((-1,), ValueError, "from 0 on, or None, not -1"),
        (("1",), TypeError, "seconds or None, not '1'"),
        ((1, False), TypeError, "move_on_after"),
        ((1, "late"), TypeError, "an exception or a class of them, not 'late'"),
        ((1, int), TypeError, "an exception or a class of them"),
    ],
)
def test_a_timeout_says_what_is_wrong_with_its_arguments(arguments: Any, error: Any, text: str) -> None:
    with pytest.raises(error, match=text):
        dhaga.Timeout(*arguments)


def test_reuse_and_nonsense_are_refused() -> None:
    with virtual_clock():
        timeout = dhaga.Timeout(1)
        with timeout:
            with pytest.raises(RuntimeError, match="already entered or was used before"), timeout:
                pass
        with pytest.raises(RuntimeError, match="already entered or was used before"), timeout:
            pass
        with pytest.raises(ValueError, match="NaN"):
            dhaga.Timeout(float("nan"))


def test_it_works_in_main_code_on_real_time_and_in_other_threads() -> None:
    def waits() -> None:
        with pytest.raises(TimeoutError), dhaga.Timeout(0.01):
            dhaga.sleep(1000)

    waits()
    thread = threading.Thread(target=waits)
    thread.start()
    thread.join()
    with dhaga.Scheduler() as scheduler:
        scheduler.spawn(waits).result()


def test_a_block_may_expire_while_it_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """A finalizer may park in any call, also in the one that discards the block's timer."""
    discard, finalizers = Timers.discard, [lambda: dhaga.sleep(2)]

    def discard_after_a_collection(timers: Timers, entry: Entry) -> None:
        while finalizers:
            ended_by.append(error_of(finalizers.pop()))
        discard(timers, entry)

    ended_by: list[BaseException | None] = []
    with virtual_clock() as clock:
        monkeypatch.setattr(Timers, "discard", discard_after_a_collection)
        with dhaga.Timeout(1) as timeout:
            pass
        assert clock() == 1 and timeout.expired and ended_by[0] is not None
        dhaga.sleep(1)
