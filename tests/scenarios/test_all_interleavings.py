"""Two OS threads in one protocol: every order of their steps, in long protocols with at most three preemptions.

A step is a line of Dhaga's own source at which a trace function stops; within a line tagged ``atomic`` no switch can
come. Each schedule is run anew, from the first choice on. A thread that must wait is blocked until its waker comes: if
both threads are blocked, a wake is lost.
On a free-threaded build a thread could be stopped within a guard; the crowds of test_across_threads.py run there.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from dhaga._kernel.interpreter.requirements import FREE_THREADED
from dhaga._kernel.run import lap
from dhaga._kernel.wait import current, wait_queue, waiter
from dhaga._kernel.wait.thread_waiter import OSThread
from dhaga._kernel.wait.wait_queue import WaitQueue
from dhaga._sync import event, lock, semaphore, simple_queue
from dhaga._sync.event import Event
from dhaga._sync.lock import Lock, RLock
from dhaga._sync.semaphore import Semaphore
from dhaga._sync.simple_queue import SimpleQueue
from tests.kit.scripts import PATIENCE

pytestmark = [
    pytest.mark.once,
    pytest.mark.skipif(FREE_THREADED, reason="a thread would be stopped within a guard"),
]

FILES = {module.__file__ for module in (lap, wait_queue, waiter, event, lock, semaphore, simple_queue)} | {__file__}
FEW, ALL = 3, 1000
"""The most preemptions of one schedule. Each known race of two threads needs one or two preemptions. With four, a lock
has 10,000 schedules.
"""


class Stuck(BaseException):
    """Ends a thread whose wake is lost."""


class Turns:
    """Lets one of two threads go on at a time: by the choices of ``prefix``, then without a preemption."""

    def __init__(self, prefix: list[int]) -> None:
        self.prefix = prefix
        # At each step: who went on, who could, and who would have without a preemption.
        self.taken: list[tuple[int, list[int], int]] = []
        self.gates = [threading.Lock(), threading.Lock()]
        for gate in self.gates:
            gate.acquire()
        self.waits = [False, False]
        self.ended = [False, False]
        self.stuck = False
        self.over = threading.Event()

    def choose(self, me: int) -> int | None:
        able = [number for number in (0, 1) if not self.ended[number] and not self.waits[number]]
        if not able:
            self.stuck = not all(self.ended)
            self.over.set()
            return None
        plain = me if me in able else able[0]
        at = len(self.taken)
        following = self.prefix[at] if at < len(self.prefix) else plain
        self.taken.append((following, able, plain))
        return following

    def step(self, me: int) -> None:
        following = self.choose(me)
        if following != me:
            assert following is not None
            self.gates[following].release()
            self.stop(me)

    def stop(self, me: int) -> None:
        self.gates[me].acquire()
        if self.stuck:
            raise Stuck

    def wait(self, me: int) -> None:
        self.waits[me] = True
        following = self.choose(me)
        if following is None:
            raise Stuck
        self.gates[following].release()
        self.stop(me)

    def end(self, me: int) -> None:
        self.ended[me] = True
        following = self.choose(me)
        if following is not None:
            self.gates[following].release()


class Stepped(OSThread):
    """The waiter of a thread; it reports its waits to ``Turns``."""

    __slots__ = ("number", "turns")

    def __init__(self, turns: Turns, number: int) -> None:
        super().__init__()
        self.turns, self.number = turns, number

    def park_within(self, timeout: float | None) -> Any:
        while not self._woken:
            self.turns.wait(self.number)
        self._woken = False
        value, self._value = self._value, None
        return value

    def deliver_wake(self, value: Any = None, error: BaseException | None = None) -> None:
        self._value, self._woken = value, True
        self.turns.waits[self.number] = False


class Run(threading.Thread):
    def __init__(self, turns: Turns, number: int, fn: Callable[[], object]) -> None:
        super().__init__(daemon=True)
        self.turns, self.number, self.fn = turns, number, fn
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self.turns.stop(self.number)
            current.this_thread.thread = Stepped(self.turns, self.number)
            sys.settrace(self.trace)
            try:
                self.fn()
            finally:
                sys.settrace(None)
        except Stuck:
            return
        except BaseException as error:
            self.error = error
        self.turns.end(self.number)

    def trace(self, frame: Any, event: str, arg: object) -> Any:
        if frame.f_code.co_filename not in FILES or frame.f_code.co_name in STEPPED:
            return None
        if event == "line":
            self.turns.step(self.number)
        return self.trace


STEPPED = {name for kind in (Turns, Stepped, Run) for name in vars(kind)}
"""Functions of this file that are no steps of a protocol."""

Scenario = Callable[[], tuple[Callable[[], object], Callable[[], object], Callable[[], object]]]
"""Makes what the two threads do, and the check afterwards."""


def run_once(scenario: Scenario, prefix: list[int]) -> Turns:
    first, second, check = scenario()
    turns = Turns(prefix)
    runs = [Run(turns, number, fn) for number, fn in enumerate((first, second))]
    for run in runs:
        run.start()
    start = turns.choose(0)
    assert start is not None
    turns.gates[start].release()
    assert turns.over.wait(30), "a thread has not come back from a step"
    if turns.stuck:
        for gate in turns.gates:
            if gate.locked():
                gate.release()
    for run in runs:
        run.join(30)
    where = f"after the choices {[taken[0] for taken in turns.taken]}"
    assert not turns.stuck, f"a wake is lost {where}"
    for run in runs:
        if run.error is not None:
            raise AssertionError(where) from run.error
    check()
    return turns


def in_every_order(scenario: Scenario, switches: int = ALL) -> int:
    """Run a scenario by every schedule with up to ``switches`` preemptions. Returns: the number of schedules."""
    count, due = 0, [(list[int](), 0)]
    while due:
        prefix, used = due.pop()
        count += 1
        taken = run_once(scenario, prefix).taken
        if used == switches:
            continue
        for at in range(len(prefix), len(taken)):
            _, able, plain = taken[at]
            due += [([each[0] for each in taken[:at]] + [other], used + 1) for other in able if other != plain]
    return count


# ---- the protocols


def locks(make: Any) -> Scenario:
    def scenario() -> Any:
        lock, inside, most = make(), [0], [0]

        def holds() -> None:
            with lock:
                inside[0] += 1
                most[0] = max(most[0], inside[0])
                inside[0] -= 1

        def check() -> None:
            assert most == [1] and lock.acquire(blocking=False)

        return holds, holds, check

    return scenario


def handed(make: Any, give: Any, take: Any) -> Scenario:
    """Return a scenario in which one thread takes what the other one gives."""

    def scenario() -> Any:
        thing, got = make(), []
        return lambda: got.append(take(thing)), lambda: give(thing), lambda: got[0] or pytest.fail("it got nothing")

    return scenario


PROTOCOLS: dict[str, Scenario] = {
    "Lock": locks(Lock),
    "RLock": locks(RLock),
    "Semaphore": locks(lambda: Semaphore(1)),
    "Semaphore, given": handed(lambda: Semaphore(0), Semaphore.release, Semaphore.acquire),
    "Event": handed(Event, Event.set, Event.wait),
    "SimpleQueue": handed(SimpleQueue, lambda queue: queue.put(1), SimpleQueue.get),
}


@pytest.mark.parametrize("name", PROTOCOLS)
def test_no_wake_is_lost_and_no_two_hold_a_lock_in_any_order(name: str) -> None:
    assert in_every_order(PROTOCOLS[name], ALL if name == "Event" else FEW) > 30


@pytest.mark.skipif("DHAGA_PURE" in os.environ, reason="this is pure Python")
@pytest.mark.long("runs this file in another process")
def test_the_same_in_pure_python() -> None:
    """Compiled functions take a free lock in one step."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", __file__],
        env=os.environ | {"DHAGA_PURE": "1"},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stdout


