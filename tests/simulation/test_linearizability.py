"""Histories of calls that overlap: which of them have an order that explains their results."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import pytest

from dhaga.simulation import IMPOSSIBLE, UNKNOWN, Call, History, NotLinearizable, Simulation, registers


def overlapping(*results: Any) -> History:
    """Return a history of two writes and some reads, all of which overlap."""
    history = History()
    calls = [history.call("put", "a", value) for value in (1, 2)]
    calls += [history.call("get", "a") for _ in results]
    for call in calls:
        call.__enter__()
    for call, result in zip(calls[2:], results, strict=True):
        call.result = result
    for call in calls:
        call.__exit__(None, None, None)
    return history


@pytest.mark.parametrize("results", [(1, 2), (2, 1), (2, 2), (UNKNOWN, 1)])
def test_calls_that_overlap_may_have_any_order(results: Sequence[Any]) -> None:
    history = overlapping(*results)
    for call in history.calls[2:]:
        call.result = call.result if call.result is not None else UNKNOWN
    history.check(registers)


def test_a_value_that_nobody_wrote_has_no_place() -> None:
    with pytest.raises(NotLinearizable, match=r"get\('a'\) -> 3"):
        overlapping(1, 3).check(registers)


def test_each_key_has_a_state_of_its_own() -> None:
    history = History()
    for key in range(300):
        with history.call("put", key, f"value of {key}"):
            pass
    for key in range(300):
        with history.call("get", key) as call:
            call.result = f"value of {key}"
    history.check(registers, key=lambda call: call.arguments[0])
    with pytest.raises(NotLinearizable):
        history.check(registers)


def test_a_serializable_history_need_not_keep_the_real_order() -> None:
    history = History()
    with history.call("get", "a") as call:
        call.result = 1
    with history.call("put", "a", 1):
        pass
    history.check(registers, real_time=False)
    with pytest.raises(NotLinearizable):
        history.check(registers)


def test_a_swap_takes_place_if_the_value_is_the_old_one() -> None:
    history = History()
    for old, new, swapped in ((None, 1, True), (None, 2, False), (1, 3, True)):
        with history.call("swap", "a", old, new) as call:
            call.result = swapped
    history.check(registers)
    with history.call("swap", "a", 1, 4) as call:
        call.result = True
    with pytest.raises(NotLinearizable):
        history.check(registers)


def test_a_model_may_be_the_programs_own() -> None:
    def counter(value: int, call: Call) -> Any:
        return value + 1 if call.result in (value + 1, UNKNOWN) else IMPOSSIBLE

    history = History()
    for result in (1, 2, 3):
        with history.call("increment") as call:
            call.result = result
    history.check(counter, 0)
    with pytest.raises(NotLinearizable):
        history.check(counter, 1)


def test_hundreds_of_calls_of_many_threads_are_checked() -> None:
    """A lock makes them linearizable; the order within the overlaps is for the search to find."""
    history, lock, value = History(), threading.Lock(), 0

    def use(number: int) -> None:
        nonlocal value
        for place in range(20):
            with history.call("put", "a", (number, place)), lock:
                value = (number, place)
            with history.call("get", "a") as call, lock:
                call.result = value

    with Simulation(1):
        threads = [threading.Thread(target=use, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(history.calls) == 320
    history.check(registers)


def test_an_unknown_operation_is_an_error() -> None:
    history = History()
    with history.call("delete", "a"):
        pass
    with pytest.raises(ValueError, match=r"registers\(\) knows put, get and swap, and not 'delete'"):
        history.check(registers)
