"""The cause of a block: computing is told from a wait in C, and a wait for a standard lock from other ones."""

from __future__ import annotations

import ctypes
import logging
import queue as standard_queue
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import dhaga
from dhaga import debug
from dhaga._kernel.helper_threads import wait_until_gone
from dhaga._kernel.process.current_scheduler import current_scheduler
from dhaga._kernel.stacks import Frame
from dhaga.debug._block_cause import ThreadUse, advice_for, run_delay, waits_for_futex
from tests.kit.socket_cases import eventually
from tests.kit.watchdogs import records_of

OFFLOAD = "pass the call to dhaga.offload()"
COUNTERPART = "which blocks the OS thread: from dhaga import {}, or run the program with python -m dhaga"


def advice_at(path: Path, line: str, share: float | None, futex: bool | None) -> str:
    """Return the advice about a block at a line of a program."""
    program = path / "program.py"
    program.write_text(f"{line}\n")
    return advice_for((Frame(str(program), 1, "work"),), share, futex)


@pytest.mark.parametrize(
    "line", ["with lock:", "with self.lock: pass", "lock.acquire()", "if not lock.acquire(timeout=5):"]
)
@pytest.mark.parametrize("futex", [True, None])
def test_a_wait_for_a_standard_lock_is_told_to_import_threading(tmp_path: Path, line: str, futex: bool | None) -> None:
    advice = advice_at(tmp_path, line, 0.0, futex)
    assert advice == f"it waits for a standard lock, {COUNTERPART.format('threading')}"


@pytest.mark.parametrize(
    ("line", "futex", "thing", "face"),
    [
        ("item = todo.get()", True, "for a standard queue", "queue"),
        ("time.sleep(5)", False, "in the standard time.sleep", "time"),
        ("sleep(5)", True, "in the standard time.sleep", "time"),  # it waits for the interpreter lock at this moment
        ("data = sock.recv(100)", None, "in the standard socket", "socket"),
        ("ready, _, _ = select.select([sock], [], [])", False, "in the standard select", "select"),
    ],
)
def test_a_wait_in_c_of_a_standard_module_is_told_its_counterpart(
    tmp_path: Path, line: str, futex: bool | None, thing: str, face: str
) -> None:
    assert advice_at(tmp_path, line, 0.01, futex) == f"it waits {thing}, {COUNTERPART.format(face)}"


@pytest.mark.parametrize("line", ["cursor.execute(query)", "with connect(place) as connection:", "with lock:"])
def test_any_other_wait_in_c_is_told_to_be_offloaded(tmp_path: Path, line: str) -> None:
    assert advice_at(tmp_path, line, 0.0, False) == f"it waits in C, which blocks the OS thread: {OFFLOAD}"


def test_an_unknown_lock_is_told_both_cures() -> None:
    advice = advice_for((), 0.0, True)
    assert "if it is a standard lock, from dhaga import threading" in advice and OFFLOAD in advice


@pytest.mark.parametrize(
    ("share", "said"), [(0.9, "it computes: call dhaga.sleep(0) now and then"), (0.2, ""), (None, "")]
)
def test_what_computes_is_told_to_yield_and_a_doubtful_case_gets_both_cures(
    tmp_path: Path, share: float | None, said: str
) -> None:
    advice = advice_at(tmp_path, "with lock:", share, True)
    assert advice.startswith(said or "pass blocking calls to dhaga.offload(), or call dhaga.sleep(0)")


def test_a_thread_that_computes_is_told_from_one_that_sleeps() -> None:
    dhaga.spawn(int).join()
    scheduler = current_scheduler()
    began, use = time.thread_time(), ThreadUse(scheduler)
    use.begin_delay()
    while (computed := time.thread_time() - began) < 0.05:
        pass
    assert (use.share(computed) or 0) > 0.9
    asleep = ThreadUse(scheduler)
    asleep.begin_delay()
    time.sleep(0.2)
    delayed = run_delay(asleep.native_id)  # a busy machine lets it wait after its sleep as well
    assert (asleep.share(0.2) or 0) < 0.5 + delayed / 0.2


def record_of_wait(caplog: pytest.LogCaptureFixture, wait: Callable[[], Any], end: Callable[[], Any]) -> Any:
    """Return what a watchdog logs about a dhaga that waits until it is named."""
    named = len(records_of(caplog, "waiter"))

    def end_when_named() -> None:
        try:
            eventually(lambda: len(records_of(caplog, "waiter")) > named, 60)
        finally:
            end()

    ender = threading.Thread(target=end_when_named)
    ender.start()
    dhaga.spawn(wait, name="waiter").join()
    ender.join()
    return records_of(caplog, "waiter")[-1]


@pytest.mark.logs
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells what a thread waits for")
@pytest.mark.parametrize(
    ("make", "wait", "end", "face"),
    [
        (threading.Lock, lambda lock: lock.acquire(), lambda lock: lock.release(), "threading"),
        (standard_queue.SimpleQueue, lambda queue: queue.get(), lambda queue: queue.put(1), "queue"),
    ],
)
def test_the_watchdog_names_the_cure_for_what_waits_in_c(
    caplog: pytest.LogCaptureFixture, make: Callable[[], Any], wait: Any, end: Any, face: str
) -> None:
    cures = COUNTERPART.format(face), "if it is a standard lock"
    with debug.watch(0.1):
        for _ in range(10):
            thing = make()
            if face == "threading":
                thing.acquire()
            record = record_of_wait(caplog, partial(wait, thing), partial(end, thing))
            if any(cure in record.getMessage() for cure in cures):  # on a busy machine the watchdog may be in doubt
                break
    assert any(cure in record.getMessage() for cure in cures)
    assert record.levelno == logging.WARNING


def test_a_thread_that_has_ended_waits_for_nothing() -> None:
    thread = threading.Thread(target=int)
    thread.start()
    thread.join()
    wait_until_gone(thread.native_id)
    assert waits_for_futex(thread.native_id) is None and run_delay(thread.native_id) == 0.0
    assert waits_for_futex(None) is None


@pytest.mark.logs
def test_the_watchdog_tells_a_wait_in_a_c_library_from_computing(caplog: pytest.LogCaptureFixture) -> None:
    libc = ctypes.CDLL(None)

    def is_told() -> bool:
        texts = [record.getMessage() for record in list(caplog.records)]
        return any(OFFLOAD in text and "sleep(0)" not in text for text in texts)

    def block() -> None:
        for _ in range(100):
            if not is_told():  # on a busy machine the watchdog may be in doubt
                libc.usleep(300_000)
                dhaga.sleep(0)

    with debug.watch(0.1):
        dhaga.spawn(block, name="blocks").join()
    assert is_told()
