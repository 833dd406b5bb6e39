"""The pool of tasks: its size, its end, and what tasks find in it."""

from __future__ import annotations

import threading
from typing import Any, ClassVar

import pytest

import dhaga
from dhaga._kernel import originals
from dhaga.integrations.celery import TaskPool
from tests.kit.celery_world import Said, World, come_to, until


def test_no_more_run_than_the_concurrency_says_and_all_get_their_turn(world: World) -> None:
    world.app.conf.update(worker_prefetch_multiplier=4, worker_dhaga_threads=2)
    running: list[int] = []

    @world.task
    def wait(number: int) -> int:
        running.append(number)
        world.trace.append(len(running))
        dhaga.sleep(0.01)
        running.remove(number)
        return number

    with world.working(concurrency=3) as pool:
        results = [wait.delay(number) for number in range(30)]
        assert sorted(come_to(result) for result in results) == list(range(30))
        assert max(world.trace) == 3
        until(lambda: pool.info["running"] == 0)
        assert pool.info["waiting"] == 0 and not pool.jobs


def test_the_pool_grows_and_shrinks(world: World) -> None:
    world.app.conf.worker_prefetch_multiplier = 10

    @world.task
    def wait(number: int) -> None:
        world.begun.append(number)
        world.wait_at_gate()

    with world.working(concurrency=1) as pool:
        results = [wait.delay(number) for number in range(6)]
        until(lambda: pool.info["waiting"] == 5)
        until(lambda: len(world.begun) == 1)
        world.app.control.pool_grow(2)
        until(lambda: len(world.begun) == 3)
        assert pool.info["max-concurrency"] == pool.num_processes == 3
        with pytest.raises(ValueError, match="cannot lower the limit of 3 tasks"):
            pool.shrink(4)
        pool.shrink(2)
        world.gate.set()
        for result in results:
            come_to(result)
        assert pool.info["max-concurrency"] == 1


def test_a_pool_may_begin_with_no_room_and_change_often() -> None:
    ran: list[int] = []
    pool = TaskPool(0)
    pool.start()
    pool.apply_async(ran.append, [1])
    for _ in range(3):
        pool.grow(2)
        until(lambda: ran and not pool.jobs)
        pool.shrink(2)
    pool.apply_async(ran.append, [2])
    assert pool.info["waiting"] == 1 and pool.info["max-concurrency"] == 0
    pool.grow()
    until(lambda: not pool.jobs)
    assert ran == [1, 2]
    assert pool.worker_pool is not None
    assert all(len(crew.free_numbers) + len(crew.workers) == 2 for crew in pool.worker_pool.groups)
    pool.stop()


def test_a_queued_task_runs_in_an_idle_thread_while_another_computes(world: World) -> None:
    world.app.conf.worker_dhaga_threads = 2
    pool = TaskPool(0, app=world.app)
    pool.start()
    assert pool.worker_pool is not None
    ran, computing, computed = threading.Event(), originals.allocate_lock(), originals.allocate_lock()
    computing.acquire()
    computed.acquire()

    def compute() -> None:
        computing.release()
        computed.acquire()

    first = pool.worker_pool.groups[0].scheduler.spawn(compute)
    computing.acquire()
    pool.apply_async(ran.set)
    pool.grow()
    try:
        assert ran.wait(60)
    finally:
        computed.release()
    first.join()
    until(lambda: not pool.jobs)
    pool.stop()


def test_a_warm_stop_lets_tasks_end_and_leaves_the_others_to_the_broker(world: World) -> None:
    world.app.conf.worker_prefetch_multiplier = 4

    @world.task
    def wait(number: int) -> None:
        world.begun.append(number)
        world.wait_at_gate()
        world.trace.append(number)

    with world.working(concurrency=2) as pool:
        for number in range(4):
            wait.delay(number)
        until(lambda: pool.info["waiting"] == 2 == len(world.begun))
        closer = threading.Thread(target=lambda: (until(lambda: not pool.info["waiting"]), world.gate.set()))
        closer.start()
        pool.stop()
        closer.join()
    assert sorted(world.trace) == [0, 1] == sorted(world.begun)
    assert not pool.jobs


def test_a_cold_stop_cancels_tasks(world: World) -> None:
    endless = world.endless_task()
    with world.working() as pool:
        endless.delay()
        until(lambda: world.begun)
        pool.terminate()
        assert world.trace == ["put away"]


class Redelivered:
    """What the pool asks of a request, of a message that the broker sends once more."""

    delivery_info: ClassVar[Any] = {"redelivered": True}

    def revoked(self) -> bool:
        """Tell that it is to run."""
        return False

    def on_accepted(self, pid: int, when: float) -> None:
        """Be told that it runs."""


@pytest.mark.logs
def test_a_task_that_is_delivered_again_while_it_runs_is_told_of(said: Said) -> None:
    gate, done = threading.Event(), []

    def run(number: int) -> None:
        while not gate.is_set():
            dhaga.sleep(0.005)
        done.append(number)

    pool = TaskPool(2)
    pool.start()
    for number, name in enumerate(("first", "second", "first")):
        pool.apply_async(run, [number], accept_callback=Redelivered().on_accepted, correlation_id=name)
    gate.set()
    until(lambda: len(done) == 3)
    pool.stop()
    assert [line.partition(" was ")[0] for line in said.lines] == ["task 2[first]"]


@pytest.mark.logs
def test_a_task_that_cannot_be_accepted_is_left_to_the_broker(said: Said) -> None:
    class Broken(Redelivered):
        def on_accepted(self, pid: int, when: float) -> None:
            raise OSError("the broker is gone")

    ran: list[int] = []
    pool = TaskPool(1)
    pool.start()
    pool.apply_async(ran.append, [1], accept_callback=Broken().on_accepted, correlation_id="one")
    pool.apply_async(ran.append, [2], accept_callback=Redelivered().on_accepted, correlation_id="two")
    until(lambda: not pool.jobs)
    pool.stop()
    assert ran == [2]
    assert said.lines == ["accepting task 1[one] failed; it is left to the broker"]


def test_a_pool_that_was_never_started_stops() -> None:
    pool = TaskPool(2)
    pool.stop()
    pool.terminate()
    with pytest.raises(RuntimeError, match="has not been started"):
        pool.apply_async(print)
