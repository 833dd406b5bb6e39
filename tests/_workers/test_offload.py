"""offload: a blocking call in an OS thread, and its caller parked."""

from __future__ import annotations

import asyncio
import gc
import importlib
import inspect
import threading
import time
import weakref
from typing import Any

import pytest

import dhaga
from dhaga._kernel.interpreter.requirements import FREE_THREADED
from dhaga._kernel.process.process_exit import retire_closed_guests
from dhaga._workers.offload import MAX_THREADS, OffloadPool, shared
from dhaga._workers.switch_interval import switch_interval
from dhaga.testing import cancel_at_every_park, settle, virtual_clock
from tests.kit.scripts import prints, run
from tests.kit.socket_cases import eventually

module = importlib.import_module("dhaga._workers.offload")
offloaded_call = importlib.import_module("dhaga._workers.offloaded_call")
worker_threads = importlib.import_module("dhaga._workers.worker_threads")


def test_the_call_runs_in_a_helper_thread_and_others_run_meanwhile() -> None:
    gate = threading.Event()
    steps: list[int] = []

    def counts() -> None:
        for n in range(3):
            dhaga.sleep(0.001)
            steps.append(n)
        gate.set()

    d = dhaga.spawn(counts)
    caller = dhaga.spawn(dhaga.offload, lambda: (gate.wait(30), threading.current_thread().name))
    settle()
    assert "WAITING offload" in repr(caller)
    assert caller.result(30) == (True, "dhaga-offload") and steps == [0, 1, 2]
    d.join()


def test_cancelled_or_timed_out_anywhere_nothing_is_left() -> None:
    def scenario() -> Any:
        made: list[int] = []

        def calls() -> None:
            for n in range(3):
                try:
                    made.append(dhaga.offload(int, n))
                except TimeoutError:
                    made.append(-1)

        victim = dhaga.spawn(calls)
        scheduler = victim.scheduler

        def check() -> None:
            assert scheduler.outside_calls == 0
            assert all(value in (n, -1) for n, value in enumerate(made))

        return victim, check

    assert cancel_at_every_park(scenario) >= 3


def test_a_plain_thread_makes_the_call_itself() -> None:
    idents: list[int] = []

    def thread_code() -> None:
        idents.append(threading.get_ident())
        idents.append(dhaga.offload(threading.get_ident))

    thread = threading.Thread(target=thread_code)
    thread.start()
    thread.join(30)
    assert len(idents) == 2 and idents[0] == idents[1] != threading.get_ident()


def test_main_code_hands_a_call_over_also_before_the_first_dhaga() -> None:
    assert dhaga.offload(threading.get_ident) != threading.get_ident()


def test_a_coroutine_gets_park_error_and_the_call_is_not_made() -> None:
    made: list[int] = []

    async def main() -> None:
        with pytest.raises(dhaga.ParkError):
            dhaga.offload(made.append, 1)

    asyncio.run(main())
    assert not made


def test_many_at_once_overlap() -> None:
    """As many as there are threads at the same time, the rest after them."""
    guard, full = threading.Lock(), threading.Event()
    counts = {"now": 0, "most": 0}

    def call(n: int) -> int:
        with guard:
            counts["now"] += 1
            counts["most"] = max(counts.values())
            if counts["now"] == MAX_THREADS:
                full.set()
        assert full.wait(30)
        with guard:
            counts["now"] -= 1
        return n

    dhagas = [dhaga.spawn(dhaga.offload, call, n) for n in range(MAX_THREADS + 20)]
    assert [d.result(30) for d in dhagas] == list(range(MAX_THREADS + 20))
    assert counts == {"now": 0, "most": MAX_THREADS}


def test_schedulers_share_the_helpers() -> None:
    with dhaga.Scheduler() as one, dhaga.Scheduler() as two:
        dhagas = [scheduler.spawn(dhaga.offload, int, n) for n in range(50) for scheduler in (one, two)]
        assert [d.result(30) for d in dhagas] == [n for n in range(50) for _ in range(2)]
    assert len(shared.workers.threads) <= MAX_THREADS


