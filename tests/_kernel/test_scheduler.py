"""Scheduling: turns, laps, wakes from elsewhere, and ten thousand of everything."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

import dhaga
from dhaga import testing
from dhaga.testing import settle, virtual_clock
from tests.kit.scripts import prints

MANY = 10_000

in_order = pytest.mark.skipif("config.getoption('--dhaga-seed') is not None", reason="the run queue is shuffled")


@in_order
def test_dhagas_take_turns_in_the_order_of_the_run_queue() -> None:
    trace = []

    def runs(name: str) -> None:
        for n in range(3):
            trace.append(f"{name}{n}")
            dhaga.sleep(0)

    with virtual_clock():
        for d in [dhaga.spawn(runs, name) for name in "abc"]:
            d.join()
    assert " ".join(trace) == "a0 b0 c0 a1 b1 c1 a2 b2 c2"


@in_order
def test_a_spawned_dhaga_starts_in_its_turn_and_never_at_once() -> None:
    trace = []

    def spawns() -> None:
        dhaga.spawn(trace.append, "spawned")
        trace.append("spawning")

    with virtual_clock():
        dhaga.spawn(spawns)
        dhaga.spawn(trace.append, "spawned before")
        trace.append("main code")
        settle()
    assert trace == ["main code", "spawning", "spawned before", "spawned"]


def test_wakes_from_many_threads_lose_nothing() -> None:
    """A waker reads the sleeping flag after its append: no wake slips in between."""
    with dhaga.Scheduler() as scheduler:
        for _ in range(20):
            dhagas = [scheduler.spawn(dhaga.park, "thread") for _ in range(50)]
            while any(d.state != "WAITING" for d in dhagas):
                time.sleep(0)
            threads = [threading.Thread(target=d.wake, args=(n,)) for n, d in enumerate(dhagas)]
            for thread in threads:
                thread.start()
            assert [d.result(timeout=30) for d in dhagas] == list(range(50))
            for thread in threads:
                thread.join()


def test_ten_thousand_join_one_and_get_its_result() -> None:
    with virtual_clock():
        one = dhaga.spawn(lambda: dhaga.sleep(1) or "result")
        joiners = [dhaga.spawn(one.result) for _ in range(MANY)]
        assert {joiner.result() for joiner in joiners} == {"result"}
        assert not any(one._joiners)


def test_ten_thousand_wakes_from_another_thread() -> None:
    dhagas = [dhaga.spawn(dhaga.park, "thread") for _ in range(MANY)]
    settle()
    thread = threading.Thread(target=lambda: [d.wake(n) for n, d in enumerate(dhagas)])
    thread.start()
    assert [d.result() for d in dhagas] == list(range(MANY))
    thread.join()


@pytest.mark.crowd
@pytest.mark.parametrize(
    ("count", "parks"), [(20_000, False), (20_000, True), pytest.param(100_000, True, marks=pytest.mark.slow)]
)
def test_a_chain_of_spawns_does_not_deepen_the_stack(count: int, parks: bool) -> None:
    """Each dhaga is started from the hub, not by the dhaga that spawned it."""

    def spawns(n: int) -> None:
        if n:
            dhaga.spawn(spawns, n - 1)
        else:
            main.wake("the last")
        if parks:
            dhaga.sleep(0)

    with virtual_clock():
        main = dhaga.current()
        assert dhaga.park("chain", start=lambda: dhaga.spawn(spawns, count)) == "the last"
        settle()


@pytest.mark.crowd
def test_a_chain_in_which_each_joins_the_next() -> None:
    """Ten thousand suspended dhagas are released from the last back to the first."""
    trace = []

    def joins_next(n: int) -> None:
        if n:
            dhaga.spawn(joins_next, n - 1).join()
        else:
            trace.append("the last has started")

    with virtual_clock():
        dhaga.spawn(joins_next, MANY).join()
    assert trace == ["the last has started"]


def test_two_schedulers_at_once_hand_work_to_and_fro() -> None:
    with dhaga.Scheduler("one") as one, dhaga.Scheduler("two") as two:

        def bounces(n: int, here: dhaga.Scheduler, there: dhaga.Scheduler) -> list[str]:
            name = threading.current_thread().name
            assert dhaga.current().scheduler is here
            return [name, *(there.spawn(bounces, n - 1, there, here).result() if n else [])]

        results = [one.spawn(bounces, 20, one, two) for _ in range(20)]
        assert [d.result() for d in results] == [["one", "two"] * 10 + ["one"]] * 20


def test_reprs_tell_the_state() -> None:
    with virtual_clock():
        scheduler = dhaga.current().scheduler
        d = dhaga.spawn(dhaga.sleep, 1)
        assert repr(scheduler) == "<Scheduler virtual awake, 1 dhagas, 1 runnable>"
        d.join()
    own = dhaga.Scheduler("own")
    assert repr(own) == "<Scheduler own not started, 0 dhagas, 0 runnable>"
    with own:
        own.spawn(int).join()
        while not own.asleep:
            time.sleep(0.001)
        assert repr(own) == "<Scheduler own asleep, 0 dhagas, 0 runnable>"
    assert repr(own) == "<Scheduler own stopped, 0 dhagas, 0 runnable>"


@pytest.mark.parametrize("factory", ["asyncio", "uvloop"])
def test_a_scheduler_may_be_given_a_loop_to_run(factory: str) -> None:
    module = pytest.importorskip(factory)
    run_on(module.new_event_loop())
    before = testing.open_fds()  # without those that the process opens once
    run_on(module.new_event_loop())
    assert not testing.open_fds() - before


def run_on(loop: Any) -> None:
    with dhaga.Scheduler(loop=loop) as scheduler:
        assert scheduler.spawn(lambda: dhaga.current().scheduler.loop).result() is loop
        assert scheduler.ioloop.asyncio_loop is loop  # type: ignore[attr-defined]
        assert scheduler.spawn(lambda: dhaga.sleep(0.001) or "slept").result() == "slept"
    assert loop.is_closed()


def test_a_scheduler_keeps_no_context_of_the_code_that_made_it() -> None:
    assert prints("""
        import contextvars, gc, weakref
        import dhaga

        class Request: ...
        request = contextvars.ContextVar("request")

        def answer():
            request.set(Request())
            dhaga.spawn(int).join()
            dhaga.sleep(0.001)
            return weakref.ref(request.get())

        kept = contextvars.Context().run(answer)
        dhaga.sleep(0.001)
        gc.collect()
        print(kept())
    """) == ["None"]


def test_a_scheduler_takes_no_other_attributes() -> None:
    with dhaga.Scheduler("worker") as scheduler, pytest.raises(AttributeError):
        scheduler.run_queues = []  # type: ignore[attr-defined]
