"""Workers of a pool: many calls at once, workers that idle out, forks at any moment."""

from __future__ import annotations

import random
import threading
from collections import Counter

import pytest

import dhaga
from dhaga import testing
from dhaga._workers.dhaga_pool import SchedulerWorkers
from dhaga.futures import CancelledError
from dhaga.pool import Pool
from tests.kit.pools import many, outcome, pooled
from tests.kit.scripts import prints, run
from tests.kit.socket_cases import eventually

pool = pytest.fixture(pooled)

# ---- submit


def test_idle_workers_are_used_again(pool: Pool) -> None:
    groups = pool._workers.groups
    used = set()
    for _ in range(50):
        used.add(pool.submit(dhaga.current).result())
        # The worker gives the result before it is idle.
        eventually(lambda: all(len(group.idle) == len(group.workers) for group in groups))
    assert len(used) <= len(groups)


# ---- cancel


def test_cancels_at_any_moment_hit_their_own_call_or_none() -> None:
    """A call counts what it was hit by; a cancel that comes too late for it must not show up in another."""
    choose = random.Random(testing.seed)
    with Pool(2, 4) as pool:
        wanted: set[int] = set()
        stray: list[int] = []

        def call(number: int) -> int:
            try:
                for _ in range(number % 3):
                    dhaga.sleep(0)
            except dhaga.Cancelled:
                if number not in wanted:
                    stray.append(number)
                raise
            return number

        calls = []
        for number in range(many(3000)):
            calls.append(pool.submit(call, number))
            if choose.random() < 0.5:
                victim = choose.randrange(max(0, number - 20), number + 1)
                wanted.add(victim)
                calls[victim].cancel()
        results = ["cancelled" if isinstance(outcome(f), CancelledError) else f.result() for f in calls]
        assert stray == [] and all(r == n for n, r in enumerate(results) if r != "cancelled")
        assert {n for n, r in enumerate(results) if r == "cancelled"} <= wanted


def test_a_shutdown_finds_the_thread_gone_that_it_was_to_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last worker takes the last call, and ends its thread, between two steps of who shuts the pool down."""
    pool = Pool(1, 3)
    (group,) = pool._workers.groups
    begun, gate = threading.Event(), threading.Event()

    def call() -> bool:
        begun.set()
        return gate.wait(30)  # and nobody else runs in this thread meanwhile

    def start_late(group: SchedulerWorkers, number: int) -> None:
        gate.set()
        group.scheduler.mode.thread.join(30)
        start_worker(group, number)

    first, last = pool.submit(call), pool.submit(int)
    assert begun.wait(30)
    start_worker = SchedulerWorkers.start_worker
    monkeypatch.setattr(SchedulerWorkers, "start_worker", start_late)
    pool.shutdown()
    assert (first.result(), last.result()) == (True, 0) and group.scheduler.closing and len(group.free_numbers) == 3


# ---- many at once


def test_nothing_is_lost_or_doubled_when_many_submit_at_once() -> None:
    made: list[int] = []
    share = many(400)
    with Pool(3, 8) as pool:

        def submits(base: int) -> list[int]:
            calls = [pool.submit(lambda n: (made.append(n), n)[1], base + n) for n in range(share)]
            return [f.result(30) for f in calls]

        results: dict[int, list[int]] = {}
        threads = [threading.Thread(target=lambda b=b: results.update({b: submits(b)})) for b in (0, 1000, 2000)]
        for thread in threads:
            thread.start()
        dhagas = [dhaga.spawn(submits, base) for base in (3000, 4000)]
        within = pool.submit(lambda: pool.submit(submits, 5000).result())
        assert [d.result() for d in dhagas] == [list(range(b, b + share)) for b in (3000, 4000)]
        assert within.result() == list(range(5000, 5000 + share))
        for thread in threads:
            thread.join()
    assert results == {b: list(range(b, b + share)) for b in (0, 1000, 2000)}
    assert Counter(made) == Counter(n for b in range(0, 6000, 1000) for n in range(b, b + share))


def test_workers_that_idle_out_lose_no_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dhaga._workers.dhaga_pool.IDLE_SECONDS", 0.0005)
    choose = random.Random(testing.seed)
    with Pool(2, 1) as pool:
        for n in range(many(500)):
            assert pool.submit(abs, -n).result(30) == n
            if choose.random() < 0.5:
                dhaga.sleep(choose.random() * 0.001)


# ---- processes


def test_whenever_a_fork_comes_every_call_is_known_to_be_gone_in_the_child() -> None:
    code = """
        import os, signal, sys, threading
        from dhaga.futures import BrokenExecutor
        from dhaga.pool import Pool

        def feeds():
            while not over:
                recent[:] = [pool.submit(int) for _ in range(50)]
                for future in list(recent):
                    future.result()

        sys.setswitchinterval(0.00001)
        pool, recent, over = Pool(2, 4), [], False
        thread = threading.Thread(target=feeds)
        thread.start()
        for _ in range(20):
            pid = os.fork()
            if pid == 0:
                signal.alarm(20)
                outcomes = {type(future.exception(10)) for future in list(recent)}
                os._exit(not outcomes <= {BrokenExecutor, type(None)})
            assert os.waitpid(pid, 0)[1] == 0
        over = True
        thread.join()
        pool.shutdown()
    """
    assert prints(code, "-W", "ignore::DeprecationWarning") == []


def test_a_call_that_forks_goes_on_in_the_child_alone_and_ends_it() -> None:
    code = """
        import os, sys
        import dhaga
        from dhaga.pool import Pool

        def call():
            pid = os.fork()
            if pid == 0:
                dhaga.sleep(0.01)
                print("child")
                sys.exit(3)
            return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

        with Pool(1, 1) as pool:
            print("parent", pool.submit(call).result())
    """
    assert run(code).lines == ["child", "parent 3"]
