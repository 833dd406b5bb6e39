"""Preemption beside priorities, a crowd, and tools that follow the program's events: each keeps its purpose."""

from __future__ import annotations

import cProfile
import pstats
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

import dhaga
from dhaga._kernel.process import preemption_watcher
from tests.kit.scripts import prints

CROWD = 100
"""A thousand also pass, but take 15 s: each computes for a whole turn before the first one goes on."""

pytestmark = pytest.mark.skipif(sys.version_info < (3, 12), reason="sys.monitoring came with Python 3.12")


def computing(ended: list[int]) -> Callable[[], int]:
    """Return a function that computes until the list has something."""

    def compute() -> int:
        rounds = 0
        while not ended:
            rounds += 1
        return rounds

    return compute


def rest(ended: list[int]) -> None:
    """Sleep three times, and end the computing dhagas."""
    for _ in range(3):
        dhaga.sleep(0.001)
    ended.append(1)


# ---- priorities and crowds


@pytest.mark.parametrize("computes", list(dhaga.Priority))
@pytest.mark.parametrize("sleeps", list(dhaga.Priority))
def test_no_priority_keeps_the_turn_from_another(
    preemptive: dhaga.Scheduler, computes: dhaga.Priority, sleeps: dhaga.Priority
) -> None:
    ended: list[int] = []
    busy = [preemptive.spawn(computing(ended), priority=computes) for _ in range(2)]
    preemptive.spawn(rest, ended, priority=sleeps)
    assert all(each.result() for each in busy)
    assert preemptive.preemptions


def test_a_crowd_that_compute_let_one_that_sleeps_run(preemptive: dhaga.Scheduler) -> None:
    ended: list[int] = []
    busy = [preemptive.spawn(computing(ended)) for _ in range(CROWD)]
    preemptive.spawn(rest, ended)
    begun = [each.result() for each in busy]
    assert len(begun) == CROWD
    assert preemptive.preemptions


def test_a_cancel_ends_a_crowd_that_compute(preemptive: dhaga.Scheduler) -> None:
    busy = [preemptive.spawn(computing([])) for _ in range(CROWD)]

    def cancel_all() -> int:
        dhaga.sleep(0.001)
        return sum(each.cancel() for each in busy)

    assert preemptive.spawn(cancel_all, priority=dhaga.Priority.HIGH).result() == CROWD
    for each in busy:
        with pytest.raises(dhaga.Cancelled):
            each.result()


# ---- profilers


def test_cprofile_counts_the_calls_of_a_function_whose_turns_end(preemptive: dhaga.Scheduler) -> None:
    ended: list[int] = []

    def leaf() -> int:
        return len(ended)

    def compute() -> int:
        calls = 0
        while not leaf():
            calls += 1
        return calls + 1

    def profiled() -> tuple[int, int]:
        profile = cProfile.Profile()
        profile.enable()
        calls = compute()
        profile.disable()
        stats: Any = pstats.Stats(profile)
        (counted,) = [figures[1] for (_, _, name), figures in stats.stats.items() if name == "leaf"]
        return calls, counted

    busy = preemptive.spawn(profiled)
    preemptive.spawn(rest, ended)
    calls, counted = busy.result()
    # cProfile has one stack for an OS thread: if the turn ends within a call, it may count the call again.
    assert calls <= counted <= calls + preemptive.preemptions
    assert preemptive.preemptions


def test_a_profile_function_sees_each_call_and_each_return(preemptive: dhaga.Scheduler) -> None:
    ended: list[int] = []
    seen = {"call": 0, "return": 0}

    def leaf() -> int:
        return len(ended)

    def follow(frame: FrameType, event: str, argument: object) -> None:
        if frame.f_code is leaf.__code__ and event in seen:
            seen[event] += 1

    def compute() -> int:
        calls = 1
        sys.setprofile(follow)
        try:
            while not leaf():
                calls += 1
        finally:
            sys.setprofile(None)
        return calls

    busy = preemptive.spawn(compute)
    preemptive.spawn(rest, ended)
    calls = busy.result()
    assert seen == {"call": calls, "return": calls}
    assert preemptive.preemptions


# ---- debuggers and coverage


def test_turns_end_again_once_a_trace_function_is_gone(preemptive: dhaga.Scheduler) -> None:
    ended: list[int] = []
    before: list[int] = []

    def compute() -> None:
        watcher: Any = preemption_watcher.watcher
        former = sys.gettrace()
        sys.settrace(lambda frame, event, argument: None)
        looks = watcher.looks
        while watcher.looks < looks + 20:
            pass
        sys.settrace(former)
        before.append(preemptive.preemptions)
        computing(ended)()

    busy = preemptive.spawn(compute)
    preemptive.spawn(rest, ended)
    busy.join()
    if sys.gettrace() is None:
        assert before == [0]
        assert preemptive.preemptions


def test_a_traced_program_has_each_line_of_its_threads_seen() -> None:
    """The program uses ``threading.settrace``, as coverage's own tracers do; without a tracer its turns would end."""
    assert prints(
        """
        import sys, threading, time

        lines = set()

        def follow(frame, event, argument):
            if frame.f_code.co_name == "compute":
                lines.add(frame.f_lineno - frame.f_code.co_firstlineno)
                return follow

        def compute():
            count = 0
            while count < 100_000:
                count += 1
            return count

        threading.settrace(follow)
        threads = [threading.Thread(target=compute) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        print(sorted(lines))
        """,
        "-m",
        "dhaga",
    ) == ["[0, 1, 2, 3, 4]"]
