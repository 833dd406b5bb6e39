"""Histories: the calls that clients record, and their results."""

from __future__ import annotations

import math

import pytest

from dhaga.simulation import History, NotLinearizable, registers


def test_calls_after_each_other_have_their_own_order() -> None:
    history = History()
    with history.call("put", "a", 1):
        pass
    with history.call("get", "a") as call:
        call.result = 1
    history.check(registers)
    with history.call("get", "a") as call:
        call.result = None
    with pytest.raises(NotLinearizable) as caught:
        history.check(registers)
    assert str(caught.value).startswith("no order explains the 3 calls; these 2 have one:\n")
    assert "then the state is 1, and none of these can be next:\n" in str(caught.value)
    assert str(caught.value).endswith("MainThread: get('a') -> None")


def test_a_call_that_failed_may_have_its_effect_late_or_never() -> None:
    def fail(history: History) -> None:
        with pytest.raises(OSError), history.call("put", "a", 1):
            raise OSError("cut")

    for reads in ([None, None], [None, 1, 1], [1]):
        history = History()
        fail(history)
        for result in reads:
            with history.call("get", "a") as call:
                call.result = result if result is not None else "first"
        history.check(registers, "first")
    with history.call("get", "a") as call:
        call.result = "first"
    with pytest.raises(NotLinearizable):
        history.check(registers, "first")


def test_a_call_that_fails_after_its_result_has_the_result() -> None:
    history = History()
    with pytest.raises(OSError), history.call("get", "a") as call:
        call.result = 1
        raise OSError("cut")
    assert call.ended < math.inf
    with pytest.raises(NotLinearizable):
        history.check(registers)


def test_a_call_that_is_taken_back_has_no_effect() -> None:
    history = History()
    with history.call("put", "a", 1) as call:
        call.cancel()
    with history.call("get", "a") as call:
        call.result = 1
    with pytest.raises(NotLinearizable):
        history.check(registers)


def test_a_recorded_function_has_its_name_and_arguments() -> None:
    history = History()
    values: dict[str, int] = {}

    @history.recorded
    def put(key: str, value: int) -> None:
        values[key] = value

    @history.recorded
    def get(key: str) -> int | None:
        return values.get(key)

    put("a", 1)
    assert get("a") == 1
    assert [(call.name, call.arguments, call.result) for call in history.calls] == [
        ("put", ("a", 1), None), ("get", ("a",), 1)
    ]  # fmt: skip
    history.check(registers)
