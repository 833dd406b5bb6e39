"""Preemption: a dhaga that computes or polls gives its turn up, and where it never does."""

from __future__ import annotations

import asyncio
import io
import signal
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any

import pytest

import dhaga
from dhaga import queue, socket
from dhaga import threading as ours
from dhaga._kernel.interpreter.requirements import FREE_THREADED
from dhaga._kernel.process import preemption_events, preemption_watcher
from dhaga._kernel.run import preemption
from dhaga.testing import preempt_everywhere
from tests._kernel.conftest import QUANTUM
from tests.kit.scripts import prints

needs_events = pytest.mark.skipif(sys.version_info < (3, 12), reason="sys.monitoring came with Python 3.12")


# ---- layer two: code that calls nothing


@needs_events
def test_a_dhaga_that_computes_lets_others_run(preemptive: dhaga.Scheduler) -> None:
    ended: list[int] = []

    def compute() -> int:
        rounds = 0
        while not ended:
            rounds += 1
        return rounds

    computing = [preemptive.spawn(compute) for _ in range(3)]
    preemptive.spawn(lambda: (dhaga.sleep(0.001), dhaga.sleep(0.001), ended.append(1)))
    assert all(each.result() for each in computing)
    assert preemptive.preemptions


@needs_events
@pytest.mark.parametrize("body", ["sum(range(100))", "helper()", "[each for each in range(100)]", "next(endless)"])
def test_turns_end_in_calls_comprehensions_and_generators(preemptive: dhaga.Scheduler, body: str) -> None:
    program: dict[str, Any] = {"ended": []}
    exec(
        "def helper(): return 1\n"
        "def count():\n"
        "    while True: yield 1\n"
        "endless = count()\n"
        f"def compute():\n    while not ended: {body}\n",
        program,
    )
    computing = preemptive.spawn(program["compute"])
    preemptive.spawn(lambda: (dhaga.sleep(0.001), program["ended"].append(1)))
    computing.join()


@needs_events
def test_schedulers_of_several_os_threads_are_preempted_each() -> None:
    ended: list[int] = []

    def compute() -> None:
        while len(ended) < 2:
            pass

    with dhaga.Scheduler(preempt=QUANTUM) as one, dhaga.Scheduler(preempt=QUANTUM) as other:
        computing = [scheduler.spawn(compute) for scheduler in (one, other)]
        for scheduler in (one, other):
            scheduler.spawn(ended.append, 1)
        for each in computing:
            each.join()
        assert one.preemptions and other.preemptions
    preemption_watcher.turn_off()


def test_the_watchers_thread_runs_once_it_is_started() -> None:
    for _ in range(20):
        watcher = preemption_watcher.Watcher()
        assert watcher._native_id
        watcher.stop()


@pytest.mark.parametrize(("interval", "expected"), [(0.005, 0.0025), (0.1, 0.0025), (0.0001, 0.0074)])
def test_a_turn_is_not_overlong_sooner_where_the_watcher_gets_the_interpreter_lock_soon(
    interval: float, expected: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "getswitchinterval", lambda: interval)
    assert preemption_watcher.overlong_after(0.01) == pytest.approx(0.0075 if FREE_THREADED else expected)


# ---- layer one: calls that find nothing

POLLS: dict[str, Callable[[], Callable[[], object]]] = {
    "Event.is_set": lambda: ours.Event().is_set,
    "Event.wait": lambda: partial(ours.Event().wait, 0),
    "Lock.acquire": lambda: partial(held(ours.Lock()).acquire, False),
    "Lock.locked": lambda: held(ours.Lock()).locked,
    "RLock.acquire": lambda: partial(held_elsewhere().acquire, blocking=False),
    "Semaphore.acquire": lambda: partial(ours.Semaphore(0).acquire, blocking=False),
    "Queue.empty": lambda: queue.Queue[int]().empty,
    "Queue.qsize": lambda: queue.Queue[int]().qsize,
    "Queue.full": lambda: queue.Queue[int](1).full,
    "Queue.get_nowait": lambda: failing(queue.Queue[int]().get_nowait, queue.Empty),
    "Queue.get": lambda: failing(partial(queue.Queue[int]().get, block=False), queue.Empty),
    "Queue.put_nowait": lambda: failing(partial(full_queue().put_nowait, 1), queue.Full),
    "SimpleQueue.empty": lambda: queue.SimpleQueue[int]().empty,
    "SimpleQueue.get_nowait": lambda: failing(queue.SimpleQueue[int]().get_nowait, queue.Empty),
}


