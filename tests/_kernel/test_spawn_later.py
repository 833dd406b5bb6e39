"""``spawn_later``: a dhaga that starts after some seconds."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

import pytest

import dhaga
from dhaga.testing import cancel_at_every_park, settle, virtual_clock
from tests.kit.scripts import prints


def test_the_call_is_made_after_its_seconds_with_its_arguments() -> None:
    with virtual_clock() as clock:
        late = dhaga.spawn_later(2, lambda *args, **kwargs: (clock(), args, kwargs), 1, key=2)
        assert late.result() == (2, (1,), {"key": 2})


def test_the_seconds_count_from_the_call_of_spawn_later() -> None:
    with virtual_clock() as clock:
        at = [dhaga.spawn_later(seconds, clock) for seconds in (3, 1, 0, 2)]
        assert [each.result() for each in at] == [3, 1, 0, 2]


def test_until_its_start_it_waits_for_that() -> None:
    with virtual_clock():
        late = dhaga.spawn_later(5, int, name="reminder", daemon=True, priority=dhaga.LOW)
        assert (late.name, late.daemon, late.priority) == ("reminder", True, dhaga.LOW)
        settle()
        assert repr(late) == "<Dhaga reminder WAITING spawn_later>"
        late.join(4)
        assert late.is_alive()
        late.join()


@pytest.mark.parametrize("settled", [False, True])
def test_a_cancel_before_the_start_calls_nothing(settled: bool) -> None:
    called: list[int] = []
    with virtual_clock() as clock:
        late = dhaga.spawn_later(5, called.append, 1)
        if settled:
            settle()
        assert late.cancel("not needed")
        with pytest.raises(dhaga.Cancelled, match="not needed"):
            late.result()
        assert clock() == 0 and not called


def test_a_wake_starts_it_early() -> None:
    with virtual_clock() as clock:
        late = dhaga.spawn_later(5, clock)
        settle()
        assert late.wake() and late.result() == 0


def test_it_has_the_context_of_the_call() -> None:
    variable: ContextVar[int] = ContextVar("variable")
    with virtual_clock():
        variable.set(1)
        late = dhaga.spawn_later(1, variable.get)
        variable.set(2)
        assert late.result() == 1


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ((-1, int), ValueError, "must not be negative"),
        ((float("nan"), int), ValueError, "NaN"),
        (("1", int), TypeError, "seconds, a number, and not '1'"),
        ((1, 7), TypeError, "spawn_later needs a function to call"),
    ],
)
def test_nonsense_is_refused_at_once(arguments: Any, error: Any, text: str) -> None:
    with pytest.raises(error, match=text):
        dhaga.spawn_later(*arguments)


def test_nothing_is_left_whichever_park_is_struck() -> None:
    def scenario() -> tuple[dhaga.Dhaga, Any]:
        return dhaga.spawn_later(1, dhaga.sleep, 1), lambda: None

    assert cancel_at_every_park(scenario) == 2


def test_the_exit_waits_for_it_unless_it_is_a_daemon() -> None:
    code = """
        import dhaga
        dhaga.spawn_later(0.05, print, "in time")
        dhaga.spawn_later(60, print, "never", daemon=True)
    """
    assert prints(code) == ["in time"]