def test_calls_are_made_in_order_by_a_single_helper(monkeypatch: pytest.MonkeyPatch) -> None:
    single = OffloadPool("dhaga-offload", 1)
    monkeypatch.setattr(module, "shared", single)
    made: list[int] = []
    dhagas = [dhaga.spawn(dhaga.offload, made.append, n) for n in range(10)]
    for d in dhagas:
        d.join(30)
    assert made == list(range(10)) and len(single.workers.threads) == 1


def test_idle_helpers_end(monkeypatch: pytest.MonkeyPatch) -> None:
    idle = OffloadPool("dhaga-offload", 4)
    monkeypatch.setattr(module, "shared", idle)
    monkeypatch.setattr(worker_threads, "IDLE_SECONDS", 0.01)
    dhagas = [dhaga.spawn(dhaga.offload, time.sleep, 0.01) for _ in range(8)]
    for d in dhagas:
        d.result(30)
    deadline = time.monotonic() + 30
    while idle.workers.threads and time.monotonic() < deadline:
        dhaga.sleep(0.01)
    assert not idle.workers.threads and not idle.workers.idle
    assert dhaga.offload(int, 7) == 7


# ---- a pool of one's own


def test_a_pool_of_its_own_never_waits_behind_other_blocking_work(wal: OffloadPool) -> None:
    gate = threading.Event()
    blocked = [dhaga.spawn(dhaga.offload, gate.wait, 30) for _ in range(100)]
    settle()
    commits = [dhaga.spawn(wal.offload, lambda n=n: (n, threading.current_thread().name)) for n in range(10)]
    assert [d.result(30) for d in commits] == [(n, "wal") for n in range(10)]
    assert all(d.reason == "offload" for d in blocked)
    gate.set()
    assert [d.result(30) for d in blocked] == [True] * 100


def test_one_thread_makes_calls_in_the_order_of_their_coming_from_dhagas_and_threads(wal: OffloadPool) -> None:
    begun, gate = threading.Event(), threading.Event()
    made: list[str] = []
    first = dhaga.spawn(wal.offload, lambda: (begun.set(), gate.wait(30)))
    while not begun.is_set():  # before that, it is among the pool's calls
        dhaga.sleep(0.001)
    second = dhaga.spawn(wal.offload, made.append, "dhaga")
    settle()
    idents: list[int] = []

    def thread_code() -> None:
        wal.offload(made.append, "thread")
        idents.extend([threading.get_ident(), wal.offload(threading.get_ident)])

    thread = threading.Thread(target=thread_code)
    thread.start()
    while len(wal.workers.calls) < 2:
        dhaga.sleep(0.001)
    third = dhaga.spawn(wal.offload, made.append, "later")
    settle()
    assert made == [] and third.reason == "offload wal"
    gate.set()
    for d in (first, second, third):
        d.result(30)
    dhaga.offload(thread.join)
    assert made == ["dhaga", "thread", "later"]
    assert idents[0] != idents[1] != threading.get_ident()


def lock_of_this_call() -> Any:
    """Return what the caller waits for until its call begins. From: a thread of a pool."""
    thread: Any = threading.current_thread()
    return thread.call.started


@pytest.mark.skipif(FREE_THREADED, reason="no thread waits for an interpreter lock there")
def test_a_call_of_a_high_dhaga_begins_before_another_dhaga_runs(
    wal: OffloadPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offloaded_call, "START_SECONDS", 30)
    dhaga.spawn(wal.offload, int).result(30)
    while not wal.workers.idle:
        dhaga.sleep(0.001)

    def make_slowly(thread: Any, call: Any) -> None:
        time.sleep(0.02)
        begun.append(call)
        usual_make(thread, call)

    begun: list[Any] = []
    usual_make = worker_threads.WorkerThread.make
    monkeypatch.setattr(worker_threads.WorkerThread, "make", make_slowly)
    gate = threading.Event()
    caller = dhaga.spawn(wal.offload, gate.wait, 30, priority=dhaga.HIGH)
    other = dhaga.spawn(lambda: (len(begun), gate.set()))
    assert other.result(30) == (1, None) and caller.result(30)


