"""The watchdog: who holds an OS thread is named, with the place."""

from __future__ import annotations

import contextlib
import logging
import os
import queue as standard_queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future as StandardFuture
from typing import Any

import pytest

import dhaga
from dhaga import debug
from tests.kit.scripts import prints


def hold(seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        pass


def wait_for(found: object, seconds: float = 10) -> None:
    until = time.monotonic() + seconds
    while not found and time.monotonic() < until:
        time.sleep(0.01)


def hold_until(found: dict[str, debug.Blocked]) -> None:
    wait_for(found)  # blocks the OS thread


@pytest.mark.logs
def test_who_holds_the_thread_is_named_with_the_place(caplog: pytest.LogCaptureFixture) -> None:
    with debug.watch(0.05) as watchdog:
        dhaga.spawn(hold_until, watchdog.blocked, name="hog").join()
    (seen,) = watchdog.blocked.values()
    assert (seen.count, seen.last) == (1, "hog")
    assert seen.longest >= 0.05
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    text = record.getMessage()
    assert text.startswith("hog has held MainThread for 0.")
    assert "in hold_until" in text and "hand what blocks to dhaga.offload()" in text
    assert "dhaga/_kernel" not in text


@pytest.mark.logs
@pytest.mark.parametrize(
    ("module", "wait", "face"),
    [
        ("queue", lambda found: until(found, lambda: standard_queue.Queue().get(timeout=0.05)), "queue"),
        ("threading", lambda found: until(found, lambda: threading.Event().wait(0.05)), "threading"),
        ("concurrent.futures", lambda found: until(found, lambda: StandardFuture().result(0.05)), "futures"),
    ],
)
def test_a_wait_in_a_standard_module_is_told_its_counterpart(
    caplog: pytest.LogCaptureFixture, module: str, wait: Any, face: str
) -> None:
    with debug.watch(0.03) as watchdog:
        dhaga.spawn(wait, watchdog.blocked).join()
    text = caplog.records[0].getMessage()
    assert f"it waits in the standard {module}, which blocks the OS thread: from dhaga import {face}, or run" in text
    assert "offload" not in text


def until(found: dict[str, debug.Blocked], wait: Callable[[], object]) -> None:
    """Wait, again and again, until the watchdog has found that."""
    deadline = time.monotonic() + 10
    while not found and time.monotonic() < deadline:
        with contextlib.suppress(standard_queue.Empty, TimeoutError):
            wait()


@pytest.mark.logs
def test_one_place_is_counted_once_a_hold() -> None:
    with debug.watch(0.02) as watchdog, dhaga.Scheduler(name="io") as io:
        for _ in range(2):
            io.spawn(hold, 0.2).join()
    assert {seen.count for seen in watchdog.blocked.values()} == {2}


def test_who_yields_or_parks_is_not_named() -> None:
    def yields() -> None:
        until = time.monotonic() + 0.2
        while time.monotonic() < until:
            dhaga.sleep(0)

    with debug.watch(0.05) as watchdog:
        dhagas = [dhaga.spawn(yields), dhaga.spawn(dhaga.sleep, 0.2)]
        for each in dhagas:
            each.join()
    assert watchdog.blocked == {}


def test_main_code_alone_is_not_named() -> None:
    dhaga.spawn(int).join()
    with debug.watch(0.02) as watchdog:
        hold(0.1)
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


@pytest.mark.parametrize("threshold", [0, -1, float("nan")])
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
