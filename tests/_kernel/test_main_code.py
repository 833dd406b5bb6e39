"""The main code of a thread: it parks and is woken as a dhaga is, and says in which state it is."""

from __future__ import annotations

import sys

import pytest

import dhaga
from dhaga.testing import virtual_clock


def test_main_code_parks_and_is_woken_like_a_dhaga() -> None:
    trace: list[object] = []
    with virtual_clock() as clock:
        me = dhaga.current()
        assert dhaga.current() is me and not isinstance(me, dhaga.Dhaga)
        assert repr(me) == "<Main code of virtual RUNNING>"
        dhaga.spawn(lambda: (trace.append(repr(me)), dhaga.sleep(5), me.wake("by a dhaga")))
        assert dhaga.park("x") == "by a dhaga"
        assert trace == ["<Main code of virtual WAITING x>"] and clock() == 5
        with pytest.raises(TimeoutError):
            dhaga.park("x", timeout=3)
        assert clock() == 8


def test_system_exit_goes_to_the_main_code_at_its_park() -> None:
    with virtual_clock():
        dhaga.spawn(sys.exit, 3)
        with pytest.raises(SystemExit) as info:
            dhaga.sleep(1000)
        assert info.value.code == 3
        dhaga.sleep(1)  # told once


def test_a_wake_before_the_timeout_takes_the_timeout_away() -> None:
    with virtual_clock() as clock:
        me = dhaga.current()
        dhaga.spawn(lambda: (dhaga.sleep(1), me.wake(1)))
        assert dhaga.park("x", timeout=2) == 1
        assert repr(me) == "<Main code of virtual RUNNING>"
        dhaga.sleep(5)
        assert clock() == 6