@pytest.mark.parametrize(
    ("way", "priority", "others"),
    [("offload", dhaga.HIGH, 0), ("offload", dhaga.NORMAL, 1), ("finish", dhaga.HIGH, 1)],
)
def test_no_scheduler_waits_for_the_start_of_other_calls(
    wal: OffloadPool, way: str, priority: dhaga.Priority, others: int
) -> None:
    caller = dhaga.spawn(getattr(wal, way), lock_of_this_call, priority=priority)
    for other in [dhaga.spawn(int) for _ in range(others)]:
        other.join()
    assert caller.result(30) is None


@pytest.mark.skipif(FREE_THREADED, reason="no thread waits for an interpreter lock there")
def test_a_signal_handler_that_raises_while_the_scheduler_waits_leaves_the_pool_whole(
    wal: OffloadPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(call: Any) -> None:
        raise KeyboardInterrupt

    dhaga.spawn(wal.offload, int).result(30)
    while not wal.workers.idle:
        dhaga.sleep(0.001)
    gate = threading.Event()
    with monkeypatch.context() as patched:
        patched.setattr(offloaded_call.ThreadCall, "await_start", interrupted)
        caller = dhaga.spawn(raised_by, wal.offload, gate.wait, 30, priority=dhaga.HIGH)
        assert caller.result(30) is KeyboardInterrupt
    later = dhaga.spawn(wal.offload, int)
    gate.set()
    assert later.result(30) == 0


def raised_by(function: Any, *args: Any) -> type[BaseException] | None:
    """Return the class of the error that a call raises."""
    try:
        function(*args)
    except BaseException as error:
        return type(error)
    return None


def test_a_high_dhaga_does_not_wait_for_a_thread_that_is_busy(
    wal: OffloadPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offloaded_call, "START_SECONDS", 30)
    gate = threading.Event()
    first = dhaga.spawn(wal.offload, gate.wait, 60)
    settle()
    second = dhaga.spawn(wal.offload, int, priority=dhaga.HIGH)
    dhaga.spawn(gate.set).join()
    assert first.result(30) and second.result(30) == 0


def test_errors_reach_a_plain_thread_that_calls_through_a_pool(wal: OffloadPool) -> None:
    """The main code has no dhagas here: it is a plain thread, too."""
    with pytest.raises(LookupError, match="of the call"):
        wal.offload(lambda: exec("raise LookupError('of the call')"))
    assert wal.offload(threading.get_ident) != threading.get_ident()


def test_finish_is_not_left_by_a_cancel_which_is_raised_afterwards(wal: OffloadPool) -> None:
    gate = threading.Event()
    steps: list[object] = []

    def commits() -> None:
        steps.append(wal.finish(gate.wait, 30))
        try:
            dhaga.sleep(30)
        except dhaga.Cancelled as cancelled:
            steps.append(cancelled.reason)

    d = dhaga.spawn(commits)
    settle()
    d.cancel("too late")
    settle()
    assert steps == [] and d.reason == "offload wal"
    gate.set()
    d.join(30)
    assert steps == [True, "too late"]


def test_the_repr_tells_the_state() -> None:
    wal = OffloadPool("wal", threads=2)
    assert repr(wal) == "<OffloadPool wal, 0 of 2 threads, 0 free, 0 calls due>"
    gate = threading.Event()
    callers = [dhaga.spawn(wal.offload, gate.wait, 30) for _ in range(3)]
    settle()
    eventually(lambda: len(wal.workers.calls) == 1)  # each thread takes its call in its own time
    assert repr(wal) == "<OffloadPool wal, 2 of 2 threads, 0 free, 1 calls due>"
    assert repr(callers[2].waits_on) == "<ThreadCall of wait through wal>"
    gate.set()
    wal.shutdown()
    assert repr(wal) == "<OffloadPool wal, 0 of 2 threads, 0 free, 0 calls due, shut down>"
    assert [d.result(30) for d in callers] == [True] * 3


def test_a_pool_that_was_dropped_goes_when_its_threads_have_been_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_threads, "IDLE_SECONDS", 0.01)
    pool = OffloadPool("dropped", threads=2)
    dhaga.spawn(pool.offload, int).join(30)
    gone = weakref.ref(pool)
    del pool
    deadline = time.monotonic() + 30
    while gone() is not None and time.monotonic() < deadline:
        dhaga.sleep(0.01)
        gc.collect()
    assert gone() is None


