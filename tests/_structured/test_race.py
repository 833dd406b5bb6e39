"""race(): the first success wins, the rest is cancelled."""

from __future__ import annotations

from typing import Any

import pytest
from greenlet import GreenletExit

import dhaga
from dhaga import Cancelled, race
from dhaga.testing import settle, virtual_clock
from tests.kit.scopes import errors_in, works


def test_a_race_returns_the_first_success_and_cancels_the_rest() -> None:
    trace: list[Any] = []
    with virtual_clock() as clock:
        assert race(lambda: works(3, trace), lambda: works(2, trace), lambda: works(1, trace, OSError())) == 2
        assert clock() == 2 and (3, "race: <lambda> was first") in trace
        assert race(lambda: None, lambda: works(1, trace)) is None
        assert race(lambda: 1) == 1


@pytest.mark.parametrize(
    ("fns", "text"),
    [
        (([int, str],), r"one by one, race\(\*functions\), and not \[<class 'int'>"),
        ((int, 3), r"race needs a function to call, and not 3: race\(lambda: "),
        (("fetch",), "race needs a function to call, and not 'fetch'"),
    ],
)
def test_what_cannot_race_is_told_what_to_write(fns: Any, text: str) -> None:
    with pytest.raises(TypeError, match=text):
        race(*fns)


def test_a_race_that_all_lose_raises_all_errors() -> None:
    a, b = OSError("a"), ValueError("b")
    with virtual_clock() as clock:
        assert errors_in(lambda: race(lambda: works(2, [], a), lambda: works(1, [], b))) == [b, a]
        assert clock() == 2


def test_a_race_whose_functions_are_killed_raises_and_is_no_timeout() -> None:
    with virtual_clock(), pytest.raises(BaseExceptionGroup, match="all have failed") as info:
        race(lambda: works(1, [], GreenletExit()))
    assert [type(error) for error in info.value.exceptions] == [GreenletExit]


def test_a_race_has_a_timeout_whose_cause_are_the_errors_until_then() -> None:
    with virtual_clock() as clock:
        with pytest.raises(TimeoutError, match="none succeeded within 2 s") as info:
            race(lambda: works(3, []), lambda: works(1, [], OSError("early")), timeout=2)
        assert clock() == 2
        assert isinstance(info.value.__cause__, ExceptionGroup)
        assert [str(error) for error in info.value.__cause__.exceptions] == ["early"]
        with pytest.raises(TimeoutError) as info:
            race(lambda: works(3, []), timeout=2)
        assert info.value.__cause__ is None


def test_a_race_that_is_cancelled_cancels_all() -> None:
    trace: list[Any] = []
    with virtual_clock():
        d = dhaga.spawn(race, lambda: works(1, trace), lambda: works(2, trace))
        settle()
        d.cancel("no race")
        with pytest.raises(Cancelled, match="no race"):
            d.result()
    assert len(trace) == 2


def test_an_exit_in_a_race_is_no_attempt_that_failed() -> None:
    with virtual_clock():
        with pytest.raises(SystemExit):
            race(lambda: works(1, [], SystemExit()), lambda: works(2, []))


def test_a_lost_wait_for_somebody_cancelled_is_an_attempt_that_failed() -> None:
    with virtual_clock():
        other = dhaga.spawn(dhaga.sleep, 10)
        other.cancel()
        assert race(other.result, lambda: works(1, [])) == 1
        with pytest.raises(BaseExceptionGroup) as info:
            race(other.result)
        assert [type(error) for error in info.value.exceptions] == [Cancelled]
