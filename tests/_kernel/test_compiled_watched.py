"""A program takes the same course under profilers, trace functions and monitoring, which see its functions."""

from __future__ import annotations

import contextlib
import cProfile
import pstats
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import dhaga
from dhaga import queue, socket, threading
from dhaga.testing import virtual_clock

Seen = Callable[[], object]
"""Returns whether the watcher has seen ``note``."""


def note(course: list[str], *what: object) -> None:
    course.append(" ".join(map(str, what)))


def course_of_a_program() -> list[str]:
    """Use each compiled primitive, contended and uncontended. Returns: the events in their order."""
    course: list[str] = []
    lock, rlock, permits = threading.Lock(), threading.RLock(), threading.BoundedSemaphore(2)
    condition, event, items, simple = (
        threading.Condition(),
        threading.Event(),
        queue.Queue[int](2),
        queue.SimpleQueue[int](),
    )

    def contend(n: int) -> None:
        for each in (lock, rlock, permits):
            with each:
                dhaga.sleep(0)
                note(course, n, "has", type(each).__name__)
        with condition:
            note(course, n, "notified", condition.wait(n + 1))
        event.wait(1)
        items.put(n)
        note(course, n, "slept", dhaga.sleep(0.1 * n), simple.get(timeout=5))

    def receive() -> None:
        while data := near.recv(3):
            note(course, "received", data)

    with virtual_clock(), contextlib.ExitStack() as sockets:
        near, far = map(sockets.enter_context, socket.socketpair())
        dhagas = [dhaga.spawn(contend, n) for n in range(4)]
        receiver = dhaga.spawn(receive)
        dhaga.sleep(0.5)
        with condition:
            condition.notify(2)
        note(course, "set", event.set())
        for _ in range(4):
            number = items.get()
            note(course, "got", number)
            simple.put(number * 10)
            far.sendall(b"%d...." % number)
        far.shutdown(socket.SHUT_WR)
        for each in [*dhagas, receiver]:
            note(course, "joined", each.join())
    return course


@contextlib.contextmanager
def profiled() -> Iterator[Seen]:
    profile = cProfile.Profile()
    with profile:
        yield lambda: any(name == "note" for _, _, name in pstats.Stats(profile).stats)  # type: ignore[attr-defined]


@contextlib.contextmanager
def profile_function() -> Iterator[Seen]:
    names = set()
    sys.setprofile(lambda frame, event, argument: names.add(frame.f_code.co_name))
    try:
        yield lambda: "note" in names
    finally:
        sys.setprofile(None)


@contextlib.contextmanager
def trace_function() -> Iterator[Seen]:
    names, former = set(), sys.gettrace()

    def trace(frame: Any, event: str, argument: object) -> Any:
        names.add(frame.f_code.co_name)
        return trace

    sys.settrace(trace)
    try:
        yield lambda: "note" in names
    finally:
        sys.settrace(former)


@contextlib.contextmanager
def monitored() -> Iterator[Seen]:
    monitoring: Any = getattr(sys, "monitoring", None)
    if monitoring is None:
        pytest.skip("sys.monitoring came with Python 3.12")
    names, tool, events = set(), 4, monitoring.events
    monitoring.use_tool_id(tool, "test")
    for event in (events.PY_START, events.PY_RETURN, events.CALL, events.LINE, events.JUMP, events.RAISE):
        monitoring.register_callback(tool, event, lambda code, *_: names.add(code.co_name))
    monitoring.set_events(
        tool, events.PY_START | events.PY_RETURN | events.CALL | events.LINE | events.JUMP | events.RAISE
    )
    try:
        yield lambda: "note" in names
    finally:
        monitoring.free_tool_id(tool)


@pytest.mark.parametrize("watch", [profiled, profile_function, trace_function, monitored])
def test_a_program_takes_the_same_course_while_it_is_watched(watch: Any) -> None:
    expected = course_of_a_program()
    with watch() as seen:
        course = course_of_a_program()
    assert course == expected
    assert len(expected) > 30
    assert seen()
    assert course_of_a_program() == expected