# ---- the decorator


def test_offloaded_functions_and_methods_go_through_their_pool_wherever_they_are_called(wal: OffloadPool) -> None:
    class Store:
        def __init__(self) -> None:
            self.made: list[tuple[str, int]] = []

        @wal.offloaded
        def commit(self, number: int, *, sync: bool = True) -> str:
            """Write it down."""
            self.made.append((threading.current_thread().name, number))
            return f"{number} {sync}"

        @dhaga.offloaded
        def look_up(self) -> str:
            return threading.current_thread().name

    store = Store()
    assert dhaga.spawn(store.commit, 1, sync=False).result(30) == "1 False"
    assert dhaga.spawn(store.look_up).result(30) == "dhaga-offload"
    assert store.made == [("wal", 1)]
    assert (Store.commit.__name__, Store.commit.__doc__) == ("commit", "Write it down.")
    assert list(inspect.signature(Store.commit).parameters) == ["self", "number", "sync"]


# ---- shutdown


def test_shutdown_makes_the_calls_taken_and_refuses_others() -> None:
    wal = OffloadPool("wal", threads=1)
    gate = threading.Event()
    made: list[int] = []
    callers = [dhaga.spawn(wal.offload, lambda n=n: (gate.wait(30), made.append(n))) for n in range(3)]
    settle()
    shutting = dhaga.spawn(wal.shutdown)
    settle()
    assert shutting.reason == "shutdown wal" and made == []
    with pytest.raises(RuntimeError, match=r"wal.*shut down.*takes no more calls"):
        wal.offload(made.append, 4)
    gate.set()
    shutting.result(30)
    assert made == [0, 1, 2] and not wal.workers.threads
    for d in callers:
        d.result(30)
    wal.shutdown()
    with pytest.raises(RuntimeError, match="takes no more calls"):
        wal.finish(made.append, 4)
    assert made == [0, 1, 2] and dhaga.current().scheduler.outside_calls == 0


def test_shutdown_without_waiting_lets_the_calls_end_by_themselves() -> None:
    wal = OffloadPool("wal", threads=1)
    gate = threading.Event()
    caller = dhaga.spawn(wal.offload, gate.wait, 30)
    settle()
    wal.shutdown(wait=False)
    gate.set()
    assert caller.result(30) is True
    wal.shutdown(timeout=30)
    assert not wal.workers.threads


@pytest.mark.parametrize("timeout", [0, 0.01])
def test_shutdown_names_the_calls_that_do_not_end_in_time(timeout: float) -> None:
    wal = OffloadPool("wal", threads=1)
    begun, gate = threading.Event(), threading.Event()

    def wait() -> None:
        begun.set()
        gate.wait(30)

    callers: list[dhaga.Dhaga[Any]] = [dhaga.spawn(wal.offload, wait), dhaga.spawn(wal.offload, time.sleep, 0)]
    while not begun.is_set():  # between the backlog and its thread, a call is in neither
        dhaga.sleep(0.001)
    with pytest.raises(TimeoutError, match=r"wal.*Call of wait.*Call of sleep"):
        wal.shutdown(timeout=timeout)
    gate.set()
    wal.shutdown(timeout=30)
    for d in callers:
        d.join(30)


