"""``Simulation``: a block of main code, its threads, and how it fails."""

from __future__ import annotations

import _thread
import asyncio
import concurrent.futures
import queue
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator

import pytest

import dhaga
from dhaga._kernel import originals
from dhaga.simulation import LimitReached, Simulation, current
from dhaga.simulation._standard import standard
from tests.kit.races import run_threads


@pytest.fixture(autouse=True, scope="module")
def replaced_once() -> Iterator[None]:
    """Patch once: in a process with the modules of all tests, a patch takes 0.2 s."""
    with standard.replaced():
        yield


def lose_updates(threads: int = 3, times: int = 3) -> int:
    total = 0

    def add() -> None:
        nonlocal total
        for _ in range(times):
            seen = total
            total = seen + 1

    run_threads(*[add] * threads)
    return total


def test_a_seed_gives_the_same_run_and_many_seeds_give_many() -> None:
    results = []
    for seed in [*range(12), *range(12)]:
        with Simulation(seed) as world:
            results.append((lose_updates(), world.hash))
    assert results[:12] == results[12:]
    assert len({hash for _, hash in results}) > 6
    assert len({total for total, _ in results}) > 1


@pytest.mark.parametrize("preempt", [None, "lines", "instructions"])
def test_preemption_finds_races_between_lines_and_between_instructions(preempt: str | None) -> None:
    class Counter:
        value = 0

    counter = Counter()

    def add_in_lines() -> None:
        seen = counter.value
        counter.value = seen + 1

    def add_in_a_line() -> None:
        counter.value += 1

    found = set()
    for add in (add_in_lines, add_in_a_line):
        for seed in range(40):
            counter.value = 0
            with Simulation(seed, strategy="random", preempt=preempt):
                run_threads(add, add)
            if counter.value != 2:
                found.add(add)
    assert found == {None: set(), "lines": {add_in_lines}, "instructions": {add_in_lines, add_in_a_line}}[preempt]


def test_an_hour_takes_no_time() -> None:
    began = time.perf_counter()
    with Simulation(0) as world:
        with concurrent.futures.ThreadPoolExecutor(3) as executor:
            list(executor.map(time.sleep, (3600, 1800, 900)))
        assert world.run.clock.now - world.run.began_at == pytest.approx(3600)
    assert time.perf_counter() - began < 600


def test_the_clock_goes_on_during_a_pause_for_a_signal() -> None:
    handled: list[int] = []
    before = signal.signal(signal.SIGUSR1, lambda number, frame: handled.append(number))
    try:
        with Simulation(0) as world:
            threading.Timer(3600, signal.raise_signal, [signal.SIGUSR1]).start()
            signal.pause()
            assert world.clock.now - world.run.began_at == 3600
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert handled == [signal.SIGUSR1]


def test_a_wait_for_an_allowed_signal_is_no_deadlock() -> None:
    before = signal.getsignal(signal.SIGALRM)
    try:
        with Simulation(0, allow=["signals"]):
            rung = threading.Event()
            signal.signal(signal.SIGALRM, lambda *_: rung.set())
            signal.setitimer(signal.ITIMER_REAL, 0.1)
            assert rung.wait()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_a_thread_that_polls_the_clock_goes_on() -> None:
    with Simulation(0):
        until = time.monotonic() + 3
        while time.monotonic() < until:
            pass


def test_a_thread_that_yields_until_a_deadline_goes_on() -> None:
    flag = threading.Event()
    with Simulation(0, strategy="fifo", preempt=None):
        threading.Timer(10, flag.set).start()
        while not flag.is_set():
            time.sleep(0)


def test_the_block_waits_for_threads_but_not_for_daemons() -> None:
    ended = []
    with Simulation(0):
        threading.Thread(target=lambda: (time.sleep(5), ended.append("thread"))).start()
        threading.Thread(target=lambda: (time.sleep(9), ended.append("daemon")), daemon=True).start()
    assert ended == ["thread"]


def test_queues_and_coroutines_work() -> None:
    async def tick() -> float:
        await asyncio.sleep(10)
        return time.monotonic()

    with Simulation(3):
        items: queue.Queue[int] = queue.Queue(1)
        run_threads(lambda: [items.put(number) for number in range(5)], lambda: [items.get() for _ in range(5)])
        began = time.monotonic()
        assert asyncio.run(tick()) - began == pytest.approx(10, abs=0.1)


# ---- failures


def fail_in_a_thread() -> None:
    def fail() -> None:
        time.sleep(1)
        raise KeyError("in a thread")

    threading.Thread(target=fail, name="worker").start()
    time.sleep(5)
    raise AssertionError("the main code went on")


