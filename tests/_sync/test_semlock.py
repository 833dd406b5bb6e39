"""``multiprocessing`` from a patched program: what waits for a process parks, and nothing hangs."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

import dhaga
from dhaga._sync import semlock
from dhaga._sync.lock import Lock
from dhaga._sync.semlock import SemLock
from dhaga.testing import cancel_at_every_park
from tests.kit.parking import parked, victim
from tests.kit.scripts import PATIENCE, ROOT, prints

PROGRAM = """
    import dhaga.monkey; dhaga.monkey.patch()
    import multiprocessing, sys, threading, time
    from concurrent.futures import ProcessPoolExecutor

    def square(n): return n * n
    def echo(connection):
        while (message := connection.recv()) is not None:
            connection.send(message)
    def produce(queue):
        for n in range(300):
            queue.put((n, "x" * 1000))
    def add(lock, counter):
        for _ in range(100):
            with lock:
                counter.value += 1
    def wait(connection): connection.recv()
    def pass_on(source, sink):
        sink.put(source.get() + 1)

    def main(context):
        here, there = context.Pipe()
        process = context.Process(target=wait, args=(there,))
        process.start()
        ender = threading.Thread(target=lambda: (time.sleep(0.1), here.send("end")))
        ender.start()
        process.join()  # which ends only if the other thread runs meanwhile
        ender.join()
        assert process.exitcode == 0

        here, there = context.Pipe()
        process = context.Process(target=echo, args=(there,))
        process.start()
        there.close()
        for message in ("short", b"x" * 3_000_000):
            here.send(message)
            assert here.recv() == message
        here.send(None)
        process.join()
        here.close()

        queue = context.Queue()
        process = context.Process(target=produce, args=(queue,))
        process.start()
        assert [queue.get()[0] for _ in range(300)] == list(range(300))
        process.join()

        requests, answers = context.Queue(), context.Queue()  # who gets, waits for what this process is to put
        process = context.Process(target=pass_on, args=(requests, answers))
        process.start()
        got = []
        reader = threading.Thread(target=lambda: got.append(answers.get()))
        reader.start()
        time.sleep(0.05)
        requests.put(1)
        reader.join()
        process.join()
        assert got == [2]

        lock, counter = context.RLock(), context.Value("i", 0, lock=False)
        adders = [kind(target=add, args=(lock, counter)) for kind in (context.Process, threading.Thread) * 2]
        for adder in adders: adder.start()
        for adder in adders: adder.join()
        assert counter.value == 400

        with context.Pool(2) as pool:
            assert pool.map(square, range(50), chunksize=1) == [n * n for n in range(50)]
        with ProcessPoolExecutor(2, mp_context=context) as executor:
            assert list(executor.map(square, range(50))) == [n * n for n in range(50)]
        with context.Manager() as manager:
            things = manager.dict(a=1)
            things["b"] = 2
            assert dict(things) == {"a": 1, "b": 2}
        event, condition = context.Event(), context.Condition()
        threading.Timer(0.02, event.set).start()
        assert event.wait(30)
        with condition:
            assert not condition.wait(0.02)
        print("done")

    if __name__ == "__main__":
        main(multiprocessing.get_context(sys.argv[1]))
"""


@pytest.mark.parametrize(
    "method",
    [
        "fork",
        pytest.param("spawn", marks=[pytest.mark.slow, pytest.mark.once]),
        pytest.param("forkserver", marks=pytest.mark.slow),
    ],
)
def test_processes_work_however_they_start(method: str, tmp_path: Path) -> None:
    program = tmp_path / "program.py"  # a file, as spawned children import it
    program.write_text(textwrap.dedent(PROGRAM))
    command = [sys.executable, "-X", "faulthandler", program, method]
    outcome = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=2 * PATIENCE)
    assert (outcome.returncode, outcome.stdout, outcome.stderr) == (0, "done\n", "")


def test_a_semaphore_is_handed_over_within_a_process_at_once() -> None:
    assert prints("""
        import dhaga.monkey; dhaga.monkey.patch()
        import multiprocessing, threading, time
        lock = multiprocessing.RLock()
        order = []
        def take(n):
            with lock, lock:
                order.append(n)
                time.sleep(0.001)
        with lock:  # it is this thread's, and no other's of the same OS thread
            threads = [threading.Thread(target=take, args=(n,)) for n in range(20)]
            for thread in threads: thread.start()
            time.sleep(0.05)
            assert order == []
        for thread in threads: thread.join()
        assert sorted(order) == list(range(20))
        try:
            lock.release()
        except AssertionError as error:
            print(error)
        semaphore = multiprocessing.Semaphore(0)
        assert not semaphore.acquire(False) and not semaphore.acquire(timeout=0.01)
    """) == ["attempt to release recursive lock not owned by thread"]


@pytest.fixture
def parking(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have ``multiprocessing`` here make semaphores of ours."""
    monkeypatch.setattr("_multiprocessing.SemLock", SemLock)