def test_void_tickets_are_dropped_beside_a_waker_in_any_order() -> None:
    def scenario() -> Any:
        queue, taken = WaitQueue(object, "x"), list[Any]()
        live: list[Any] = [[1], [2]]
        queue.extend([live[0], [], live[1], []])

        def takes() -> None:
            for _ in range(2):
                taken.append(queue.take_first())

        return takes, lambda: queue.drop_void(), lambda: taken == [1, 2] or pytest.fail(f"it took {taken}")

    assert in_every_order(scenario, 2) > 30


class Sleeper:
    """Stands for a scheduler at the end of a lap, and for the waiter that another thread wakes there."""

    def __init__(self) -> None:
        self.run_queue: deque[object] = deque()
        self.asleep = False
        self.laps_due = 0
        self._counted_switches = self._uncounted_from = self._switches_left = self.laps = 0
        self.busy_seconds = self._lap_began = 0.0
        self._loop_timer = SimpleNamespace(arm=int)
        self.mode = SimpleNamespace(is_over=bool, on_lap_end=int)
        self.loop = SimpleNamespace(call_soon=lambda *_: self.wake_loop())

    _continue_lap = clock = int

    def count_runnable(self) -> int:
        return len(self.run_queue)

    def wake_loop(self) -> None:
        self.laps_due += 1


def handshake(end_lap: Callable[[Any], object]) -> Scenario:
    def scenario() -> Any:
        sleeper = Sleeper()
        woken: Any = SimpleNamespace(wake_queue=sleeper.run_queue, scheduler=sleeper)
        return (
            lambda: end_lap(sleeper),
            lambda: waiter.Waiter.deliver_wake(woken),
            lambda: sleeper.laps_due or pytest.fail("it sleeps beside a runnable dhaga"),
        )

    return scenario


def test_a_scheduler_that_falls_asleep_misses_no_wake_in_any_order() -> None:
    assert in_every_order(handshake(lap.Lap._end_lap)) > 30


def test_a_look_before_the_flag_is_found_out() -> None:
    def looks_too_early(sleeper: Sleeper) -> None:
        runnable = sleeper.count_runnable()
        sleeper.asleep = True
        if runnable:
            sleeper.wake_loop()

    with pytest.raises(pytest.fail.Exception, match="sleeps beside"):
        in_every_order(handshake(looks_too_early))


def test_a_lost_wake_is_found_out() -> None:
    def releases_too_early(lock: Any) -> None:
        if not lock._waiters:
            lock._holder = None

    def scenario() -> Any:
        lock = Lock()
        lock._holder = lock
        return lock.acquire, lambda: releases_too_early(lock), lambda: None

    with pytest.raises(AssertionError, match="a wake is lost"):
        in_every_order(scenario)
