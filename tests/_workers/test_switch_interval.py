"""While a call is under way, threads that wait for the interpreter lock ask for it sooner: at once for a HIGH dhaga."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import dhaga
from dhaga import HIGH, LOW, OffloadPool
from dhaga._workers.switch_interval import OFFLOAD_INTERVAL, URGENT_INTERVAL, SwitchInterval
from tests.kit.scripts import prints

USUAL = 0.005


@pytest.fixture(autouse=True)
def usual() -> Iterator[None]:
    sys.setswitchinterval(USUAL)
    yield
    sys.setswitchinterval(USUAL)  # not what it was: a call of another test may have been under way then


def now() -> float:
    return pytest.approx(sys.getswitchinterval())


@pytest.mark.parametrize(
    ("priority", "interval"), [(HIGH, URGENT_INTERVAL), (dhaga.NORMAL, OFFLOAD_INTERVAL), (LOW, OFFLOAD_INTERVAL)]
)
def test_the_interval_is_shorter_while_a_call_is_under_way(priority: dhaga.Priority, interval: float) -> None:
    with OffloadPool("test", threads=1) as pool:
        caller = dhaga.spawn(pool.offload, sys.getswitchinterval, priority=priority)
        assert caller.result() == pytest.approx(interval)
    assert now() == USUAL


def test_the_most_urgent_call_decides_and_each_ends_its_own_part() -> None:
    gates = [threading.Lock() for _ in range(3)]
    trace = [sys.getswitchinterval()]
    with OffloadPool("test", threads=3) as pool:
        callers = []
        for gate, priority in zip(gates, (dhaga.NORMAL, HIGH, HIGH), strict=True):
            gate.acquire()
            callers.append(dhaga.spawn(pool.offload, gate.acquire, priority=priority))
            dhaga.sleep(0)
            trace.append(sys.getswitchinterval())
        for which in (1, 2, 0):
            gates[which].release()
            callers[which].join()
            trace.append(sys.getswitchinterval())
    assert trace == pytest.approx(
        [USUAL, OFFLOAD_INTERVAL, URGENT_INTERVAL, URGENT_INTERVAL, URGENT_INTERVAL, OFFLOAD_INTERVAL, USUAL]
    )


def test_a_call_that_fails_or_whose_caller_is_let_go_ends_its_part() -> None:
    gate = threading.Lock()
    gate.acquire()
    with OffloadPool("test", threads=1) as pool:
        with pytest.raises(ZeroDivisionError):
            pool.offload(lambda: 1 // 0)
        assert now() == USUAL
        with pytest.raises(TimeoutError), dhaga.Timeout(0.001):
            pool.offload(gate.acquire)
        assert now() == USUAL
        gate.release()


def test_it_is_the_usual_one_when_a_call_returns_though_its_thread_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    main, adjust = threading.main_thread(), SwitchInterval.adjust

    def adjust_late(self: SwitchInterval) -> None:
        if threading.current_thread() is not main:
            time.sleep(0.02)
        adjust(self)

    def keeps_the_scheduler_awake() -> None:
        while not ended:
            dhaga.sleep(0)

    ended: list[bool] = []
    awake = dhaga.spawn(keeps_the_scheduler_awake)
    monkeypatch.setattr(SwitchInterval, "adjust", adjust_late)
    found = []
    for _ in range(5):
        dhaga.offload(int)
        found.append(sys.getswitchinterval())
    ended.append(True)
    awake.join()
    assert found == pytest.approx([USUAL] * 5)


def test_a_plain_threads_call_is_hastened_too() -> None:
    found: list[float] = []
    with OffloadPool("test", threads=1) as pool:
        thread = threading.Thread(target=lambda: found.append(pool.offload(sys.getswitchinterval)))
        thread.start()
        dhaga.offload(thread.join)
    assert found == [pytest.approx(OFFLOAD_INTERVAL)]


@pytest.mark.parametrize("short", [URGENT_INTERVAL / 2, 1e-7])
def test_an_interval_that_is_short_already_stays(short: float) -> None:
    sys.setswitchinterval(short)
    shown = sys.getswitchinterval()  # what is below 1 µs is shown as 0, which cannot be set
    assert (dhaga.offload(sys.getswitchinterval), sys.getswitchinterval()) == (shown, shown)


def test_what_the_program_sets_meanwhile_is_what_it_gets_afterwards() -> None:
    dhaga.offload(sys.setswitchinterval, 0.003)
    assert now() == 0.003
    dhaga.offload(int)
    assert now() == 0.003


def test_a_forked_child_has_no_call_of_its_parents_under_way() -> None:
    program = """
        import os, sys, threading
        import dhaga
        gate = threading.Lock()
        gate.acquire()
        caller = dhaga.spawn(dhaga.offload, gate.acquire)
        dhaga.sleep(0)
        print(round(sys.getswitchinterval(), 6), flush=True)
        child = os.fork()
        if not child:
            print(round(sys.getswitchinterval(), 6), dhaga.offload(int), round(sys.getswitchinterval(), 6), flush=True)
            os._exit(0)
        os.waitpid(child, 0)
        gate.release()
        caller.join()
        print(round(sys.getswitchinterval(), 6))
    """
    assert prints(program, "-W", "ignore::DeprecationWarning") == ["0.0001", "0.005 0 0.005", "0.005"]


@pytest.mark.skipif(not os.access("/proc/self/timerslack_ns", os.W_OK), reason="no timer slack to be set")
def test_the_threads_of_a_pool_wait_without_slack() -> None:
    def slack() -> str:
        return Path(f"/proc/{threading.get_native_id()}/timerslack_ns").read_text().strip()

    with OffloadPool("test", threads=1) as pool:
        before = slack()
        pool.offload(int)  # the first caller does not wait for it
        assert (pool.offload(slack), slack()) == ("1", before)
