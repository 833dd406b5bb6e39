"""asyncio's tasks: in their own order, or by the strategy where the option is given."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest

from dhaga.simulation import PCT, Exhaustive, Random, Settings, Simulation, check_determinism, search, shrink
from dhaga.simulation._world.report import failure_text

pytestmark = pytest.mark.once


async def note(order: list[str], name: str) -> None:
    await asyncio.sleep(0)
    order.append(name)


async def note_three(order: list[str]) -> None:
    await asyncio.gather(*(note(order, name) for name in "abc"))


def orders(seeds: int, **options: Any) -> set[str]:
    found = set()
    for seed in range(seeds):
        order: list[str] = []
        with Simulation(seed, preempt=None, **options):
            asyncio.run(note_three(order))
        found.add("".join(order))
    return found


def test_tasks_run_first_come_first_served_without_the_option() -> None:
    assert orders(5) == {"abc"}
    assert orders(5, tasks=True, strategy="fifo") == {"abc"}


@pytest.mark.parametrize("strategy", [Random(), PCT(2)])
def test_the_strategy_draws_the_order_of_tasks(strategy: Any) -> None:
    assert orders(60, tasks=True, strategy=strategy) == {"abc", "acb", "bac", "bca", "cab", "cba"}


def test_callbacks_keep_their_order_and_no_task_overtakes_one() -> None:
    async def main(order: list[str]) -> None:
        loop = asyncio.get_running_loop()
        for number in range(3):
            loop.call_soon(order.append, str(number))
        later = [asyncio.ensure_future(note(order, name)) for name in "ab"]
        loop.call_soon(order.append, "3")
        await asyncio.gather(*later)

    for seed in range(20):
        order: list[str] = []
        with Simulation(seed, preempt=None, tasks=True):
            asyncio.run(main(order))
        assert order[:4] == ["0", "1", "2", "3"] and sorted(order[4:]) == ["a", "b"]


# ---- a race of tasks


def use_before_it_is_set_up() -> None:
    ready: list[int] = []

    async def set_up() -> None:
        await asyncio.sleep(0)
        ready.append(1)

    async def use() -> None:
        await asyncio.sleep(0)
        assert ready

    async def main() -> None:
        await asyncio.gather(set_up(), use())

    asyncio.run(main())


def test_a_race_of_tasks_is_found_replayed_and_explained() -> None:
    settings = Settings(tasks=True)
    assert not search(use_before_it_is_set_up, 50, Settings()).failures
    failure = search(use_before_it_is_set_up, 50, settings).failures[0]
    small = shrink(use_before_it_is_set_up, settings, failure)
    text = failure_text(small)
    assert small.kind == "AssertionError" and small.nearest == "" and small.switches.count(">") == 1
    assert "both touch ready" in text and "use) runs first" in text and "set_up) runs" in text
    assert "(use_before_it_is_set_up.<locals>.use) fails: AssertionError" in text


def test_exhaustive_schedules_hold_each_order_of_tasks() -> None:
    settings = Settings(strategy=Exhaustive(0), tasks=True)
    findings = search(use_before_it_is_set_up, settings=settings, keep_going=True)
    assert findings.complete is False or findings.failures
    assert 0 < len(findings.failures) < findings.runs


def test_a_seed_gives_the_same_order_twice_with_threads_beside() -> None:
    def program() -> None:
        async def main(order: list[str]) -> None:
            await asyncio.gather(note_three(order), asyncio.to_thread(order.append, "thread"), note_three(order))

        asyncio.run(main([]))

    for seed in range(3):
        check_determinism(program, seed, Settings(tasks=True))


def test_a_report_tells_a_cancel() -> None:
    async def main() -> None:
        waiting = asyncio.create_task(asyncio.sleep(100), name="waiting")
        await asyncio.sleep(1)
        waiting.cancel()
        await asyncio.sleep(1)
        raise KeyError("gone")

    with pytest.raises(KeyError) as caught, Simulation(1, preempt=None, tasks=True):
        asyncio.run(main())
    report = caught.value.__notes__[0]
    assert "waiting (sleep) is cancelled; " in report and "main) fails: KeyError" in report


def test_a_failure_elsewhere_ends_a_run_with_tasks() -> None:
    async def wait() -> None:
        await asyncio.gather(*(asyncio.sleep(1000) for _ in range(5)))

    def fail(world: Simulation) -> None:
        host = world.network.host("one")
        host.spawn(partial(asyncio.run, wait()))
        raise KeyError("gone")

    with pytest.raises(KeyError), Simulation(1, tasks=True) as world:
        fail(world)
