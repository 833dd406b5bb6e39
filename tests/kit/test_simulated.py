"""``pytest --dhaga-simulated``: it finds the bug of a missing line, with dhagas in place of OS threads."""

from __future__ import annotations

import pathlib
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from dhaga._kernel.wait.current import this_waiter
from dhaga._kernel.wait.waiter import TIMED_OUT
from dhaga.simulation import search
from dhaga.threading import Lock
from tests.kit.scripts import ROOT
from tests.kit.simulated_threads import SETTINGS

pytestmark = pytest.mark.once


class ForgetfulLock(Lock):
    """A lock whose waiters queue up, and do not check again whether it has become free."""

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        return super().acquire(blocking, timeout)

    __enter__ = acquire

    def _wait_for_hand_over(self, timeout: float | None) -> bool:
        me = this_waiter()
        me.prepare_park("lock.acquire", self._waiters)
        self._waiters.append(me.parked)
        return me.park_within(timeout) is not TIMED_OUT


def two_take(kind: Callable[[], Any]) -> None:
    lock = kind()

    def take() -> None:
        with lock:
            time.sleep(0)

    threads = [threading.Thread(target=take) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_a_waiter_that_does_not_check_again_is_found() -> None:
    [failure] = search(lambda: two_take(ForgetfulLock), 200, SETTINGS).failures
    assert failure.kind == "Deadlock" and "lock.acquire" in failure.report
    assert not search(lambda: two_take(Lock), 20, SETTINGS).failures


# ---- the list

TESTS = """
import threading

def count(lock):
    total = 0
    def add():
        nonlocal total
        for _ in range(5):
            with lock:
                seen = total
                total = seen + 1
    threads = [threading.Thread(target=add) for _ in range(2)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    assert total == 10

class NoLock:
    def __enter__(self): pass
    def __exit__(self, *_): pass

def test_locked(): count(threading.Lock())
def test_free(): count(NoLock())
"""


def run_listed(folder: pathlib.Path, *listed: str) -> tuple[int, str]:
    """Run two tests, of which the second has a race. Returns: the status and the output of pytest."""
    (folder / "test_some.py").write_text(TESTS)
    reasons = {f"test_some.py::{name}": "it has a race" for name in listed}
    code = f"""if True:
        import sys, pytest
        from tests.kit.simulated import Simulated
        options = ["-q", "-p", "no:cacheprovider", "--rootdir", {str(folder)!r}, "--confcutdir", {str(folder)!r}]
        sys.exit(pytest.main([*options, {str(folder)!r}], plugins=[Simulated(30, {reasons!r})]))
    """
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.long("runs pytest in processes")
def test_a_race_fails_unless_it_is_listed_and_a_listed_test_must_fail(tmp_path: pathlib.Path) -> None:
    status, text = run_listed(tmp_path)
    assert (status, "AssertionError at seed" in text, "1 failed, 1 passed" in text) == (1, True, True), text
    status, text = run_listed(tmp_path, "test_free")
    assert (status, "2 passed" in text) == (0, True), text
    status, text = run_listed(tmp_path, "test_free", "test_locked")
    assert (status, "lists it (it has a race), but it passes" in text) == (1, True), text


def test_a_listed_test_must_exist(tmp_path: pathlib.Path) -> None:
    status, text = run_listed(tmp_path, "test_gone")
    assert (status, "lists tests that do not exist: test_some.py::test_gone" in text) == (4, True), text
