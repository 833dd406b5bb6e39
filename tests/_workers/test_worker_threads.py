"""The threads of an offload pool: calls within calls, and threads that do not start."""

from __future__ import annotations

import re
import threading
import time
from typing import Any

import pytest

import dhaga
from dhaga._workers import offload
from dhaga._workers.offload import OffloadPool
from dhaga._workers.offloaded_call import ThreadCall
from dhaga._workers.worker_threads import WorkerThread

# ---- calls that are under way


class Watched:
    """A guard that records, whenever it is released, which calls are pending and which call a thread makes."""

    def __init__(self, thread: WorkerThread) -> None:
        self.thread = thread
        self.seen: list[tuple[list[Any], Any]] = []

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        self.seen.append((list(self.thread.workers.calls), self.thread.call))


def test_a_call_goes_from_the_backlog_to_its_thread_in_one_step(
    wal: OffloadPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    workers, thread = wal.workers, WorkerThread(wal)
    call = ThreadCall(workers, int, (), {})
    workers.threads.add(thread)
    workers.calls[call] = None
    watched = Watched(thread)
    with monkeypatch.context() as patch:
        patch.setattr(workers, "guard", watched)
        next_call = workers.next_call(thread)
    workers.reset()
    assert next_call is call and watched.seen == [([], call)]


def test_the_error_of_a_shutdown_names_the_calls_that_have_not_ended(wal: OffloadPool) -> None:
    workers, threads = wal.workers, [WorkerThread(wal) for _ in range(3)]
    made, under_way, pending = (ThreadCall(workers, kind, (), {}) for kind in (int, str, list))
    workers.threads.update(threads)
    workers.calls.update({made: None, under_way: None, pending: None})
    assert [workers.next_call(thread) for thread in threads[:2]] == [made, under_way]
    made.function = None
    with pytest.raises(TimeoutError) as caught:
        workers.wait_for_end(0)
    workers.reset()
    assert re.findall(r"ThreadCall of (\w+)", str(caught.value)) == ["str", "list"]


# ---- calls within calls


def test_offload_within_an_offloaded_call_runs_in_the_same_thread(main_dhaga: None) -> None:
    ident, inner = dhaga.offload(lambda: (threading.get_ident(), dhaga.offload(threading.get_ident)))
    assert ident == inner != threading.get_ident()


def test_a_call_within_a_call_of_the_same_pool_is_made_there_and_then(wal: OffloadPool, main_dhaga: None) -> None:
    outer, inner = wal.offload(lambda: (threading.get_ident(), wal.offload(threading.get_ident)))
    assert outer == inner != threading.get_ident()


def test_pools_call_each_other(wal: OffloadPool, main_dhaga: None) -> None:
    with OffloadPool("index", threads=1) as index:
        assert wal.offload(lambda: index.offload(lambda: threading.current_thread().name)) == "index"


def test_a_finalizer_that_strikes_the_holder_of_the_guard_makes_its_call_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    idents: list[int] = []

    class Connection:
        def __del__(self) -> None:
            idents.append(pool.offload(threading.get_ident))

    def make(thread: WorkerThread, pool: OffloadPool) -> None:
        assert pool.workers.guard._is_owned()
        Connection()
        initialize(thread, pool)

    def offload() -> None:
        idents.extend((threading.get_ident(), pool.offload(threading.get_ident)))

    pool, initialize = OffloadPool("struck", 1), WorkerThread.__init__
    monkeypatch.setattr(WorkerThread, "__init__", make)
    caller = threading.Thread(target=offload, daemon=True)
    caller.start()
    caller.join(30)
    assert not caller.is_alive()
    finalizers, callers, threads = idents
    assert finalizers == callers != threads
    pool.shutdown()


# ---- idle threads


def test_a_thread_that_is_woken_as_its_idle_time_ends_is_woken_once() -> None:
    """The gate opens after the thread's wait at the gate has timed out."""
    pool = OffloadPool("idle", 1)
    thread = WorkerThread(pool)
    pool.workers.threads.add(thread)
    pool.workers.idle.append(thread)
    pool.workers.wake_idle_thread()
    pool.workers.end_if_idle(thread)
    assert thread in pool.workers.threads and not thread.gate.acquire(False)


# ---- threads that do not start


def test_that_no_thread_can_be_started_is_raised(main_dhaga: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_: object) -> None:
        raise RuntimeError("can't start new thread")

    none = OffloadPool("dhaga-offload", 4)
    monkeypatch.setattr(offload, "shared", none)
    monkeypatch.setattr(WorkerThread, "start", fails)
    with pytest.raises(RuntimeError, match="can't start"):
        dhaga.offload(int)
    assert not none.workers.calls and not none.workers.threads and dhaga.current().scheduler.outside_calls == 0


def test_calls_whose_threads_fail_to_start_together_all_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first failure leaves its call to the second thread, which then fails as well."""
    pool = OffloadPool("failing", 2)
    starting: list[object] = []
    errors: list[str] = []

    def offload() -> None:
        try:
            pool.offload(int)
        except RuntimeError as error:
            errors.append(str(error))

    first, second = threading.Thread(target=offload, daemon=True), threading.Thread(target=offload, daemon=True)

    def fails(thread: object) -> None:
        starting.append(thread)
        if len(starting) == 1:
            second.start()
        while len(starting) < 2 or (thread is starting[1] and starting[0] in pool.workers.threads):
            time.sleep(0.001)
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(WorkerThread, "start", fails)
    first.start()
    for caller in (first, second):
        caller.join(30)
    assert [error.endswith("can't start new thread") for error in errors] == [True, True]
    assert not pool.workers.calls and not pool.workers.threads


@pytest.mark.parametrize("begun", [True, False])
def test_a_handler_that_raises_while_a_thread_starts_leaves_the_pool_whole(
    main_dhaga: None, monkeypatch: pytest.MonkeyPatch, begun: bool
) -> None:
    """Thread.start() waits for the thread: there a busy machine is struck."""
    began, gate = threading.Event(), threading.Event()

    def start_and_raise(thread: threading.Thread) -> None:
        if not begun:
            pool.workers.guard.acquire()
        start(thread)
        if begun:
            began.wait(30)
        else:
            pool.workers.guard.release()
        raise KeyboardInterrupt

    pool, start = OffloadPool("struck", 1), WorkerThread.start
    monkeypatch.setattr(WorkerThread, "start", start_and_raise)
    with pytest.raises(KeyboardInterrupt):
        pool.offload(lambda: (began.set(), gate.wait(30)))
    monkeypatch.undo()
    gate.set()
    assert dhaga.spawn(pool.offload, pow, 2, 3).result(30) == 8
    pool.shutdown()
    assert not pool.workers.calls and not pool.workers.threads and not pool.workers.idle