def test_an_error_of_a_thread_ends_the_run_and_is_raised() -> None:
    with pytest.raises(KeyError, match="in a thread") as caught, Simulation(0) as world:
        fail_in_a_thread()
    report = caught.value.__notes__[-1].splitlines()
    assert report[0] == "the simulation of seed 0 failed in worker: KeyError: 'in a thread'"
    assert report[-1].split() == ["1.000000", "worker", "fails:", "KeyError"]
    assert "1 s of virtual time" in report[2] and world.hash in report[2]


def test_an_error_of_the_main_code_is_raised_with_the_report() -> None:
    with pytest.raises(ZeroDivisionError) as caught, Simulation(4, strategy="pct:3"):
        1 / 0
    assert caught.value.__notes__[-1].startswith("the simulation of seed 4 failed in main code: ZeroDivisionError")
    assert "strategy pct:3, preempted at lines" in caught.value.__notes__[-1]


def cross_locks() -> None:
    left, right = threading.Lock(), threading.Lock()

    def move(first: threading.Lock, second: threading.Lock) -> None:
        with first:
            time.sleep(1)
            with second:
                pass

    run_threads(lambda: move(left, right), lambda: move(right, left))


def test_a_deadlock_is_found_at_once() -> None:
    with pytest.raises(dhaga.Deadlock, match="in a circle: Thread-1") as caught, Simulation(0):
        cross_locks()
    assert "waits for lock.acquire" in caught.value.__notes__[-1]


def test_a_wait_for_nothing_is_a_deadlock_also_in_the_main_code() -> None:
    with pytest.raises(dhaga.Deadlock), Simulation(0):
        threading.Event().wait()


def test_a_deadlock_ends_main_code_that_must_get_a_lock_first() -> None:
    def keep(condition: threading.Condition) -> None:
        with condition:
            threading.Event().wait()

    with pytest.raises(dhaga.Deadlock), Simulation(0, preempt=None):
        condition = threading.Condition()
        with condition:
            threading.Thread(target=keep, args=(condition,)).start()
            condition.wait(1)


def test_an_invariant_is_checked_after_each_event() -> None:
    accounts = {"a": 10, "b": 0}

    def move() -> None:
        accounts["a"] -= 5
        time.sleep(1)
        accounts["b"] += 5

    with pytest.raises(AssertionError, match=r"the invariant .*<lambda> does not hold"), Simulation(0) as world:
        world.always(lambda: sum(accounts.values()) == 10)
        run_threads(move)


def spin() -> None:
    while True:
        time.sleep(0)


def sleep_for_ever() -> None:
    while True:
        time.sleep(60)


@pytest.mark.parametrize(
    ("program", "limits", "text"),
    [
        (spin, {"max_events": 1000}, "has not ended after 1,000 events"),
        (sleep_for_ever, {"max_seconds": 3600}, "has not ended after 3600 s of virtual time"),
    ],
)
def test_a_run_that_does_not_end_fails(program: Callable[[], None], limits: dict[str, int], text: str) -> None:
    with pytest.raises(LimitReached, match=text), Simulation(0, **limits):
        program()


def start_low() -> None:
    _thread.start_new_thread(sys.exit, (3,))


def fail_with_key_error() -> None:
    raise KeyError("in a thread")


def test_sys_exit_with_0_is_no_failure_and_another_one_is() -> None:
    for code, failed in ((0, False), (None, False), (3, True), ("text", True)):
        with pytest.raises(SystemExit) as caught, Simulation(0) as world:
            sys.exit(code)
        assert (world.run.failure is not None, hasattr(caught.value, "__notes__")) == (failed, failed)


@pytest.mark.parametrize("kind", [asyncio.CancelledError, GeneratorExit, BaseException])
def test_an_error_that_is_no_exception_fails_the_run(kind: type[BaseException]) -> None:
    with pytest.raises(kind) as caught, Simulation(0) as world:
        raise kind
    assert world.run.failure is not None and caught.value.__notes__


@pytest.mark.parametrize("start", [lambda: threading.Thread(target=sys.exit, args=(3,)).start(), start_low])
def test_sys_exit_in_a_thread_ends_only_this_thread(start: Callable[[], object]) -> None:
    with pytest.raises(KeyError, match="the main code"), Simulation(0):
        start()
        time.sleep(1)
        raise KeyError("the main code went on")


def test_an_error_without_a_text_is_raised_itself() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise KeyError("no text")

    with pytest.raises(Mute) as caught, Simulation(0):
        raise Mute
    assert "failed in main code: Mute: <exception str() failed>" in caught.value.__notes__[-1]


def test_sys_exit_waits_for_the_threads_and_their_errors_count() -> None:
    with pytest.raises(KeyError, match="in a thread") as caught, Simulation(0):
        threading.Timer(1, fail_with_key_error).start()
        sys.exit(0)
    assert caught.value.__notes__


