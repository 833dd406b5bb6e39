"""flock: who has to wait for a file lock parks, in the order of arrival, and holds nothing after a cancel."""

from __future__ import annotations

import fcntl
import os
import sys
import threading
from collections.abc import Callable
from fcntl import LOCK_EX, LOCK_NB, LOCK_SH, LOCK_UN
from pathlib import Path
from typing import IO, Any

import pytest

import dhaga
from dhaga._iowait.flock import PAUSES, flock, lines
from dhaga.testing import cancel_at_every_park, preempt_everywhere, settle, virtual_clock
from tests.kit.scripts import Program, prints


@pytest.fixture
def open_file(tmp_path: Path) -> Callable[[], IO[str]]:
    """Opens the same file anew at each call: flock locks the open file."""
    return lambda: (tmp_path / "lock").open("a+")


def is_free(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, LOCK_EX | LOCK_NB)
    except BlockingIOError:
        return False
    fcntl.flock(file, LOCK_UN)
    return True


Open = Callable[[], IO[str]]


def test_a_dhaga_waits_for_a_lock_that_another_of_its_thread_holds(open_file: Open) -> None:
    trace: list[object] = []

    def hold(n: int) -> None:
        with open_file() as file:
            flock(file, LOCK_EX)
            trace.append((n, "locks"))
            dhaga.sleep(1)
            trace.append((n, "unlocks"))
            flock(file.fileno(), LOCK_UN)

    with virtual_clock() as clock:
        first, *others = [dhaga.spawn(hold, n) for n in range(3)]
        settle()
        assert [each.state for each in others] == ["WAITING"] * 2
        for each in (first, *others):
            each.join()
        assert clock() == 3
    assert trace == [(n, what) for n in range(3) for what in ("locks", "unlocks")]


def test_who_unlocks_and_locks_again_queues_up_behind_those_who_wait(open_file: Open) -> None:
    trace: list[int] = []

    def lock_three_times(n: int) -> None:
        with open_file() as file:
            for _ in range(3):
                flock(file, LOCK_EX)
                trace.append(n)
                dhaga.sleep(1)
                flock(file, LOCK_UN)

    with virtual_clock():
        for each in [dhaga.spawn(lock_three_times, n) for n in range(3)]:
            each.join()
    assert trace == [0, 1, 2] * 3


def test_shared_locks_are_held_together_while_an_exclusive_one_waits(open_file: Open) -> None:
    trace: list[str] = []

    def lock(operation: int, name: str, seconds: float) -> None:
        with open_file() as file:
            flock(file, operation)
            trace.append(name)
            dhaga.sleep(seconds)

    with virtual_clock() as clock:
        dhagas = [dhaga.spawn(lock, LOCK_SH, "shared", 2)]
        settle()
        dhagas.append(dhaga.spawn(lock, LOCK_EX, "exclusive", 0))
        settle()
        dhagas.append(dhaga.spawn(lock, LOCK_SH, "another", 1))
        for each in dhagas:
            each.join()
        assert clock() < 2.1
    assert trace == ["shared", "another", "exclusive"]


def test_a_file_that_is_closed_releases_its_lock(open_file: Open) -> None:
    with virtual_clock() as clock:
        file = open_file()
        flock(file, LOCK_EX)
        with open_file() as other:
            waits = dhaga.spawn(flock, other, LOCK_EX)
            dhaga.sleep(1)
            file.close()
            waits.join()
            assert clock() <= 1 + PAUSES[1]
            with open_file() as third:
                assert not is_free(third)


@pytest.mark.parametrize("operation", [LOCK_EX, LOCK_SH])
def test_a_cancel_at_any_park_leaves_no_lock_and_no_line(open_file: Open, operation: int) -> None:
    def scenario() -> tuple[dhaga.Dhaga, Callable[[], object]]:
        def hold(kind: int) -> None:
            with open_file() as file:
                flock(file, kind)
                dhaga.sleep(0.002)
                flock(file, LOCK_UN)

        def check() -> None:
            assert not lines
            with open_file() as file:
                assert is_free(file)

        dhaga.spawn(hold, LOCK_EX)
        dhaga.spawn(hold, operation)
        victim = dhaga.spawn(hold, operation)
        dhaga.spawn(hold, LOCK_EX)
        return victim, check

    assert cancel_at_every_park(scenario) >= 2


def test_who_does_not_want_to_wait_gets_the_standard_error(open_file: Open) -> None:
    with open_file() as file, open_file() as other:
        flock(file, LOCK_EX)
        with pytest.raises(BlockingIOError):
            dhaga.spawn(flock, other, LOCK_EX | LOCK_NB).result()
        flock(file, LOCK_UN)
        dhaga.spawn(flock, other, LOCK_EX | LOCK_NB).join()
        assert not is_free(file)


@pytest.mark.parametrize("arguments", [(-1, LOCK_EX), ("lock", LOCK_EX), (0, "exclusive"), (0, 64), ()])
def test_misuse_raises_as_the_standard_function_does(arguments: tuple[Any, ...]) -> None:
    with pytest.raises(Exception) as ours:
        dhaga.spawn(flock, *arguments).result()
    with pytest.raises(type(ours.value)):
        fcntl.flock(*arguments)


def test_os_threads_and_dhagas_wait_for_each_other(open_file: Open) -> None:
    """A plain OS thread waits in C, and a dhaga polls for what it releases."""
    rounds: list[int] = []

    def count() -> None:
        with open_file() as file:
            for _ in range(20):
                flock(file, LOCK_EX)
                before = len(rounds)
                os.sched_yield()
                rounds.append(before)
                flock(file, LOCK_UN)

    threads = [threading.Thread(target=count) for _ in range(2)]
    for thread in threads:
        thread.start()
    for each in [dhaga.spawn(count) for _ in range(2)]:
        each.join()
    for thread in threads:
        dhaga.offload(thread.join)
    assert rounds == list(range(80))


def test_a_lock_of_another_process_is_waited_for_while_others_run(tmp_path: Path, open_file: Open) -> None:
    holder = Program(f"""
        import fcntl, signal
        file = open({str(tmp_path / "lock")!r}, "a+")
        fcntl.flock(file, fcntl.LOCK_EX)
        print("locked")
        signal.pause()
    """)
    assert holder.process.stdout is not None
    assert holder.process.stdout.readline() == "locked\n"
    with open_file() as file:
        waits = dhaga.spawn(flock, file, LOCK_EX)
        settle()
        assert waits.state == "WAITING"
        holder.process.kill()
        waits.join()
        holder.outcome()


@pytest.mark.skipif(sys.version_info < (3, 12), reason="sys.monitoring came with Python 3.12")
def test_a_turn_may_end_while_a_file_is_locked(open_file: Open) -> None:
    values = [0]

    def add() -> None:
        with open_file() as file:
            for _ in range(5):
                flock(file, LOCK_EX)
                before = values[0]
                values[0] = sum([before, 1])
                flock(file, LOCK_UN)

    with preempt_everywhere():
        for each in [dhaga.spawn(add) for _ in range(4)]:
            each.join()
    assert values == [20]


def test_the_patch_replaces_it_also_where_it_is_bound() -> None:
    assert prints("""
        from fcntl import flock
        import fcntl, dhaga._iowait.flock, dhaga.monkey
        dhaga.monkey.patch()
        print(flock is fcntl.flock is dhaga._iowait.flock.flock)
        dhaga.monkey.unpatch()
        print(flock is fcntl.flock is not dhaga._iowait.flock.flock)
    """) == ["True", "True"]
