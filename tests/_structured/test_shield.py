"""The shield: no cancel from outside comes into its block."""

from __future__ import annotations

from typing import Any

import pytest

import dhaga
from dhaga import Cancelled, Scope, move_on_after, shield
from dhaga.testing import settle, virtual_clock
from tests.kit.scopes import works


def test_a_shield_holds_off_what_comes_from_outside_until_its_end() -> None:
    trace: list[Any] = []

    def shielded() -> None:
        with shield():
            dhaga.sleep(5)
            trace.append(clock())
        trace.append("no park yet")
        dhaga.sleep(1)
        trace.append("never")

    with virtual_clock() as clock:
        d = dhaga.spawn(shielded)
        dhaga.sleep(1)
        d.cancel("plain")
        with pytest.raises(Cancelled, match="plain"):
            d.result()
        with move_on_after(1):
            shielded()
        with pytest.raises(TimeoutError), dhaga.Timeout(1):
            shielded()
        with Scope() as scope:
            scope.spawn(shielded)
            dhaga.sleep(1)
            scope.cancel()
    assert trace == [5, "no park yet", 10, "no park yet", 15, "no park yet", 20, "no park yet"]


def test_what_is_entered_within_a_shield_works() -> None:
    with virtual_clock() as clock:
        with move_on_after(1) as outer:
            with shield():
                with move_on_after(3) as scope:
                    dhaga.sleep(100)
                assert clock() == 3 and scope.cancelled_caught
                with pytest.raises(TimeoutError), dhaga.Timeout(2):
                    dhaga.sleep(100)
                assert clock() == 5
                with shield(), shield():
                    dhaga.sleep(1)
                dhaga.sleep(1)
            dhaga.sleep(1)
        assert clock() == 7 and outer.cancelled_caught


def test_a_shield_within_a_timeout_within_a_shield() -> None:
    with virtual_clock() as clock:
        with move_on_after(1) as outer:
            with shield():
                with pytest.raises(TimeoutError):
                    with dhaga.Timeout(2):
                        with shield():
                            dhaga.sleep(4)
                        dhaga.sleep(1)
                assert clock() == 4
                with dhaga.Timeout(1):
                    with shield():
                        dhaga.sleep(4)
                dhaga.sleep(1)  # of the second Timeout nothing is left
            assert clock() == 9
            dhaga.sleep(1)
        assert outer.cancelled_caught


def test_a_shield_in_a_finally_lets_it_park_in_a_cancelled_scope() -> None:
    trace: list[Any] = []

    def child() -> None:
        try:
            dhaga.sleep(100)
        finally:
            with shield():
                dhaga.sleep(1)
                trace.append("put away")
            dhaga.sleep(1)
            trace.append("never")

    with virtual_clock() as clock:
        with Scope() as scope:
            scope.spawn(child)
            settle()
            scope.cancel()
        assert clock() == 1 and trace == ["put away"]


def test_ctrl_c_and_exits_are_not_held_off() -> None:
    with virtual_clock() as clock:
        dhaga.spawn(works, 1, [], KeyboardInterrupt())
        with pytest.raises(KeyboardInterrupt), shield():
            dhaga.sleep(100)
        assert clock() == 1
