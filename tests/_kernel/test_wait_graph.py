"""The wait-for graph, as a deadlock report tells it: reasons, holders, places, circles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import dhaga
from dhaga.queue import Queue
from dhaga.testing import virtual_clock
from dhaga.threading import Event, Lock, RLock, Semaphore
from tests.kit.deadlocks import (
    all_lines_of,
    lines_of,
    quick_look,  # noqa: F401  (used by all of them)
)


def test_the_report_names_each_its_reason_what_it_waits_on_and_who_holds_that() -> None:
    first, second = Lock(), RLock()

    def takes(one: Any, other: Any) -> None:
        with one:
            dhaga.sleep(1)
            with other:
                pass

    with virtual_clock():
        a = dhaga.spawn(takes, first, second, name="a")
        b = dhaga.spawn(takes, second, first, name="b")
        assert lines_of(a.join) == [
            "main code: waits for join on <Dhaga a WAITING lock.acquire>",
            "a: waits for lock.acquire on <RLock held by b 1 times, 1 parked>",
            "b: waits for lock.acquire on <Lock held by a, 1 parked>",
        ]
        a.cancel()
        b.join()


def test_the_report_tells_where_each_stands_and_who_waits_in_a_circle() -> None:
    def joins(others: list[dhaga.Dhaga[None]]) -> None:
        dhaga.sleep(1)
        others[0].join()

    with virtual_clock():
        others: list[dhaga.Dhaga[None]] = []
        a = dhaga.spawn(joins, others, name="a")
        others.append(dhaga.spawn(a.join, name="b"))
        lines = all_lines_of(a.join)
        a.cancel()
        others[0].join()
    assert lines[2] == "a: waits for join on <Dhaga b WAITING join>"
    assert lines[3].endswith("in joins: others[0].join()")
    assert "test_wait_graph.py:" in lines[3]
    assert lines[-1] == "in a circle: a waits for b waits for a"


@pytest.mark.parametrize(
    ("reason", "wait"),
    [
        ("lock.acquire on <Lock held by main code, 1 parked>", lambda: (lock := Lock()).acquire() and lock.acquire()),
        ("semaphore.acquire on <Semaphore 0 free, 1 parked>", lambda: Semaphore(0).acquire()),
        ("event.wait on <Event unset, 1 parked>", lambda: Event().wait()),
        ("queue.get on <Queue of 0, 1 parked in get, 0 in put>", lambda: Queue().get()),
        ("nothing", lambda: dhaga.park("nothing")),
        ("x on [1, 2, 3]", lambda: dhaga.park("x", undo=[1, 2, 3].clear)),
    ],
)
def test_main_code_gets_it_at_any_wait_for_good(reason: str, wait: Callable[[], object]) -> None:
    with virtual_clock():
        dhaga.sleep(0)
        assert lines_of(wait) == [f"main code: waits for {reason}"]
        assert lines_of(wait) == [f"main code: waits for {reason}"]  # and again, after it was caught


def test_a_long_report_is_cut_and_a_failing_repr_does_no_harm() -> None:
    class Bad:
        def __repr__(self) -> str:
            raise ValueError

        def undo(self) -> None: ...

    with virtual_clock():
        dhagas = [dhaga.spawn(dhaga.park, "x", Bad().undo, name=f"d{n}") for n in range(150)]
        lines = lines_of(dhagas[-1].join)
        assert lines[1] == "d0: waits for x on <Bad, whose repr fails: ValueError>"
        assert lines[-2:] == ["d99: waits for x on <Bad, whose repr fails: ValueError>", "... and 50 more"]
        for d in dhagas:
            d.cancel()
            d.join()
