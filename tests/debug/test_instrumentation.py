"""Observers of schedulers that begin, end, and share a thread."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import greenlet
import pytest

import dhaga
from dhaga import debug
from dhaga._kernel import hooks
from dhaga.debug import _instrumentation
from dhaga.testing import virtual_clock
from tests.debug import chrome


@pytest.fixture(autouse=True)
def nobody_is_told() -> Iterator[None]:
    """Nothing is left in place when a trace is over."""
    yield
    assert hooks.on_wake is None
    assert greenlet.gettrace() is None
    _instrumentation.hubs.clear()  # the main thread's greenlet was a guest's hub, and a later trace would name it so


def test_a_trace_begun_before_there_is_a_scheduler_has_all_that_come(tmp_path: Path) -> None:
    with debug.trace(tmp_path / "trace.json"):
        with virtual_clock():
            dhaga.spawn(dhaga.sleep, 1, name="first").join()
        with dhaga.Scheduler("io") as io:
            io.spawn(dhaga.sleep, 0.001, name="second").join()

        async def host() -> None:
            await dhaga.spawn(dhaga.sleep, 0.001, name="third")

        asyncio.run(host())
    picture = chrome.read(tmp_path / "trace.json")
    assert {"first", "second", "third", "hub of virtual", "hub of io"} <= set(picture.tracks)
    for name in ("first", "second", "third"):
        assert picture.names(name) == ["running", "sleep", "running"]


def test_a_scheduler_that_ends_within_a_trace_leaves_its_thread_as_it_was() -> None:
    async def host() -> object:
        await dhaga.spawn(dhaga.sleep, 0)
        return greenlet.gettrace()

    assert dhaga._kernel.wait.current.this_thread.main is None
    with debug.trace():
        assert asyncio.run(host()) is not None
        assert greenlet.gettrace() is None
    _instrumentation.hubs.clear()  # the main thread's greenlet was a guest's hub, and a later trace would name it so


def test_schedulers_of_one_thread_are_noted_once_each_switch() -> None:
    async def host() -> None:
        for _ in range(3):
            await dhaga.spawn(dhaga.sleep, 0)

    dhaga.spawn(int).join()
    with debug.trace() as trace:
        asyncio.run(host())
    times = [note[0] for note in trace._records if note[3] is not None]
    switches = [(note[1], note[2]) for note in trace._records if note[3] is not None]
    assert all(one[1] is other[0] for one, other in pairwise(switches))
    assert times == sorted(times)


def test_one_trace_in_another_writes_its_part(tmp_path: Path) -> None:
    with virtual_clock(), debug.trace(tmp_path / "outer.json"):
        dhaga.spawn(dhaga.sleep, 1, name="before").join()
        with debug.trace(tmp_path / "inner.json"):
            dhaga.spawn(dhaga.sleep, 1, name="within").join()
        dhaga.spawn(dhaga.sleep, 1, name="after").join()
    outer, inner = (chrome.read(tmp_path / f"{name}.json") for name in ("outer", "inner"))
    assert {"before", "within", "after"} & set(outer.tracks) == {"before", "within", "after"}
    assert {"before", "within", "after"} & set(inner.tracks) == {"within"}