@pytest.mark.usefixtures("parking")
def test_no_permit_is_lost_whenever_a_waiter_is_struck() -> None:
    def scenario() -> Any:
        semaphore = multiprocessing.Semaphore(0)
        taken: list[bool] = []
        waiter = victim(lambda: taken.append(semaphore.acquire()))
        dhaga.spawn(semaphore.release, priority=dhaga.LOW)

        def check() -> None:
            assert taken or semaphore.acquire(False)
            assert not semaphore.acquire(False)

        return waiter, check

    assert cancel_at_every_park(scenario) >= 1


@pytest.mark.usefixtures("parking")
def test_a_condition_of_processes_wakes_dhagas() -> None:
    condition = multiprocessing.Condition()
    order: list[int] = []

    def wait(n: int) -> None:
        with condition:
            assert condition.wait(30)
            order.append(n)

    waiting = [parked(wait, n) for n in range(3)]
    while waiting[0].is_alive() and waiting[0].reason is None:  # runnable for a moment, as it polls
        dhaga.sleep(0.001)
    assert waiting[0].reason == "semaphore of processes"
    with condition:
        condition.notify(1)
    for _ in range(30_000):
        if order:
            break
        dhaga.sleep(0.001)
    assert len(order) == 1
    with condition:
        condition.notify_all()
    for each in waiting:
        each.result()
    assert sorted(order) == [0, 1, 2]


@pytest.mark.usefixtures("parking")
def test_an_rlock_of_processes_belongs_to_a_dhaga() -> None:
    lock = multiprocessing.RLock()

    def steal() -> None:
        assert not lock.acquire(timeout=0.01)
        with pytest.raises(AssertionError, match="not owned"):
            lock.release()

    dhaga.spawn(int).join()
    with lock, lock:
        dhaga.spawn(steal).result()
    dhaga.spawn(lock.acquire).result()
    assert not lock.acquire(False)


@pytest.mark.usefixtures("parking")
def test_an_rlock_of_processes_is_refused_on_the_loop_beside_its_holder() -> None:
    lock = multiprocessing.RLock()

    async def takes() -> None:
        with lock:
            pass

    with lock:
        with pytest.raises(dhaga.ParkError, match="from the event loop itself"):
            dhaga.await_(takes())
        assert not dhaga.spawn(lock.acquire, False).result()
    dhaga.await_(takes())


def test_a_connection_that_was_imported_before_the_patch_parks() -> None:
    assert prints("""
        import multiprocessing.connection
        import dhaga.monkey; dhaga.monkey.patch()
        import threading
        here, there = multiprocessing.Pipe()
        threading.Timer(0.01, there.send, ["sent"]).start()
        print(here.recv())
        dhaga.monkey.unpatch()
        print(multiprocessing.connection.Connection._recv.__defaults__[0].__name__)
    """) == ["sent", "read"]


def test_what_was_put_into_a_queue_is_written_before_the_exit() -> None:
    assert prints("""
        import dhaga.monkey; dhaga.monkey.patch()
        import multiprocessing
        def sum_up(queue):
            print(sum(len(queue.get()) for _ in range(100)), flush=True)
        context = multiprocessing.get_context("fork")
        queue = context.Queue()
        context.Process(target=sum_up, args=(queue,)).start()
        for _ in range(100):
            queue.put("x" * 10_000)
    """) == ["1000000"]


def test_first_waiters_of_two_threads_get_the_same_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    lock: Any = SemLock(1, 1, 1, f"/dhaga-{os.getpid()}", True)
    faster: list[Any] = []

    def made_while_another_thread_comes() -> Lock:
        monkeypatch.setattr(semlock, "Lock", Lock)
        faster.append(lock._turn_and_queue())
        return Lock()

    monkeypatch.setattr(semlock, "Lock", made_while_another_thread_comes)
    assert lock._turn_and_queue() is faster[0] is lock._turn_and_queue()