def test_shutdown_by_a_plain_thread_blocks_it() -> None:
    """The main code is one here."""
    wal = OffloadPool("wal", threads=2)
    assert wal.offload(threading.get_ident) != threading.get_ident()
    with pytest.raises(TimeoutError):
        began, slow = threading.Event(), threading.Event()
        threading.Thread(target=wal.offload, args=(lambda: (began.set(), slow.wait(30)),)).start()
        began.wait(30)
        wal.shutdown(timeout=0.01)
    slow.set()
    wal.shutdown(timeout=30)
    assert not wal.workers.threads


def test_a_call_cannot_wait_for_the_shutdown_of_its_own_pool(main_dhaga: None) -> None:
    wal = OffloadPool("wal", threads=1)
    with pytest.raises(RuntimeError, match=r"shutdown\(wait=False\)"):
        wal.offload(wal.shutdown)
    wal.offload(wal.shutdown, wait=False)
    wal.shutdown(timeout=30)
    assert not wal.workers.threads


def test_the_virtual_clock_stands_still_while_a_shutdown_waits_for_real_threads() -> None:
    with virtual_clock() as clock:
        wal = OffloadPool("wal", threads=1)
        d = dhaga.spawn(wal.offload, time.sleep, 0.02)
        settle()
        wal.shutdown(timeout=0.001)
        d.result()
        assert clock.now == 0


def test_cancelled_or_timed_out_anywhere_a_shutdown_can_be_repeated() -> None:
    def scenario() -> Any:
        wal = OffloadPool("wal", threads=1)
        gate = threading.Event()
        dhaga.spawn(wal.offload, gate.wait, 30)

        def check() -> None:
            wal.shutdown(timeout=30)
            assert not wal.workers.threads and victim.scheduler.outside_calls == 0

        victim = dhaga.spawn(wal.shutdown)
        dhaga.spawn(gate.set)  # only now: the victim would not park if the thread had ended before
        return victim, check

    assert cancel_at_every_park(scenario) >= 1


# ---- bad input


@pytest.mark.parametrize("threads", [0, -1])
def test_a_pool_needs_a_thread(threads: int) -> None:
    with pytest.raises(ValueError, match=f"at least one thread, not {threads}"):
        OffloadPool("wal", threads=threads)


@pytest.mark.parametrize(("name", "threads"), [(1, 1), ("wal", 1.5), ("wal", True), ("wal", None), (None, 1)])
def test_a_pool_needs_a_name_and_a_number(name: Any, threads: Any) -> None:
    with pytest.raises(TypeError, match="OffloadPool"):
        OffloadPool(name, threads)
    with pytest.raises(ValueError, match="needs a name"):
        OffloadPool("", 1)


def test_a_coroutine_gets_park_error_from_a_pool_too(wal: OffloadPool) -> None:
    async def main() -> None:
        for door in (wal.offload, wal.finish):
            with pytest.raises(dhaga.ParkError):
                door(int)
        with pytest.raises(dhaga.ParkError):
            wal.shutdown()

    asyncio.run(main())
    assert not wal.workers.closed and not wal.workers.threads


@pytest.mark.logs
def test_a_thread_outlives_a_caller_whose_loop_was_closed(wal: OffloadPool, caplog: pytest.LogCaptureFixture) -> None:
    gate = threading.Event()
    loop = asyncio.new_event_loop()

    async def main() -> None:
        dhaga.spawn(wal.offload, gate.wait, 30)
        await asyncio.sleep(0.01)

    loop.run_until_complete(main())
    loop.close()
    gate.set()
    assert dhaga.spawn(wal.offload, int, 5).result(30) == 5
    retire_closed_guests()
    assert "these dhagas are left over" in caplog.text
    assert switch_interval.running_calls == [0, 0]


# ---- the process: exit and fork


PROCESS = """
import logging, os, signal, sys, threading, time, warnings
import dhaga
from dhaga._kernel import hooks

warnings.filterwarnings("ignore", "This process .* is multi-threaded, use of fork")

wal = dhaga.OffloadPool("wal", threads=1)

begun, go_on = threading.Event(), threading.Event()

def commit(name, seconds=0.1):
    begun.set()
    time.sleep(seconds)
    print("committed", name, flush=True)

"""


