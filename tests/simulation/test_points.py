"""Points: which code is preempted, and where the program is left alone."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import dhaga
from dhaga.simulation import Exhaustive, Settings, Simulation, search
from dhaga.simulation._schedule.exhaustive import Schedules
from dhaga.simulation._schedule.points import Program
from dhaga.simulation._schedule.source_line import SourceLine
from dhaga.simulation._schedule.strategies import strategy_of
from dhaga.simulation._schedule.switches import switches_from
from dhaga.simulation._search.outcome import Order
from dhaga.simulation._search.search import run_one
from dhaga.simulation._standard import standard

MONITORING: Any = getattr(sys, "monitoring", None)
"""From CPython 3.12 on."""


@pytest.fixture(autouse=True, scope="module")
def replaced_once() -> Iterator[None]:
    with standard.replaced():
        yield


def test_the_program_is_all_but_libraries_and_dhaga() -> None:
    program = Program()
    assert program.has(__file__) and program.has("/home/me/program.py")
    for file in (json.__file__, pytest.__file__, dhaga.__file__, "<frozen runpy>", "<string>", threading.__file__):
        assert not program.has(file)


def test_a_named_package_counts_as_the_program() -> None:
    program = Program(["json", "pytest"])
    assert program.has(json.__file__) and program.has(pytest.__file__) and not program.has(threading.__file__)


def lines_of(preempt: str = "lines") -> list[tuple[int, str]]:
    with Simulation(0, strategy="fifo", preempt=preempt, keep_lines=True) as world:
        value = json.dumps([1])
        thread = threading.Thread(target=lambda: value)
        thread.start()
        thread.join()
    return [(member.number, SourceLine(file, line).text) for member, file, line in world.points.lines]


@pytest.mark.parametrize("preempt", ["lines", "instructions"])
def test_the_lines_of_the_program_are_kept_with_their_members(preempt: str) -> None:
    lines = lines_of(preempt)
    assert (0, "value = json.dumps([1])") in lines and (0, "thread.start()") in lines
    assert [line for number, line in lines if number] == ["thread = threading.Thread(target=lambda: value)"]


def counted(preempt: str) -> int:
    with Simulation(0, strategy="fifo", preempt=preempt) as world:
        total = 0
        for number in range(10):
            total += number * number
    return world.run.members.all[0].points


def test_there_are_more_instructions_than_lines() -> None:
    assert counted("instructions") > 2 * counted("lines") > 20


def test_no_turn_ends_in_a_block_without_preemption() -> None:
    steps = []

    def work(name: str) -> None:
        with dhaga.no_preempt():
            steps.append(name)
            steps.append(name)

    for seed in range(20):
        steps.clear()
        with Simulation(seed, strategy="random:1"):
            threads = [threading.Thread(target=work, args=(name,)) for name in "ab"]
            for thread in threads:
                thread.start()
        assert steps in ([*"aabb"], [*"bbaa"])


def test_the_tools_of_the_interpreter_are_free_again() -> None:
    with Simulation(0):
        pass
    if sys.version_info >= (3, 12):
        assert MONITORING.get_tool(3) is None
    assert sys.gettrace() is None


@pytest.mark.skipif(sys.version_info < (3, 12), reason="MONITORING came with 3.12")
def test_without_a_free_tool_there_is_an_error_and_nothing_is_left() -> None:
    for tool in (3, 4):
        MONITORING.use_tool_id(tool, "another")
    try:
        with pytest.raises(RuntimeError, match="needs a free tool id"), Simulation(0):
            pass
    finally:
        for tool in (3, 4):
            MONITORING.free_tool_id(tool)
    with Simulation(0):
        assert os.path.exists(__file__)


def test_each_turn_of_a_loop_in_one_line_is_a_point() -> None:
    numbers = list(range(5))
    points = []
    for count in (0, 5):
        with Simulation(0, strategy="fifo") as world:
            squares = [number * number for number in numbers[:count]]
        points.append(world.run.members.all[0].points)
        assert len(squares) == count
    assert points[1] >= points[0] + 5


@pytest.mark.skipif(MONITORING is None, reason="jumps are points from 3.12 on")
def test_a_loop_in_one_line_that_is_stopped_runs_before_and_after_the_others() -> None:
    def program() -> None:
        thread = threading.Thread(target=append)
        thread.start()
        go.set()
        squares = [number * number for number in range(5)]
        thread.join()
        assert len(squares) == 5

    def append() -> None:
        go.wait()
        other.append(1)

    go, other = threading.Event(), list[int]()
    letters = {program.__code__.co_firstlineno + 4: "L", append.__code__.co_firstlineno + 2: "A"}
    settings, schedules, found = Settings(strategy=Exhaustive(1)), Schedules(1), set()
    for prefix in schedules:
        outcome = run_one(program, settings, Order(0, prefix=prefix, keep_lines=True))
        schedules.add(len(prefix), outcome.decisions)
        found.add("".join(letters.get(line, "") for _, _, line in outcome.lines))
    assert found == {"AL", "LA", "LAL"}


def test_the_main_code_of_a_search_is_preempted() -> None:
    def program() -> None:
        total = 0

        def add() -> None:
            nonlocal total
            seen = total
            total = seen + 1

        thread = threading.Thread(target=add)
        thread.start()
        seen = total
        total = seen + 1
        thread.join()
        assert total == 2

    found = search(program, 300, Settings(strategy_of("random")))
    assert any(switch.number == 0 and switch.preempts for switch in switches_from(found.failures[0].switches))