def held(lock: Any) -> Any:
    lock.acquire()
    return lock


def held_elsewhere() -> Any:
    lock = ours.RLock()
    dhaga.spawn(lock.acquire).join()
    return lock


def full_queue() -> queue.Queue[int]:
    full = queue.Queue[int](1)
    full.put(1)
    return full


def failing(call: Callable[[], object], error: type[Exception]) -> Callable[[], None]:
    def poll() -> None:
        with pytest.raises(error):
            call()

    return poll


@pytest.mark.parametrize("poll", POLLS)
def test_a_dhaga_that_polls_lets_others_run(
    preemptive: dhaga.Scheduler, poll: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    poll_until_another_runs(preemptive, POLLS[poll], monkeypatch)


@pytest.mark.parametrize("call", ["recv", "recv_into", "accept"])
def test_a_socket_is_polled_without_blocking_others(
    preemptive: dhaga.Scheduler, call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    left, right = socket.socketpair()
    listener = socket.create_server(("127.0.0.1", 0))
    with left, right, listener:
        for each in (left, listener):
            each.setblocking(False)
        calls = {
            "recv": lambda: left.recv(1),
            "recv_into": lambda: left.recv_into(bytearray(1)),
            "accept": listener.accept,
        }
        poll_until_another_runs(preemptive, lambda: failing(calls[call], BlockingIOError), monkeypatch)


def poll_until_another_runs(
    preemptive: dhaga.Scheduler, make: Callable[[], Callable[[], object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Only calls end turns, as before CPython 3.12 and where a debugger owns the events.
    monkeypatch.setattr(preemption_watcher.watcher, "events", None)
    ended: list[int] = []

    def poll_until_ended() -> None:
        look = make()
        dhaga.spawn(ended.append, 1)
        while not ended:
            look()

    preemptive.spawn(poll_until_ended).join()
    assert preemptive.preemptions


def test_a_thread_is_polled_until_it_has_ended() -> None:
    assert prints("""
        import threading, dhaga.monkey
        dhaga.monkey.patch()
        thread = threading.Thread(target=lambda: None)
        thread.start()
        other = threading.Thread(target=lambda: [None for _ in range(10)])
        other.start()
        while thread.is_alive() or other.is_alive():
            pass
        print("ended")
    """) == ["ended"]


# ---- where a turn never ends


def keeps_its_turn(in_a_dhaga: Callable[[Callable[[], None]], object]) -> bool:
    """Return whether no other dhaga runs while ``in_a_dhaga`` calls a function that computes."""
    trace: list[str] = []

    def compute() -> None:
        trace.append("begins")
        for _ in range(50):
            len(trace)
        trace.append("ends")

    def run_beside() -> None:
        while "ends" not in trace:
            trace.append("another")
            dhaga.sleep(0)

    with preempt_everywhere():
        computing = dhaga.spawn(in_a_dhaga, compute)
        other = dhaga.spawn(run_beside)
        computing.join()
        other.join()
    return trace.index("ends") == trace.index("begins") + 1


class CallsWhenFreed:
    def __init__(self, call: Callable[[], None]) -> None:
        self.call = call

    def __del__(self) -> None:
        self.call()


class CallsInPut(queue.Queue[Any]):
    def _put(self, item: Any) -> None:
        item()


class CallsInWrite(io.RawIOBase):
    """A raw file in Python: the buffer over it is locked while the file writes."""

    def __init__(self, call: Callable[[], None]) -> None:
        self.call = call

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self.call()
        return len(data)


def call_in_raw_file(compute: Callable[[], None]) -> None:
    with io.BufferedWriter(CallsInWrite(compute)) as file:
        file.write(b"data")


def call_within(block: Callable[[], Any]) -> Callable[[Callable[[], None]], None]:
    def call(compute: Callable[[], None]) -> None:
        with block():
            compute()

    return call


async def calling(compute: Callable[[], None]) -> None:
    compute()


def call_as_callback(compute: Callable[[], None]) -> None:
    future: Future[None] = Future()
    dhaga.current().scheduler.loop.call_soon_threadsafe(lambda: (compute(), future.set_result(None)))
    while not future.done():
        dhaga.sleep(0.001)


def call_traced(compute: Callable[[], None]) -> None:
    sys.settrace(lambda *_: None)
    try:
        compute()
    finally:
        sys.settrace(None)


def import_module_that_calls(compute: Callable[[], None], tmp_path: Any) -> None:
    (tmp_path / "computes_at_import.py").write_text("import builtins\nbuiltins.compute()\n")
    sys.path.insert(0, str(tmp_path))
    vars(__import__("builtins"))["compute"] = compute
    try:
        __import__("computes_at_import")
    finally:
        sys.path.remove(str(tmp_path))
        del sys.modules["computes_at_import"], vars(__import__("builtins"))["compute"]


@needs_events
@pytest.mark.parametrize(
    "call",
    [
        call_within(dhaga.no_preempt),
        call_within(dhaga.no_park),
        lambda compute: CallsWhenFreed(compute) and None,
        lambda compute: CallsInPut().put(compute),
        call_in_raw_file,
        lambda compute: dhaga.await_(calling(compute)),
        lambda compute: asyncio.run(calling(compute)),
        call_as_callback,
        call_traced,
    ],
    ids=[
        "no_preempt",
        "no_park",
        "finalizer",
        "Queue._put",
        "raw file",
        "coroutine",
        "asyncio.run",
        "callback",
        "trace function",
    ],
)
def test_a_turn_lasts_where_a_thread_state_or_a_lock_of_ours_is_in_use(call: Callable[[Any], object]) -> None:
    assert keeps_its_turn(call)
    assert not keeps_its_turn(lambda compute: compute())


@needs_events
def test_a_turn_lasts_while_a_module_is_imported(tmp_path: Any) -> None:
    assert keeps_its_turn(lambda compute: import_module_that_calls(compute, tmp_path))


@needs_events
def test_a_turn_lasts_in_a_signal_handler() -> None:
    def call_in_handler(compute: Callable[[], None]) -> None:
        signal.signal(signal.SIGUSR1, lambda *_: compute())
        preemption.signal_handlers = preemption_watcher.codes_of_signal_handlers()  # as the watcher does now and then
        signal.raise_signal(signal.SIGUSR1)

    former = signal.getsignal(signal.SIGUSR1)
    try:
        assert keeps_its_turn(call_in_handler)
    finally:
        signal.signal(signal.SIGUSR1, former)


@needs_events
def test_events_are_a_debuggers_where_it_has_registered(preemptive: dhaga.Scheduler) -> None:
    monitoring: Any = preemption_events.monitoring
    monitoring.use_tool_id(monitoring.DEBUGGER_ID, "debugger")
    try:
        ended = threading.Event()
        computing = preemptive.spawn(
            lambda: [None for _ in iter(ended.is_set, True)]
        )  # the standard Event's method: not a call of ours
        preemptive.spawn(int)
        watcher: Any = preemption_watcher.watcher
        looks = watcher.looks
        while watcher.looks < looks + 20:
            pass
        ended.set()
        computing.join()
    finally:
        monitoring.free_tool_id(monitoring.DEBUGGER_ID)
    assert preemptive.preemptions == 0


@needs_events
def test_an_id_for_events_is_taken_for_overlong_turns_only_and_freed_with_its_callbacks(
    preemptive: dhaga.Scheduler,
) -> None:
    monitoring: Any = preemption_events.monitoring
    tool, kind = preemption_events.TOOLS[0], preemption_events.monitoring.events.CALL
    assert monitoring.get_tool(tool) is None
    names: list[object] = []

    def compute() -> None:
        while preemption_events.TOOL_NAME not in names:
            names.append(monitoring.get_tool(tool))

    def wait_for_turns() -> None:
        while preemption_events.TOOL_NAME not in names:
            dhaga.sleep(0)

    preemptive.spawn(wait_for_turns)
    preemptive.spawn(compute).result()

    def wait_until_free() -> None:
        while monitoring.get_tool(tool) is not None:
            dhaga.sleep(0.01)

    preemptive.spawn(wait_until_free).result()
    monitoring.use_tool_id(tool, "of the program")
    assert monitoring.register_callback(tool, kind, None) is None
    monitoring.free_tool_id(tool)


# ---- what a preemption is not


@needs_events
def test_a_cancel_waits_for_the_next_park() -> None:
    trace: list[str] = []

    def compute() -> None:
        for _ in range(5):
            trace.append("computes")
        try:
            dhaga.sleep(1)
        except dhaga.Cancelled:
            trace.append("cancelled")

    with preempt_everywhere():
        computing = dhaga.spawn(compute)
        dhaga.sleep(0)
        assert computing.state == "RUNNABLE" and computing.cancel()
        computing.join()
    assert trace == [*["computes"] * 5, "cancelled"]


@needs_events
def test_a_dhaga_that_computes_for_ever_is_cancelled_at_the_end() -> None:
    trace: list[str] = []
    begun = ours.Event()

    def compute() -> None:
        begun.set()
        try:
            while True:
                len(trace)  # at a jump, CPython 3.12 and 3.13 cannot raise
        finally:
            trace.append("cancelled")

    with dhaga.Scheduler(preempt=QUANTUM) as scheduler:
        scheduler.spawn(compute)
        begun.wait()
    preemption_watcher.turn_off()
    assert trace == ["cancelled"]


@needs_events
def test_a_daemon_that_computes_for_ever_does_not_hold_up_the_exit() -> None:
    assert prints("""
        import threading, time, dhaga.monkey
        dhaga.monkey.patch()
        def compute():
            while True:
                len("")
        threading.Thread(target=compute, daemon=True).start()
        time.sleep(0.01)
        print("main code ends")
    """) == ["main code ends"]


def test_native_programs_are_cooperative() -> None:
    assert preemption.quantum_of(dhaga.spawn(dhaga.current).result().scheduler) is None


@pytest.mark.parametrize(
    ("options", "variable", "quantum"),
    [
        ([], "", 0.01),
        ([], "0.05", 0.05),
        ([], "0", None),
        (["--cooperative"], "", None),
        (["--as", "gevent"], "", None),
        (["--as", "eventlet"], "0.05", 0.05),
    ],
)
def test_patched_programs_are_preempted_unless_told_otherwise(
    options: list[str], variable: str, quantum: float | None
) -> None:
    assert prints(
        "from dhaga._kernel.run import preemption; print(preemption.default_quantum)",
        *("-m", "dhaga", *options),
        DHAGA_PREEMPT=variable,
    ) == [str(quantum)]


@needs_events
def test_programs_may_be_preempted_by_the_environment() -> None:
    program = """
        import dhaga
        ended = []
        def compute():
            while not ended: pass
        computing = dhaga.spawn(compute)
        dhaga.spawn(ended.append, 1)
        computing.join()
        print(dhaga.current().scheduler.preemptions > 0)
    """
    assert prints(program, DHAGA_PREEMPT="0.002") == ["True"]


@needs_events
def test_a_ctrl_c_strikes_main_code_that_computes_beside_others() -> None:
    assert prints("""
        import os, signal, threading, time, dhaga.monkey
        dhaga.monkey.patch()
        def interrupt():
            time.sleep(0.05)
            os.kill(os.getpid(), signal.SIGINT)
        def compute():
            while True:
                pass
        try:
            threading.Thread(target=interrupt).start()
            compute()
        except KeyboardInterrupt:
            print("interrupted")
    """) == ["interrupted"]


@needs_events
def test_a_forked_child_is_preempted_as_well() -> None:
    assert prints("""
        import os, threading, dhaga.monkey
        dhaga.monkey.patch()
        def compute_until_another_ran():
            ended = []
            def compute():
                while not ended: pass
            threads = [threading.Thread(target=compute), threading.Thread(target=ended.append, args=(1,))]
            for thread in threads: thread.start()
            for thread in threads: thread.join()
        compute_until_another_ran()
        if child := os.fork():
            print(os.waitpid(child, 0)[1])
        else:
            compute_until_another_ran()
            os._exit(0)
    """) == ["0"]


@needs_events
def test_a_turn_lasts_while_hooks_of_a_fork_run() -> None:
    assert (
        prints("""
        import os
        # Registered before Dhaga is: so they run while it holds locks for the fork, and before it has reset the child.
        compute = lambda: [None for _ in range(20)]
        os.register_at_fork(before=compute, after_in_parent=compute, after_in_child=compute)
        import threading, dhaga.monkey, dhaga.testing
        dhaga.monkey.patch()
        def fork():
            if child := os.fork():
                print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
            else:
                os._exit(50)
        with dhaga.testing.preempt_everywhere():
            threads = [threading.Thread(target=fork) for _ in range(4)]
            for thread in threads: thread.start()
            for thread in threads: thread.join()
    """)
        == ["50"] * 4
    )


# ---- misuse


@pytest.mark.parametrize(
    ("value", "error"),
    [(-1, ValueError), (61, ValueError), (float("nan"), ValueError), ("1", TypeError), (True, TypeError)],
)
def test_a_quantum_is_a_number_of_seconds(value: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="preempt takes seconds"):
        dhaga.Scheduler(preempt=value)


@pytest.mark.parametrize("value", ["on", "-1", "nan", "61"])
def test_the_variable_takes_a_number_of_seconds(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("DHAGA_PREEMPT", value)
    with pytest.raises(ValueError, match="DHAGA_PREEMPT takes seconds"):
        preemption.quantum_from_environment()


def test_a_quantum_of_0_keeps_one_scheduler_cooperative(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preemption, "default_quantum", QUANTUM)
    with dhaga.Scheduler(preempt=0) as scheduler:
        assert preemption.quantum_of(scheduler) is None
    preemption_watcher.turn_off()


# ---- reports


@needs_events
def test_stats_and_the_dump_count_preemptions_and_name_their_lines() -> None:
    assert prints("""
        import threading, dhaga.monkey
        dhaga.monkey.patch()
        import dhaga.debug
        ended = []
        def compute():
            while not ended: pass
        threads = [threading.Thread(target=compute), threading.Thread(target=ended.append, args=(1,))]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        stats = dhaga.debug.stats()
        print(stats.schedulers[0].preemptions > 0, "<string>:7 in compute" in [place for place, _ in stats.preempted])
        for line in dhaga.debug.dump().splitlines():
            if "preempt" in line or "in compute" in line:
                print(line.rpartition(": ")[0] or line)
    """) == [
        "True True",
        "scheduler MainThread (implicit), awake, 0 dhagas, 0 runnable, preemptions",
        "turns were preempted at",
        "  <string>:7 in compute",
    ]


# ---- for tests of programs


@needs_events
@pytest.mark.parametrize("crowd_size", [2, 3, 4])
def test_preempt_everywhere_finds_a_race_of_one_event(crowd_size: int) -> None:
    visits = 0

    def note() -> None:
        nonlocal visits
        seen = visits
        visits = max(seen, 0) + 1

    def visit() -> None:
        for _ in range(100):
            note()

    with preempt_everywhere():
        visitors = [dhaga.spawn(visit) for _ in range(crowd_size)]
        for each in visitors:
            each.join()
    assert visits < 100 * crowd_size