def test_an_error_of_a_thread_without_a_thread_object_fails_the_run() -> None:
    with pytest.raises(KeyError, match="in a thread"), Simulation(0):
        _thread.start_new_thread(fail_with_key_error, ())
        time.sleep(1)
        raise AssertionError("the main code went on")


def test_a_ctrl_c_while_the_block_waits_for_its_threads_is_raised() -> None:
    def interrupt() -> None:
        time.sleep(1)
        world.scheduler.main_waiter.cancel_with(KeyboardInterrupt())
        time.sleep(1)

    with pytest.raises(KeyboardInterrupt) as caught, Simulation(0) as world:
        threading.Thread(target=interrupt).start()
    assert world.run.failure is None and not hasattr(caught.value, "__notes__")


# ---- misuse


@pytest.mark.parametrize(
    ("arguments", "kind", "text"),
    [
        ({"seed": "1"}, TypeError, "a seed is a whole number, and not '1'"),
        ({"seed": -1}, ValueError, "a seed is a whole number from 0, and not -1"),
        ({"seed": True}, TypeError, "a seed is a whole number, and not True"),
        ({"seed": 1, "preempt": "line"}, ValueError, "preempt is 'lines' or 'instructions', or None, and not 'line'"),
        ({"seed": 1, "modules": "flask"}, TypeError, "modules takes several names"),
        ({"seed": 1, "allow": "network"}, TypeError, "allow takes several kinds"),
        ({"seed": 1, "allow": ["net"]}, ValueError, "what may be allowed is fifos, network, processes"),
        ({"seed": 1, "max_events": 0}, ValueError, "max_events is a whole number from 1, and not 0"),
        ({"seed": 1, "max_seconds": 0}, ValueError, "max_seconds is a number of seconds above 0, and not 0"),
        ({"seed": 1, "strategy": "exhaustive"}, ValueError, "needs dhaga.simulation.search"),
    ],
)
def test_bad_input_is_an_error_at_the_call(arguments: dict[str, object], kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text):
        Simulation(**arguments)


def test_simulations_are_not_nested() -> None:
    with Simulation(0), pytest.raises(RuntimeError, match="simulations cannot be nested"):
        with Simulation(1):
            pass


def test_a_dhaga_and_a_coroutine_cannot_begin_one() -> None:
    def begin() -> None:
        with Simulation(0):
            pass

    async def begin_in_a_coroutine() -> None:
        begin()

    with pytest.raises(RuntimeError, match="a Simulation is for main code"):
        dhaga.spawn(begin).result()
    with pytest.raises(RuntimeError, match="a Simulation is for main code"):
        asyncio.run(begin_in_a_coroutine())


def test_the_current_simulation_is_the_one_under_way() -> None:
    seen: list[object] = []

    def look_elsewhere() -> None:
        try:
            seen.append(current())
        except RuntimeError as error:
            seen.append(str(error))

    with Simulation(0, allow=["threads"]) as world:
        assert current() is world
        thread = originals.Thread(target=look_elsewhere)  # a real one
        thread.start()
        thread.join()
    assert seen == ["no simulation is under way here"]
    with pytest.raises(RuntimeError, match="no simulation is under way"):
        current()


def test_eventually_waits_for_a_condition_on_the_virtual_clock() -> None:
    arrived: list[float] = []

    def arrive() -> None:
        time.sleep(60)
        arrived.append(time.monotonic())

    with Simulation(1) as world:
        began = time.monotonic()
        threading.Thread(target=arrive).start()
        world.eventually(lambda: arrived, within=100)
        assert 60 <= time.monotonic() - began < 62
        world.eventually(lambda: True, within=1e-9)
        with pytest.raises(AssertionError, match="does not hold within 5 s"):
            world.eventually(lambda: False, within=5)
        for within in (0, float("inf")):
            with pytest.raises(ValueError, match=f"within is a number of seconds above 0, and not {within}"):
                world.eventually(lambda: True, within)


@pytest.mark.parametrize("ends", ["never", "killed", "daemon"])
def test_the_end_of_main_code_names_hosts_that_still_serve_and_how_to_end_them(ends: str) -> None:
    def serve() -> None:
        with socket.create_server(("", 80)) as listener:
            listener.accept()

    def run() -> None:
        with Simulation(0) as world:
            host = world.network.host("shop")
            host.spawn(serve, daemon=ends == "daemon")
            time.sleep(1)
            if ends == "killed":
                host.kill()

    if ends != "never":
        run()
        return
    text = r"threads on shop go on waiting.* kill\(\).*daemon=True.*every dhaga"
    with pytest.raises(dhaga.Deadlock, match=text) as caught:
        run()
    assert "failed in main code: Deadlock: main code has ended" in caught.value.__notes__[-1]
