"""offload: a blocking call in an OS thread, and its caller parked."""

from __future__ import annotations

import asyncio
import contextvars
import importlib
import threading
import time
from typing import Any

import pytest

import dhaga
from dhaga.offload import MAX_THREADS, OffloadPool, shared
from dhaga.testing import cancel_at_every_park, settle

module = importlib.import_module("dhaga.offload")  # the package has the function under this name


@pytest.fixture
def main_dhaga() -> None:
    """Give the main code a scheduler: before that it is a plain thread."""
    dhaga.spawn(int).join()


def test_it_returns_the_result_with_all_arguments(main_dhaga: None) -> None:
    assert dhaga.offload(lambda *args, **kwargs: (args, kwargs), 1, 2, fn=3, a=4) == ((1, 2), {"fn": 3, "a": 4})


def test_it_raises_the_error_with_its_traceback(main_dhaga: None) -> None:
    def fails() -> None:
        raise LookupError("of the call")

    with pytest.raises(LookupError, match="of the call") as info:
        dhaga.offload(fails)
    assert info.traceback[-1].name == "fails"


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), dhaga.Cancelled()])
def test_it_raises_errors_that_are_no_exceptions_too_and_the_thread_lives_on(
    main_dhaga: None, error: BaseException
) -> None:
    def fails() -> None:
        raise error

    with pytest.raises(type(error)) as info:
        dhaga.offload(fails)
    assert info.value is error
    assert dhaga.offload(int, "1") == 1


def test_the_call_runs_in_a_helper_thread_and_others_run_meanwhile() -> None:
    gate = threading.Event()
    steps: list[int] = []

    def counts() -> None:
        for n in range(3):
            dhaga.sleep(0.001)
            steps.append(n)
        gate.set()

    d = dhaga.spawn(counts)
    caller = dhaga.spawn(dhaga.offload, lambda: (gate.wait(5), threading.current_thread().name))
    settle()
    assert "WAITING offload" in repr(caller)
    assert caller.result(5) == (True, "dhaga-offload") and steps == [0, 1, 2]
    d.join()


def test_context_variables_go_along_and_changes_stay_there() -> None:
    variable = contextvars.ContextVar("variable", default="none")

    def call() -> str:
        former = variable.get()
        variable.set("by the call")
        return former

    def calls(value: str) -> tuple[str, str]:
        variable.set(value)
        return dhaga.offload(call), variable.get()

    dhagas = [dhaga.spawn(calls, value) for value in "ab"]
    assert [d.result(5) for d in dhagas] == [("a", "a"), ("b", "b")]
    assert dhaga.offload(call) == "none"


def test_a_cancel_lets_the_caller_go_at_once_and_the_call_runs_to_its_end() -> None:
    begun, gate, ended = threading.Event(), threading.Event(), threading.Event()

    def call() -> None:
        begun.set()
        gate.wait(5)
        ended.set()

    d = dhaga.spawn(dhaga.offload, call)
    while not begun.is_set():
        dhaga.sleep(0.001)
    began = time.monotonic()
    d.cancel()
    with pytest.raises(dhaga.Cancelled):
        d.result(5)
    assert time.monotonic() - began < 1 and not ended.is_set()
    assert dhaga.current().scheduler.outside_calls == 0
    gate.set()
    assert ended.wait(5)


def test_a_timeout_lets_the_caller_go_at_once() -> None:
    gate = threading.Event()
    with pytest.raises(TimeoutError), dhaga.Timeout(0.01):
        dhaga.offload(gate.wait, 5)
    assert dhaga.current().scheduler.outside_calls == 0
    gate.set()


def test_an_error_of_a_call_that_nobody_waits_for_is_dropped() -> None:
    begun, gate, ended = threading.Event(), threading.Event(), threading.Event()

    def fails() -> None:
        begun.set()
        gate.wait(5)
        ended.set()
        raise LookupError

    d = dhaga.spawn(dhaga.offload, fails)
    while not begun.is_set():
        dhaga.sleep(0.001)
    d.cancel()
    d.join(5)
    gate.set()
    assert ended.wait(5)
    assert dhaga.offload(int) == 0


