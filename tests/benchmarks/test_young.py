"""The benchmark beside young frameworks and tools of simulation: its works, its searches, and its tables."""

from __future__ import annotations

import re
from typing import Any

import pytest

from benchmarks.tables.readme import WHY
from benchmarks.young import child, simulations
from benchmarks.young.__main__ import RELEASES, SIMULATION_RELEASES
from benchmarks.young.frameworks import FRAMEWORKS, Framework
from benchmarks.young.report import frameworks, name_of, tries_of
from benchmarks.young.report import simulations as searches

WORKS = ("spawn_join", "yield_ring", "ping_pong", "await_coroutine", "sleepers seconds", "sleepers bytes")


def test_each_release_has_a_way_to_run_it() -> None:
    assert set(RELEASES) == set(FRAMEWORKS)
    assert set(SIMULATION_RELEASES) == set(simulations.TOOLS)


@pytest.mark.parametrize("work", child.LOOPS)
def test_a_work_calls_what_it_measures_so_many_times(work: str) -> None:
    called: list[str] = []
    standard = FRAMEWORKS["dhaga"]()

    def counted(name: str) -> Any:
        function = getattr(standard, name)

        def call(*args: Any) -> Any:
            called.append(name)
            return function(*args)

        return call

    counting = Framework(
        **{name: counted(name) for name in ("run", "spawn", "yield_", "sleep", "join", "channel", "await_")}
    )
    count = 2 * child.RING
    counting.run(lambda: child.LOOPS[work](counting, count))
    measured = {"spawn_join": "join", "yield_ring": "yield_", "ping_pong": "channel", "await_coroutine": "await_"}[work]
    assert called.count(measured) == (2 if measured == "channel" else count)


def test_threads_are_found_in_the_wrong_order() -> None:
    tries = simulations.dhaga(simulations.wrong_order_of_threads, 0)
    assert tries is not None and tries <= simulations.MOST


def test_the_least_of_a_row_is_bold() -> None:
    results = {"releases": {"dhaga": "", "other": "other==1.0"}, "works": {}}
    results["works"] = {work: {"dhaga": 2e-6, "other": 1e-6} for work in WORKS} | {"await_coroutine": {"dhaga": 1e-6}}
    lines = frameworks(results).splitlines()
    assert re.split(r" *\| *", lines[0])[1:4] == ["work", "Dhaga", "other 1.0"]
    assert re.split(r" *\| *", lines[2])[1:4] == ["spawn and join", "2.00 µs", "**1.00 µs**"]
    assert re.split(r" *\| *", lines[5])[1:4] == ["await a coroutine in a microthread", "**1.00 µs**", "–"]


def test_a_release_is_named_without_its_extra() -> None:
    assert name_of("tealetio[asyncio]==0.1.0rc1", "tealetio") == "tealetio 0.1.0rc1"
    assert name_of("", "dhaga") == "Dhaga"


def test_a_search_is_shown_by_its_median_or_by_what_it_lacks() -> None:
    assert tries_of({"tries": [1, 2, 4]}, 200) == "2"
    assert tries_of({"tries": [1, None, 4]}, 200) == "not in 200"
    assert tries_of(None, 200) == "coroutines only"
    found = {"coroutines_without_a_fault": {"cpu": 0.002}, "wrong_order_of_coroutines": {"tries": [3]}}
    text = searches({"simulation releases": {"tool": "tool==1"}, "most": 200, "simulations": {"tool": found}})
    assert "| 3 " in text and "2.00 ms" in text


def test_the_page_has_both_tables() -> None:
    text = WHY.read_text()
    assert all(name_of(release, each) in text for each, release in {**RELEASES, **SIMULATION_RELEASES}.items())
