"""The watchdog: who holds an OS thread is named, with the place."""

from __future__ import annotations

import logging
import os
import queue as standard_queue
import re
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future as StandardFuture
from typing import Any

import pytest

import dhaga
from dhaga import debug
from tests.kit.scripts import prints
from tests.kit.watchdogs import records_of


def wait_for(found: object, seconds: float = 30) -> None:
    until = time.monotonic() + seconds
    while not found and time.monotonic() < until:
        time.sleep(0.01)


class Named:
    """True once a watchdog has named a dhaga. On a busy machine, the main code may be named before."""

    def __init__(self, watchdog: debug.Watchdog, name: str) -> None:
        self.watchdog, self.name = watchdog, name

    def __bool__(self) -> bool:
        return any(seen.last == self.name for seen in list(self.watchdog.blocked.values()))


def hold_until(found: object) -> None:
    wait_for(found)  # blocks the OS thread


@pytest.mark.logs
def test_who_holds_the_thread_is_named_with_the_place(caplog: pytest.LogCaptureFixture) -> None:
    with debug.watch(0.05) as watchdog:
        dhaga.spawn(hold_until, Named(watchdog, "hog"), name="hog").join()
    (seen,) = (seen for seen in watchdog.blocked.values() if seen.last == "hog")
    assert seen.count == 1
    assert seen.longest >= 0.05
    (record,) = records_of(caplog, "hog")
    assert record.levelno == logging.WARNING
    text = record.getMessage()
    assert re.match(r"hog has held MainThread for \d+\.\d{3} s: ", text)
    assert "in hold_until" in text and ("from dhaga import time" in text or "dhaga.offload()" in text)
    assert "dhaga/_kernel" not in text


@pytest.mark.logs
@pytest.mark.parametrize(
    ("module", "make", "wait", "end", "face"),
    [
        ("queue", standard_queue.Queue, lambda queue: queue.get(timeout=30), lambda queue: queue.put(1), "queue"),
        ("threading", threading.Event, lambda event: event.wait(30), lambda event: event.set(), "threading"),
        ("concurrent.futures", StandardFuture, lambda f: f.result(30), lambda f: f.set_result(1), "futures"),
    ],
)
def test_a_wait_in_a_standard_module_is_told_its_counterpart(
    caplog: pytest.LogCaptureFixture, module: str, make: Any, wait: Any, end: Any, face: str
) -> None:
    thing = make()
    with debug.watch(0.03) as watchdog:
        ender = threading.Thread(target=lambda: (wait_for(Named(watchdog, "waiter")), end(thing)))
        ender.start()
        dhaga.spawn(wait, thing, name="waiter").join()
        ender.join()
    text = records_of(caplog, "waiter")[0].getMessage()
    assert f"it waits in the standard {module}, which blocks the OS thread: from dhaga import {face}, or run" in text
    assert "offload" not in text


def hold_for_looks(watchdog: debug.Watchdog, looks: int) -> None:
    """Hold the OS thread until the watchdog has looked that often meanwhile: in this frame alone, which it names."""
    last = watchdog._looks + looks
    until = time.monotonic() + 30
    while watchdog._looks < last and time.monotonic() < until:
        time.sleep(0.001)


@pytest.mark.logs
def test_one_place_is_counted_once_a_hold() -> None:
    with debug.watch(0.02) as watchdog, dhaga.Scheduler(name="io") as io:
        for _ in range(2):
            io.spawn(hold_for_looks, watchdog, 10).join()
    assert [seen.count for seen in watchdog.blocked.values()] == [2]


def looks(watchdog: debug.Watchdog, pause: Callable[[], object]) -> None:
    """Make the watchdog's looks in its place, at moments that are an hour apart each, with pauses in between."""
    for hour in range(5):
        watchdog._look(hour * 3600.0)
        pause()


@pytest.mark.logs
@pytest.mark.parametrize(
    ("pause", "named"), [(lambda: None, True), (lambda: dhaga.sleep(0), False), (lambda: dhaga.sleep(0.001), False)]
)
def test_only_who_neither_yields_nor_parks_is_named(pause: Callable[[], object], named: bool) -> None:
    with debug.watch(1000) as watchdog:
        dhaga.spawn(looks, watchdog, pause).join()
    assert bool(watchdog.blocked) is named


def test_a_scheduler_that_sleeps_is_not_named() -> None:
    event = dhaga.threading.Event()
    with debug.watch(1000) as watchdog, dhaga.Scheduler(name="io") as io:
        waiter = io.spawn(event.wait)
        while not (waiter.parked and io.asleep):
            time.sleep(0.001)
        looks(watchdog, lambda: None)
        event.set()
        waiter.join()
    assert watchdog.blocked == {}


def test_main_code_alone_is_not_named() -> None:
    dhaga.spawn(int).join()
    with debug.watch(0.02) as watchdog:
        hold_for_looks(watchdog, 10)
    assert watchdog.blocked == {}


def test_another_call_takes_the_place_of_the_first() -> None:
    first = debug.watch(10)
    second = debug.watch(20)
    assert not first._thread.is_alive()
    second.stop()
    second.stop()
    assert not second._thread.is_alive()


def test_a_deadlock_is_found_beside_a_watchdog() -> None:
    with debug.watch(0.05), pytest.raises(dhaga.Deadlock):
        dhaga.park("for ever")


@pytest.mark.parametrize("threshold", [0, -1, float("nan"), float("inf")])
def test_a_threshold_is_above_zero(threshold: float) -> None:
    with pytest.raises(ValueError, match="above 0"):
        debug.watch(threshold)


def test_a_child_is_watched_too() -> None:
    with debug.watch(5) as watchdog:
        child = os.fork()
        if not child:
            os._exit(0 if watchdog._thread.is_alive() else 1)
        assert os.waitpid(child, 0)[1] == 0


def test_it_gets_the_interpreter_lock_soon_and_only_as_long_as_it_looks() -> None:
    """In a process of its own: a call whose caller's loop was closed keeps the interval short in this one."""
    assert prints("""
        import sys
        from dhaga import debug
        before = sys.getswitchinterval()
        with debug.watch(0.1):
            print(sys.getswitchinterval() <= 0.000_1)
            with debug.watch(0.1):
                pass
        print(sys.getswitchinterval() == before)
    """) == ["True", "True"]