def test_a_commit_that_has_begun_is_not_lost_at_exit() -> None:
    assert prints(
        PROCESS
        + """if True:
        hooks.after_dhagas_at_exit.insert(0, go_on.set)  # once the daemons are cancelled
        caller = dhaga.spawn(wal.offload, lambda: (begun.set(), go_on.wait(), commit("of a cancelled dhaga")))
        dhaga.spawn(wal.offload, commit, "of a daemon", daemon=True)
        while not begun.is_set():
            dhaga.sleep(0.001)
        caller.cancel()
        threading.Thread(target=wal.offload, args=(commit, "of a daemon thread"), daemon=True).start()
        while len(wal.workers.calls) < 2:
            dhaga.sleep(0.001)
        dhaga.spawn(dhaga.offload, time.sleep, 60, daemon=True)  # the shared pool: nobody waits
        dhaga.sleep(0.01)
        print("the main code ends", flush=True)
    """
    ) == [
        "the main code ends",
        "committed of a cancelled dhaga",
        "committed of a daemon thread",
    ]


def test_a_commit_that_does_not_end_is_named_at_exit_and_left() -> None:
    outcome = run(
        PROCESS
        + """if True:
        from dhaga._kernel.process import process_exit
        process_exit.EXIT_SECONDS = 0.1
        dhaga.spawn(wal.offload, commit, "never", 60, daemon=True)
        while not begun.is_set():  # the exit would drop a call that no thread has taken yet
            dhaga.sleep(0.001)
    """
    )
    assert (outcome.status, outcome.out) == (0, "")
    assert "at exit: <OffloadPool wal" in outcome.err and "Call of commit" in outcome.err


def test_a_forked_child_has_pools_without_threads_and_calls_of_the_parents() -> None:
    lines = prints(
        PROCESS
        + """if True:
        wal.offload(int)
        caller = dhaga.spawn(wal.offload, lambda: (begun.set(), go_on.wait(), commit("by the parent")))
        waits = dhaga.spawn(wal.offload, int)
        while not begun.is_set():
            dhaga.sleep(0.001)
        pid = os.fork()
        if not pid:
            print("child:", repr(wal), dhaga.spawn(wal.offload, int, "7").result(), wal.offload(lambda: 8), flush=True)
            sys.exit(5)
        print("status", os.waitstatus_to_exitcode(dhaga.offload(os.waitpid, pid, 0)[1]), flush=True)
        go_on.set()
        caller.join()
    """
    )
    assert lines == [
        "child: <OffloadPool wal, 0 of 1 threads, 0 free, 0 calls due> 7 8",
        "status 5",
        "committed by the parent",
    ]


def test_a_child_that_returns_from_the_call_that_forked_it_is_ended_with_a_word() -> None:
    outcome = run(
        PROCESS
        + """if True:
        logging.basicConfig(format="%(message)s", stream=sys.stdout)
        def forks(status):
            pid = os.fork()
            if not pid and status:
                sys.exit(status)
            return pid
        dhaga.spawn(int).join()
        for status in (0, 3):
            pid = dhaga.offload(forks, status)
            print("status", os.waitstatus_to_exitcode(dhaga.offload(os.waitpid, pid, 0)[1]), flush=True)
    """
    )
    assert outcome.err == ""
    first, *others = outcome.lines
    assert "Call of forks" in first and "end the child within the call" in first
    assert [line for line in others if line.startswith("status")] == ["status 70", "status 3"]


def test_a_pool_that_a_thread_waits_for_is_no_deadlock_and_an_idle_one_is() -> None:
    assert prints(
        PROCESS
        + """if True:
        from dhaga import threading as dthreading
        threading.Thread(target=wal.offload, args=(time.sleep, 0.05)).start()
        wal.offload(time.sleep, 0.05)
        dhaga.spawn(wal.offload, time.sleep, 0.05).join()
        lock = dthreading.Lock()
        lock.acquire()
        try:
            lock.acquire()
        except dhaga.Deadlock:
            print("deadlock")
    """
    ) == ["deadlock"]
