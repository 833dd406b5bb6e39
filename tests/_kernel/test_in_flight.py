"""Results in flight: no deadline strikes between a call of Dhaga and the place where its result is kept."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any

import pytest

import dhaga
from dhaga import queue
from dhaga._kernel.run import in_flight
from dhaga._kernel.run.in_flight import EVENTS, Flight, calls_dhaga
from dhaga.testing import Scenario, cancel_at_event, cancel_at_every_event
from tests._kernel.test_preemption_strikes import needs_events


def here() -> FrameType:
    return sys._getframe(1)


def test_a_flight_lands_after_a_number_of_events_without_a_call_of_dhaga() -> None:
    flight = Flight(1, here())
    assert not any(flight.has_landed(here(), None) for _ in range(EVENTS - 1))
    flight.depart(here())
    assert [flight.has_landed(here(), None) for _ in range(EVENTS)] == [False] * (EVENTS - 1) + [True]


def test_a_flight_lands_at_a_jump_behind_its_call_in_the_function_that_called(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_flight, "TESTS_BELOW", False)
    flight = Flight(1, here())
    assert flight.has_landed(here(), here().f_lasti - 100)
    assert not flight.has_landed(here(), here().f_lasti + 100)


def test_a_loop_in_another_function_lands_no_flight_of_its_caller() -> None:
    flight = Flight(1, here())

    def helper() -> bool:
        return flight.has_landed(here(), 0)

    assert not helper()


def test_a_function_that_returns_gives_the_flight_to_its_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_flight, "TESTS_BELOW", False)

    def get() -> Flight:
        return Flight(1, here())

    flight = get()
    # The flight's offset is now the offset of the call above.
    assert not flight.has_landed(here(), here().f_lasti)
    assert flight.has_landed(here(), 0)


@pytest.mark.parametrize(
    ("called", "expected"),
    [
        ((dhaga.sleep,), True),
        ((queue.Queue().get, 1), True),
        ((len, queue.Queue()), True),
        ((len, []), False),
        ((partial(len), 1), False),
        ((), False),
    ],
)
def test_calls_of_dhaga_are_known_by_the_callable_and_by_its_object(called: tuple[Any, ...], expected: bool) -> None:
    assert calls_dhaga(__file__, called) is expected
    assert calls_dhaga(dhaga.__file__, called)


# ---- whole scenarios


def wrapped(items: queue.Queue[int]) -> int:
    return items.get()


def gets_in_one_line(items: queue.Queue[int], got: list[int]) -> None:
    got.append(items.get())


def gets_by_a_helper(items: queue.Queue[int], got: list[int]) -> None:
    got.append(int(wrapped(items)))


def gets_in_two_lines(items: queue.Queue[int], got: list[int]) -> None:
    item = items.get()
    got.append(item)


def gets_in_a_loop(items: queue.Queue[int], got: list[int]) -> None:
    while True:
        got.append(items.get_nowait())


def gets_in_a_for(items: queue.Queue[int], got: list[int]) -> None:
    for _ in range(4):
        got.append(items.get_nowait())


def gets_in_a_condition(items: queue.Queue[int], got: list[int]) -> None:
    while (item := items.get_nowait()) >= 0:
        got.append(item)


def gets_in_a_comprehension(items: queue.Queue[int], got: list[int]) -> None:
    [got.append(wrapped(items)) for _ in range(3)]


def gets_from_a_generator(items: queue.Queue[int], got: list[int]) -> None:
    for item in (items.get() for _ in range(3)):
        got.append(item)


def gets_by_recursion(items: queue.Queue[int], got: list[int], left: int = 3) -> None:
    if left:
        got.append(wrapped(items))
        gets_by_recursion(items, got, left - 1)


GETS = [
    gets_in_one_line,
    gets_by_a_helper,
    gets_in_two_lines,
    gets_in_a_loop,
    gets_in_a_for,
    gets_in_a_condition,
    gets_in_a_comprehension,
    gets_from_a_generator,
    gets_by_recursion,
]


def with_items(work: Callable[[queue.Queue[int], list[int]], object], ends: list[int]) -> Scenario:
    """Return a scenario that checks that no item is lost, and notes how many were got before each end."""

    def scenario() -> tuple[dhaga.Dhaga, Callable[[], object]]:
        items: queue.Queue[int] = queue.Queue()
        for item in range(3):
            items.put(item)
        got: list[int] = []

        def victim() -> None:
            try:
                work(items, got)
            except queue.Empty:
                pass

        def check() -> None:
            ends.append(len(got))
            assert len(got) + items.qsize() == 3, "an item is lost"

        return dhaga.spawn(victim), check

    return scenario


@needs_events
@pytest.mark.parametrize("work", GETS)
def test_no_item_is_lost_between_a_queue_and_the_list(work: Callable[[queue.Queue[int], list[int]], object]) -> None:
    assert cancel_at_every_event(with_items(work, [])) > 2


@needs_events
def test_a_loop_that_calls_dhaga_is_struck_between_its_rounds() -> None:
    ends: list[int] = []
    cancel_at_every_event(with_items(gets_in_a_for, ends))
    assert {1, 2, 3} <= set(ends)


@needs_events
def test_code_without_loops_is_struck_after_some_events() -> None:
    def recurse(depth: int) -> int:
        return depth if depth < 2 else recurse(depth - 1) + recurse(depth - 2)

    def scenario() -> tuple[dhaga.Dhaga, Callable[[], object]]:
        return dhaga.spawn(lambda: ends.append(recurse(16))), lambda: None

    ends: list[int] = []
    cancel_at_event(scenario, 3)
    assert not ends
