"""A wait in C while dhagas are runnable is reported, once for each place."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest

import dhaga
from dhaga import testing
from dhaga._kernel import originals
from dhaga._kernel.process import preemption_watcher, stalls


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Report after two looks. The share leaves room for a busy machine, where the wait has hardly begun."""
    monkeypatch.setattr(stalls, "SECONDS", 0.02)
    monkeypatch.setattr(stalls, "LEAST_LOOKS", 2)
    monkeypatch.setattr(stalls, "STILL_SHARE", 0.5)
    monkeypatch.setattr(stalls, "reported", set())
    yield
    preemption_watcher.turn_off()


class ReleaseAtLog(logging.Handler):
    """Ends the wait when the wait is reported."""

    def __init__(self, lock: Any) -> None:
        super().__init__()
        self.awaited = lock
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())
        self.awaited.release()


def wait_in_c(lock: Any) -> None:
    assert lock.acquire(timeout=60), "it was not reported"


@pytest.mark.logs
def test_a_wait_in_c_beside_runnable_dhagas_is_logged_with_its_stack(
    quick: None,
) -> None:
    lock = originals.allocate_lock()
    lock.acquire()
    handler = ReleaseAtLog(lock)
    stalls.logger.addHandler(handler)
    try:
        with dhaga.Scheduler(preempt=0.002, name="stalled") as scheduler:
            waits = scheduler.spawn(lambda: (scheduler.spawn(int), wait_in_c(lock)))
            waits.join()
            waits.result()
    finally:
        stalls.logger.removeHandler(handler)
    (text,) = handler.lines
    assert text.startswith("stalled has waited in C for ")
    assert "(runnable dhagas: 1)" in text
    assert "in wait_in_c\n      assert lock.acquire(timeout=60)" in text


def test_a_wait_in_c_without_rivals_is_not_logged(quick: None) -> None:
    lock = originals.allocate_lock()
    lock.acquire()
    with dhaga.Scheduler(preempt=0.002) as scheduler:
        scheduler.spawn(lock.acquire, timeout=0.1).join()
    assert not stalls.reported


def test_a_place_is_reported_once(quick: None, monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[object] = []
    monkeypatch.setattr(stalls, "log", lambda *args: lines.append(args))
    with dhaga.Scheduler() as scheduler:

        def look() -> None:
            scheduler.spawn(int)
            for _ in range(2):
                stalls.report(scheduler, scheduler.heartbeat(), 5.0)

        scheduler.spawn(look).result()
    for thread in testing.other_threads():
        if thread.name == "dhaga-stall":
            thread.join()
    assert len(lines) == 1