def test_a_cancelled_call_that_has_not_begun_is_not_made() -> None:
    gate = threading.Event()
    made: list[int] = []
    blockers = [dhaga.spawn(dhaga.offload, gate.wait, 5) for _ in range(MAX_THREADS)]
    waiting = [dhaga.spawn(dhaga.offload, made.append, n) for n in range(3)]
    settle()
    waiting[1].cancel()
    waiting[1].join(5)
    assert made == []
    gate.set()
    for d in (*blockers, waiting[0], waiting[2]):
        d.result(5)
    assert sorted(made) == [0, 2]


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
    thread.join(5)
    assert len(idents) == 2 and idents[0] == idents[1] != threading.get_ident()


def test_main_code_that_has_no_dhagas_yet_is_a_plain_thread() -> None:
    assert dhaga.offload(threading.get_ident) == threading.get_ident()
    dhaga.spawn(int).join()
    assert dhaga.offload(threading.get_ident) != threading.get_ident()


def test_offload_within_an_offloaded_call_runs_in_the_same_thread(main_dhaga: None) -> None:
    ident, inner = dhaga.offload(lambda: (threading.get_ident(), dhaga.offload(threading.get_ident)))
    assert ident == inner != threading.get_ident()


def test_a_coroutine_gets_park_error_and_the_call_is_not_made() -> None:
    made: list[int] = []

    async def main() -> None:
        with pytest.raises(dhaga.ParkError):
            dhaga.offload(made.append, 1)

    asyncio.run(main())
    assert not made


def test_twenty_at_once_overlap() -> None:
    """As many as there are threads at the same time, the rest after them."""
    guard = threading.Lock()
    counts = {"now": 0, "most": 0}

    def call(n: int) -> int:
        with guard:
            counts["now"] += 1
            counts["most"] = max(counts.values())
        time.sleep(0.05)
        with guard:
            counts["now"] -= 1
        return n

    began = time.monotonic()
    dhagas = [dhaga.spawn(dhaga.offload, call, n) for n in range(20)]
    assert [d.result(5) for d in dhagas] == list(range(20))
    assert time.monotonic() - began < 0.6
    assert 2 <= counts["most"] <= MAX_THREADS


def test_schedulers_share_the_helpers() -> None:
    with dhaga.Scheduler() as one, dhaga.Scheduler() as two:
        dhagas = [scheduler.spawn(dhaga.offload, int, n) for n in range(50) for scheduler in (one, two)]
        assert [d.result(5) for d in dhagas] == [n for n in range(50) for _ in range(2)]
    assert len(shared.threads) <= MAX_THREADS


def test_calls_are_made_in_order_by_a_single_helper(monkeypatch: pytest.MonkeyPatch) -> None:
    single = OffloadPool("dhaga-offload", 1)
    monkeypatch.setattr(module, "shared", single)
    made: list[int] = []
    dhagas = [dhaga.spawn(dhaga.offload, made.append, n) for n in range(10)]
    for d in dhagas:
        d.join(5)
    assert made == list(range(10)) and len(single.threads) == 1


def test_idle_helpers_end(monkeypatch: pytest.MonkeyPatch) -> None:
    idle = OffloadPool("dhaga-offload", 4)
    monkeypatch.setattr(module, "shared", idle)
    monkeypatch.setattr(module, "IDLE_SECONDS", 0.01)
    dhagas = [dhaga.spawn(dhaga.offload, time.sleep, 0.01) for _ in range(8)]
    for d in dhagas:
        d.result(5)
    deadline = time.monotonic() + 5
    while idle.threads and time.monotonic() < deadline:
        dhaga.sleep(0.01)
    assert not idle.threads and not idle.free
    assert dhaga.offload(int, 7) == 7


def test_that_no_thread_can_be_started_is_raised(main_dhaga: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_: object) -> None:
        raise RuntimeError("can't start new thread")

    none = OffloadPool("dhaga-offload", 4)
    monkeypatch.setattr(module, "shared", none)
    monkeypatch.setattr(module.Helper, "start", fails)
    with pytest.raises(RuntimeError, match="can't start"):
        dhaga.offload(int)
    assert not none.calls and not none.threads and dhaga.current().scheduler.outside_calls == 0
