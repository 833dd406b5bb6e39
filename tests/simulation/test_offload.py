"""Offloaded calls of a simulation: a drawn duration, the pool's number of them at once, and cancels."""

from __future__ import annotations

import threading
import time

import pytest

import dhaga
from dhaga._workers.switch_interval import switch_interval
from dhaga.simulation import Simulation, search

pytestmark = pytest.mark.once


def test_a_pool_makes_as_many_calls_at_once_as_it_has_threads() -> None:
    def program() -> None:
        now, most = 0, 0

        def call(number: int) -> int:
            nonlocal now, most
            now += 1
            most = max(most, now)
            time.sleep(1)
            now -= 1
            return number

        pool = dhaga.OffloadPool("calls", threads=2)
        callers = [dhaga.spawn(pool.offload, call, number) for number in range(6)]
        assert [caller.result() for caller in callers] == list(range(6))
        assert most == 2
        pool.shutdown()

    findings = search(program, 20)
    assert not findings.failures, findings.failures[0].report


def test_a_timeout_ends_the_wait_of_a_caller_and_drops_a_call_that_has_not_begun() -> None:
    made: list[str] = []

    def call(name: str) -> None:
        made.append(name)
        time.sleep(10)

    with Simulation(1, preempt=None):
        pool = dhaga.OffloadPool("calls", threads=1)
        first = dhaga.spawn(pool.offload, call, "first")
        dhaga.sleep(1)
        began = time.monotonic()
        with pytest.raises(TimeoutError), dhaga.Timeout(2):
            pool.offload(call, "second")
        assert time.monotonic() - began == pytest.approx(2, abs=0.01)
        pool.shutdown()
        assert first.has_ended
        with pytest.raises(RuntimeError, match="takes no more calls"):
            pool.offload(call, "third")
    assert made == ["first"]


def test_a_call_of_a_pool_calls_its_pool_inline_and_passes_errors_on() -> None:
    with Simulation(1, preempt=None), dhaga.OffloadPool("calls", threads=1) as pool:
        names = pool.offload(lambda: (threading.current_thread().name, pool.offload(threading.current_thread).name))
        assert names == ("calls", "calls")
        with pytest.raises(ZeroDivisionError):
            pool.offload(divmod, 1, 0)


def test_a_call_cannot_wait_for_the_shutdown_of_its_own_pool() -> None:
    with Simulation(1, preempt=None), dhaga.OffloadPool("calls", threads=1) as pool:
        with pytest.raises(RuntimeError, match=r"shutdown\(wait=False\)"):
            pool.offload(pool.shutdown)
        pool.offload(pool.shutdown, wait=False)


def test_the_shared_pool_takes_a_drawn_duration_of_its_caller() -> None:
    durations = set()
    for seed in range(5):
        with Simulation(seed, preempt=None):
            began = time.monotonic()
            assert dhaga.offload(threading.current_thread) is threading.current_thread()
            durations.add(time.monotonic() - began)
    assert len(durations) == 5
    assert all(0 < each < 0.1 for each in durations)


def test_a_call_whose_host_is_killed_does_not_hasten_the_interpreter_for_ever() -> None:
    with Simulation(1, preempt=None) as world:
        host, pool = world.network.host("server"), dhaga.OffloadPool("calls", threads=1)
        for way in (pool.offload, pool.finish):
            host.spawn(way, time.sleep, 10)
        time.sleep(1)
        assert switch_interval.running_calls == [0, 0]
        host.kill()
    assert switch_interval.running_calls == [0, 0]


def test_real_threads_make_the_calls_again_after_a_simulation() -> None:
    pool = dhaga.OffloadPool("calls", threads=1)
    with Simulation(1, preempt=None):
        assert pool.offload(threading.get_native_id) == threading.get_native_id()
    assert pool.offload(threading.get_native_id) != threading.get_native_id()
    pool.shutdown()
