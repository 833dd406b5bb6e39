"""pool: calls in dhagas of several OS threads, taken by whoever has room."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import re
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

import dhaga
from dhaga import queue
from dhaga._workers import dhaga_pool
from dhaga.futures import CancelledError, Future
from dhaga.pool import Pool
from dhaga.testing import cancel_at_every_park
from dhaga.threading import Barrier, Event, Lock
from tests.kit.parking import victim
from tests.kit.pools import pooled
from tests.kit.scripts import Program, prints

pool = pytest.fixture(pooled)


def until(condition: Callable[[], object]) -> None:
    """Wait, by short sleeps, for what another OS thread is about to do."""
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, "it does not come"
        dhaga.sleep(0.001)


def thread_name() -> str:
    """Return the name of the scheduler, and so of its OS thread."""
    return dhaga.current().scheduler.name


# ---- submit


def test_a_call_is_made_in_a_dhaga_of_the_pools_threads(pool: Pool) -> None:
    name, kind = pool.submit(lambda: (thread_name(), type(dhaga.current()))).result()
    assert name in (f"{pool.name}-1", f"{pool.name}-2") and issubclass(kind, dhaga.Dhaga)
    assert re.match(
        rf"<Pool {pool.name} open, 2 threads, <WorkerPool 0 of [12] workers busy, 0 calls due>>", repr(pool)
    )


def test_results_come_back_to_dhagas_plain_threads_and_coroutines(pool: Pool) -> None:
    async def coroutine() -> int:
        return await pool.submit(pow, 2, 3)

    seen: list[int] = []
    thread = threading.Thread(target=lambda: seen.append(pool.submit(pow, 2, 3).result()))
    thread.start()
    thread.join()
    in_dhaga = dhaga.spawn(lambda: pool.submit(pow, 2, 3).result())
    within = pool.submit(lambda: pool.submit(pow, 2, 3).result())
    assert (seen, in_dhaga.result(), within.result(), asyncio.run(coroutine())) == ([8], 8, 8, 8)


def test_errors_come_back_with_their_traceback(pool: Pool) -> None:
    def fails() -> None:
        raise LookupError("of the call")

    with pytest.raises(LookupError, match="of the call") as info:
        pool.submit(fails).result()
    assert info.traceback[-1].name == "fails" and "make" not in [entry.name for entry in info.traceback]


def test_there_are_at_most_so_many_calls_at_once_in_each_thread() -> None:
    with Pool(2, 3) as pool:
        at_work: Counter[str] = Counter()
        most: Counter[str] = Counter()
        all_at_work = Barrier(6)

        def call(n: int) -> None:
            at_work[thread_name()] += 1
            most[thread_name()] = max(most[thread_name()], at_work[thread_name()])
            all_at_work.wait(30) if n < 6 else dhaga.sleep(0.001)
            at_work[thread_name()] -= 1

        assert len(list(pool.map(call, range(30)))) == 30
        assert most == {f"{pool.name}-1": 3, f"{pool.name}-2": 3}


def test_a_call_does_not_wait_for_a_thread_that_computes() -> None:
    """Both threads get a call that blocks its thread: the next one goes to the one that is let go first."""
    with Pool(2, 4) as pool:
        gates = [threading.Event(), threading.Event()]
        blocked = [pool.submit(lambda gate: (gate.wait(30), thread_name()), gate) for gate in gates]
        until(lambda: all(f.running() for f in blocked))
        due = [pool.submit(thread_name) for _ in range(3)]
        gates[1].set()
        free = blocked[1].result()[1]
        assert [f.result(30) for f in due] == [free] * 3 and not blocked[0].done()
        assert [pool.submit(thread_name).result(30) for _ in range(3)] == [free] * 3
        gates[0].set()
        assert blocked[0].result()[1] != free


def test_every_thread_takes_calls_that_block_it() -> None:
    with Pool(3, 2) as pool:
        barrier = threading.Barrier(3)
        assert sorted(pool.map(lambda _: barrier.wait(30), range(3))) == [0, 1, 2]


def test_context_variables_go_along_and_are_not_those_of_the_former_call() -> None:
    variable = contextvars.ContextVar("variable", default="none")
    with Pool(1, 1) as pool:
        variable.set("outer")
        assert pool.submit(lambda: (variable.get(), variable.set("inner"))[0]).result() == "outer"
        assert pool.submit(variable.get).result() == "outer"
        assert contextvars.Context().run(pool.submit, variable.get).result() == "none"


def test_a_call_may_fork_out_more_calls_than_there_are_workers(pool: Pool) -> None:
    def tree(depth: int) -> int:
        if not depth:
            return 1
        branches = [pool.submit(tree, depth - 1) for _ in range(2)]
        return sum(branch.result() for branch in branches)

    assert pool.submit(tree, 2).result(30) == 4


def test_submit_parks_while_max_pending_calls_wait() -> None:
    with Pool(1, 1, max_pending=2) as pool:
        gate = Event()
        first = pool.submit(gate.wait)
        until(first.running)
        due = [pool.submit(int), pool.submit(int)]
        submitter = dhaga.spawn(pool.submit, int)
        until(lambda: submitter.reason == "semaphore.acquire")
        with pytest.raises(TimeoutError), dhaga.Timeout(0.01):
            pool.submit(int)
        gate.set()
        assert submitter.result(30).result(30) == 0 and [f.result() for f in due] == [0, 0]


def test_who_is_parked_in_submit_is_refused_after_shutdown() -> None:
    pool = Pool(1, 1, max_pending=1)
    gate = Event()
    first = pool.submit(gate.wait)
    until(first.running)
    last = pool.submit(int)
    submitters = [dhaga.spawn(pool.submit, int) for _ in range(2)]
    for submitter in submitters:
        until(lambda s=submitter: s.reason == "semaphore.acquire")
        submitter.result_waiters += 1
    pool.shutdown(wait=False)
    gate.set()
    for submitter in submitters:
        with pytest.raises(RuntimeError, match="has been shut down"):
            submitter.result(30)
    assert last.result(30) == 0
    pool.shutdown()


def test_a_submit_to_a_stopped_scheduler_returns_its_permit() -> None:
    pool = Pool(1, 1, max_pending=1)
    pool._workers.groups[0].scheduler.stop()
    for _ in range(2):
        with pytest.raises(RuntimeError, match="stopped"), dhaga.Timeout(30):
            pool.submit(int)
    pool.shutdown()


def test_the_cancel_of_a_worker_before_its_start_leaves_later_calls_their_wake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dhaga_pool, "IDLE_SECONDS", 1000.0)
    with Pool(1, 2) as pool:

        def call() -> Future[int]:
            with dhaga.no_preempt():  # the worker that is to make the call does not start before the cancel
                future = pool.submit(int)
                for worker in pool._workers.groups[0].scheduler.in_order():
                    if worker.state == "NEW":
                        worker.cancel()
            return future

        assert pool.submit(call).result(30).result(30) == 0
        until(lambda: len(pool._workers.groups[0].workers) == 1)
        assert pool.submit(int).result(30) == 0


def test_a_coroutine_cannot_wait_in_submit_and_is_told_so() -> None:
    with Pool(1, 1, max_pending=1) as pool:
        gate = Event()
        calls = [pool.submit(gate.wait)]
        until(calls[0].running)
        calls.append(pool.submit(int))

        async def main() -> None:
            with pytest.raises(dhaga.ParkError, match="await"):
                pool.submit(int)

        asyncio.run(main())
        gate.set()
        assert [f.result(30) for f in calls] == [True, 0]


def test_calls_that_wait_for_calls_nobody_is_left_to_make_are_a_deadlock() -> None:
    code = """
        import dhaga
        from dhaga.pool import Pool

        with Pool(1, 1) as pool:
            call = pool.submit(lambda: pool.submit(int).result())
            try:
                call.result()
            except dhaga.Deadlock as error:
                print(error)
            pool.shutdown(cancel=True)
        print(call.done())
    """
    lines = prints(code)
    assert lines[-3].endswith("pool-1-1-worker-1: waits for future.result on <Future PENDING, 1 parked>")
    assert lines[-2].startswith("    at <string>:6 in <lambda>")  # on 3.13 with its source
    assert lines[-1] == "True"


# ---- cancel


def test_a_running_call_is_cancelled_from_another_thread_and_its_worker_lives_on() -> None:
    with Pool(1, 1) as pool:
        ends = queue.SimpleQueue[str]()

        def call() -> None:
            try:
                dhaga.sleep(60)
            finally:
                ends.put(dhaga.current().name)

        future = pool.submit(call)
        until(future.running)
        assert future.cancel() is False
        with pytest.raises(CancelledError):
            future.result(30)
        assert pool.submit(lambda: dhaga.current().name).result() == ends.get()


def test_a_cancelled_caller_leaves_nothing_of_its_call() -> None:
    def scenario() -> tuple[dhaga.Dhaga, Callable[[], object]]:
        lock = Lock()
        pool = Pool(1, 2, max_pending=1)

        def uses() -> None:
            with lock:
                pool.submit(dhaga.sleep, 0.005).result()
                list(pool.imap_unordered(dhaga.sleep, [0.005] * 3, look_ahead=1))

        def check() -> None:
            pool.shutdown()
            assert not lock.locked() and not pool._workers.backlog and pool._workers.permits is not None
            assert pool._workers.permits._value == 1

        return victim(uses), check

    assert cancel_at_every_park(scenario) >= 2


# ---- map


def test_map_gives_results_in_order(pool: Pool) -> None:
    def call(a: int, b: int) -> int:
        dhaga.sleep(0.01 / (a + 1))
        return a * b

    assert list(pool.map(call, range(9), range(1, 99))) == [n * (n + 1) for n in range(9)]
    assert list(pool.map(call, [], [])) == []


def test_map_raises_at_its_place_and_withdraws_the_rest() -> None:
    with Pool(1, 1) as pool:
        made: list[int] = []

        def call(n: int) -> int:
            made.append(n)
            dhaga.sleep(0.001)
            return 1 // n

        results = pool.map(call, [1, 0, *range(2, 1000)])
        assert next(results) == 1
        with pytest.raises(ZeroDivisionError):
            next(results)
        assert list(results) == []
    assert len(made) < 1000


def test_map_counts_its_timeout_from_the_call() -> None:
    gate = Event()
    with Pool(1, 1) as pool:
        results = pool.map(lambda n: n and gate.wait(), [0, 1], timeout=0.01)
        until(lambda: "1 parked" in repr(gate))  # so the first call has ended
        assert next(results) == 0
        with pytest.raises(TimeoutError):
            next(results)
        gate.set()


def test_imap_unordered_gives_results_as_they_come_and_reads_little_ahead(pool: Pool) -> None:
    gates = [Event() for _ in range(6)]
    read: list[int] = []

    def items() -> Iterator[int]:
        for n in range(6):
            read.append(n)
            yield n

    def call(n: int) -> int:
        gates[n].wait()
        return n

    results = pool.imap_unordered(call, items(), look_ahead=3)
    assert read == []
    gates[2].set()
    assert next(results) == 2 and read == [0, 1, 2]
    gates[0].set()
    assert next(results) == 0 and read == [0, 1, 2, 3]
    for gate in gates:
        gate.set()
    assert sorted(results) == [1, 3, 4, 5] and read == list(range(6))


def test_imap_unordered_takes_an_endless_iterable_and_closing_withdraws_what_has_not_begun() -> None:
    with Pool(1, 1) as pool:
        made: list[int] = []

        def endless() -> Iterator[int]:
            n = 0
            while True:
                yield n
                n += 1

        def call(n: int) -> None:
            made.append(n)
            if n:
                gate.wait()

        gate = Event()
        results = pool.imap_unordered(call, endless(), look_ahead=50)
        next(results)
        results.close()  # type: ignore[attr-defined]
        gate.set()
    assert made in ([0], [0, 1])


def test_imap_unordered_raises_what_a_call_or_the_iterable_raises(pool: Pool) -> None:
    def items() -> Iterator[int]:
        yield 1
        raise LookupError("of the iterable")

    with pytest.raises(LookupError, match="of the iterable"):
        list(pool.imap_unordered(abs, items()))
    with pytest.raises(ZeroDivisionError):
        list(pool.imap_unordered(lambda n: 1 // n, [0, 1]))
    gate = Event()
    with pytest.raises(TimeoutError, match="1 calls have not ended"):
        list(pool.imap_unordered(lambda n: gate.wait(), [1], timeout=0.01))
    gate.set()


# ---- shutdown


def test_the_end_of_the_block_waits_for_every_call_and_ends_the_threads() -> None:
    before = set(threading.enumerate())
    with Pool(2, 2) as pool:
        calls = [pool.submit(dhaga.sleep, 0.005) for _ in range(20)]
        assert len(set(threading.enumerate()) - before) == 2
    assert all(f.done() and f.exception() is None for f in calls) and set(threading.enumerate()) == before
    assert f"<Pool {pool.name} shut down" in repr(pool)


def test_after_shutdown_everything_is_refused_and_it_may_be_repeated(pool: Pool) -> None:
    pool.shutdown()
    for use in (
        lambda: pool.submit(int),
        lambda: pool.map(int, [1]),
        lambda: pool.imap_unordered(int, [1]),
    ):
        with pytest.raises(RuntimeError, match="has been shut down: it takes no more calls"):
            use()
    pool.shutdown()


def test_shutdown_can_cancel_what_runs_and_what_is_due() -> None:
    pool = Pool(2, 2)
    ends: list[str] = []

    def call() -> None:
        try:
            dhaga.sleep(60)
        finally:
            ends.append("finally")

    calls = [pool.submit(call) for _ in range(9)]
    until(lambda: sum(f.running() for f in calls) == 4)
    pool.shutdown(cancel=True)
    assert all(f.cancelled() for f in calls) and ends == ["finally"] * 4


def test_shutdown_names_the_calls_that_do_not_end_in_time() -> None:
    pool = Pool(1, 1)
    gate = Event()
    pool.submit(gate.wait)
    until(lambda: "1 parked" in repr(gate))
    with pytest.raises(TimeoutError, match=rf"have not ended: <Dhaga {pool.name}-1-worker-1 WAITING event.wait>"):
        pool.shutdown(timeout=0.05)
    gate.set()
    pool.shutdown()


def test_shutdown_without_wait_ends_the_threads_later() -> None:
    pool = Pool(2, 1)
    threads = [group.scheduler.thread for group in pool._workers.groups]
    gate = Event()
    calls = [pool.submit(gate.wait) for _ in range(3)]
    pool.shutdown(wait=False)
    assert not calls[0].done()
    gate.set()
    for thread in threads:
        thread.join(30)
    assert [f.result() for f in calls] == [True] * 3


def test_a_block_left_by_a_cancel_cancels_the_calls() -> None:
    calls: list[Future[None]] = []

    def uses() -> None:
        with Pool(1, 1) as pool:
            calls.extend(pool.submit(dhaga.sleep, 60) for _ in range(2))
            dhaga.sleep(60)

    d = dhaga.spawn(uses)
    until(lambda: calls and calls[0].running())
    d.cancel()
    d.join()
    assert all(f.cancelled() for f in calls)


def test_a_call_cannot_wait_for_the_end_of_its_own_pool(pool: Pool) -> None:
    with pytest.raises(RuntimeError, match=r"from within: shutdown\(wait=False\)"):
        pool.submit(pool.shutdown).result()
    assert pool.submit(int).result() == 0


def test_a_coroutine_cannot_wait_for_the_end_of_a_pool(pool: Pool) -> None:
    async def main() -> None:
        with pytest.raises(dhaga.ParkError, match="await"):
            pool.shutdown()
        assert await pool.submit(int) == 0

    asyncio.run(main())


def test_a_pool_that_is_dropped_does_what_it_was_given_and_ends_its_threads() -> None:
    pool = Pool(2, 1)
    threads = [group.scheduler.thread for group in pool._workers.groups]
    calls = [pool.submit(dhaga.sleep, 0.01) for _ in range(3)]
    gone = weakref.ref(pool)
    del pool
    gc.collect()
    assert gone() is None and [f.result(30) for f in calls] == [None] * 3
    for thread in threads:
        thread.join(30)


def test_what_calls_have_spawned_ends_with_the_threads() -> None:
    ends: list[str] = []

    def child() -> None:
        try:
            dhaga.sleep(60)
        finally:
            ends.append("finally")

    with Pool(1, 1) as pool:
        spawned = pool.submit(dhaga.spawn, child).result()
        until(lambda: spawned.reason == "sleep")
    assert ends == ["finally"] and spawned.has_ended


# ---- bad input


@pytest.mark.parametrize("name", ["threads", "dhagas", "max_pending"])
@pytest.mark.parametrize("value", [0, -1])
def test_sizes_must_be_positive(name: str, value: int) -> None:
    with pytest.raises(ValueError, match=f"{name} must be 1 or more, not {value}"):
        Pool(**{name: value})
    with pytest.raises(TypeError, match=f"{name} is a number"):
        Pool(**{name: "2"})


async def a_coroutine_function() -> None:
    pass


def test_bad_calls_are_refused_at_once(pool: Pool) -> None:
    for use in (pool.submit, lambda fn: pool.map(fn, [1]), lambda fn: pool.imap_unordered(fn, [1])):
        with pytest.raises(TypeError, match=r"submit\(fn, \*args\)"):
            use(3)
        with pytest.raises(TypeError, match=r"call await_.*run_in_dhaga"):
            use(a_coroutine_function)
        with pytest.raises(TypeError, match=r"call await_\(coroutine\)"):
            use(a_coroutine_function())
    with pytest.raises(TypeError, match="at least one iterable"):
        pool.map(int)
    with pytest.raises(TypeError, match="not iterable"):
        pool.imap_unordered(int, 3)
    with pytest.raises(ValueError, match="look_ahead must be 1 or more"):
        pool.imap_unordered(int, [1], look_ahead=0)


# ---- processes


def test_at_exit_calls_are_waited_for_as_with_the_standard_pool() -> None:
    code = """
        import sys
        import dhaga
        from dhaga.pool import Pool
        from dhaga.futures import Executor
        from dhaga.threading import Event

        def call(n):
            main_ends.wait()
            dhaga.sleep(0.01)
            sys.stdout.write(f"{n}\\n")
            if n < 3:
                pool.submit(call, n + 2)

        main_ends = Event()
        pool = Pool(1, 1)
        for n in (1, 2):
            pool.submit(call, n)
        Executor().submit(call, 9)
        idle = Pool(2, 2)
        idle.submit(int).result()
        print("main ends")
        main_ends.set()
    """
    lines = prints(code)
    assert lines[0] == "main ends" and sorted(lines[1:]) == ["1", "2", "3", "4", "9"]


def test_ctrl_c_ends_a_program_that_waits_for_its_pool() -> None:
    code = """
        import dhaga
        from dhaga.pool import Pool

        def call():
            try:
                print("begun")
                dhaga.sleep(60)
            finally:
                print("finally")

        with Pool(1, 1) as pool:
            try:
                calls = [pool.submit(call) for _ in range(3)]  # the call may begin, and Ctrl-C come, during the first
                calls[0].result()
            finally:
                print("main is interrupted")
    """
    outcome = Program(code).interrupt_at("begun").outcome()
    assert outcome.lines == ["main is interrupted", "finally"] and "KeyboardInterrupt" in outcome.err


def test_ctrl_c_at_exit_cancels_the_calls() -> None:
    code = """
        import dhaga
        from dhaga.pool import Pool

        def call():
            try:
                print("begun")
                dhaga.sleep(60)
            finally:
                print("finally")

        pool = Pool(1, 1)
        calls = [pool.submit(call) for _ in range(3)]
    """
    outcome = Program(code).interrupt_at("begun").outcome()
    assert outcome.lines == ["finally"]


def test_a_forked_child_is_told_that_the_pool_is_gone() -> None:
    code = """
        import os, threading
        import dhaga
        from dhaga.pool import Pool

        gate = threading.Event()
        pool = Pool(2, 1)
        running, due = [pool.submit(gate.wait) for _ in range(2)], pool.submit(int)
        if os.fork() == 0:
            for future in (*running, due):
                print(repr(future.exception()))
            try:
                pool.submit(int)
            except RuntimeError as error:
                print(error)
            pool.shutdown()
            print(repr(pool)[:18])
            with Pool(1, 1) as mine:
                print(mine.submit(pow, 2, 3).result())
            os._exit(0)
        os.wait()
        gate.set()
        print("parent", due.result())
        pool.shutdown()
    """
    assert prints(code, "-W", "ignore::DeprecationWarning") == [
        *["BrokenExecutor('the call stayed in the parent process')"] * 3,
        "this pool stayed in the parent process: make one of its own in the child",
        "<Pool pool-1 gone,",
        "8",
        "parent 0",
    ]
