"""Stacks: of parked dhagas and of OS threads, without the kernel's own frames."""

from __future__ import annotations

import sys
import threading

import dhaga
from dhaga._kernel import stacks
from dhaga.testing import settle, virtual_clock


def outer() -> None:
    inner()


def inner() -> None:
    dhaga.sleep(1)


def test_a_parked_dhaga_shows_its_own_calls_and_not_how_it_parks() -> None:
    with virtual_clock():
        d = dhaga.spawn(outer)
        settle()
        found = stacks.stack_of(d.gr_frame)
        d.join()
    assert [frame.function for frame in found] == ["outer", "inner"]
    assert found[-1].source == "dhaga.sleep(1)" and not found[-1].of_dhaga
    assert str(found[-1]).startswith(f"{__file__}:") and str(found[-1]).endswith(" in inner")


def test_no_frame_is_no_stack_and_a_deep_one_keeps_its_innermost_calls() -> None:
    def deep(calls: int) -> stacks.Stack:
        return deep(calls - 1) if calls else stacks.stack_of(sys._getframe())

    assert stacks.stack_of(None) == ()
    assert [frame.function for frame in deep(2 * stacks.MAX_FRAMES)] == ["deep"] * stacks.MAX_FRAMES


def test_each_os_thread_is_found_by_its_ident_with_the_place_that_it_is_at() -> None:
    go_on = threading.Event()
    thread = threading.Thread(target=go_on.wait)
    thread.start()
    found = stacks.stacks_of_threads()
    go_on.set()
    thread.join()
    assert thread.ident is not None
    assert "wait" in [frame.function for frame in found[thread.ident]]
    here = [frame.function for frame in found[threading.get_ident()]]
    assert "test_each_os_thread_is_found_by_its_ident_with_the_place_that_it_is_at" in here
