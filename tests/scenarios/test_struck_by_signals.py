"""A signal finds nothing half done: each operation is struck at the bytecodes at which CPython may call a handler."""

from __future__ import annotations

import random

import pytest

from tests.kit.scripts import Outcome, prints, run

HANDLERS = ("ctrl_c", "timeout", "error")
STRIKE = "import sys; from tests.kit import strikes; strikes.main(*{arguments!r}); import os; os._exit(0)"


def struck(*arguments: str) -> Outcome:
    outcome = run(STRIKE.format(arguments=arguments))
    assert outcome.status == 0, outcome
    assert outcome.lines
    return outcome


@pytest.mark.parametrize("where", ["main", "thread"])
@pytest.mark.parametrize("handler", HANDLERS)
def test_a_strike_at_some_points_breaks_nothing(where: str, handler: str) -> None:
    seed = str(random.randrange(1000))
    lines = struck(where, handler, "all", "2", seed).lines
    assert [line for line in lines if ": 0 of " not in line] == [], f"seed {seed}"


@pytest.mark.slow
@pytest.mark.parametrize("where", ["main", "thread"])
@pytest.mark.parametrize("handler", HANDLERS)
def test_a_strike_at_any_point_breaks_nothing(where: str, handler: str) -> None:
    assert [line for line in struck(where, handler, "all").lines if ": 0 of " not in line] == []


WAITS = """
import os, signal as standard
import dhaga
from dhaga import queue, signal, threading

class Late(TimeoutError):
    pass

def fails(number, frame):
    raise Late

def strikes(wait):
    try:
        standard.setitimer(standard.ITIMER_REAL, 0.1)  # by then it waits, on a busy machine, too
        return wait()
    except Late:
        return "struck"

def block():
    with lock:
        return "the block ran without the lock"

lock, notified = threading.Lock(), threading.Condition()
lock.acquire()
"""


@pytest.mark.parametrize("module", ["standard", "signal"])
def test_a_timeout_error_of_a_handler_is_not_the_timeout_of_a_park(module: str) -> None:
    assert prints(
        WAITS
        + f"{module}.signal(standard.SIGALRM, fails)\n"
        + """
def condition():
    with notified:
        return notified.wait(5)

sleeper = dhaga.spawn(dhaga.sleep, 60, daemon=True)
tasks = queue.Queue()
tasks.put(1)
waits = [
    block, lock.acquire, lambda: lock.acquire(timeout=5), threading.Semaphore(0).acquire,
    threading.Semaphore(0).__enter__, condition, threading.Event().wait,
    lambda: threading.Event().wait(5), queue.Queue().get, queue.SimpleQueue().get,
    lambda: queue.Queue().get(timeout=5), tasks.join, lambda: tasks.all_tasks_done.wait(5), sleeper.join,
    lambda: sleeper.join(5), lambda: sleeper.result(5),
]
print([strikes(wait) for wait in waits] == ["struck"] * len(waits), lock, notified)
"""
    ) == ["True <Lock held by main code, 0 parked> <Condition on <RLock unlocked, 0 parked>, 0 parked>"]


def test_a_handler_takes_the_lock_that_the_main_code_waits_for() -> None:
    assert prints(
        WAITS
        + """
log = []
for make in (threading.Lock, threading.RLock, threading.Condition):
    lock = make()

    def handler(number, frame):
        with lock:
            log.append("handler")

    def hold():
        with lock:
            os.kill(os.getpid(), standard.SIGUSR1)
            dhaga.sleep(0.01)

    def next_in_line():
        with lock:
            log.append("next")

    signal.signal(standard.SIGUSR1, handler)
    dhaga.spawn(hold)
    dhaga.spawn(next_in_line)
    dhaga.sleep(0)
    with lock:
        log.append("main")
    dhaga.sleep(0.001)
    print(sorted(log), lock)
    log.clear()
"""
    ) == [
        f"['handler', 'main', 'next'] <{lock}>"
        for lock in (
            "Lock unlocked, 0 parked",
            "RLock unlocked, 0 parked",
            "Condition on <RLock unlocked, 0 parked>, 0 parked",
        )
    ]


def test_a_second_ctrl_c_leaves_no_stale_waiter() -> None:
    assert prints(
        WAITS
        + """
import _thread
changed, items = threading.Condition(), queue.Queue()

def hold():
    with changed:
        for _ in range(3):
            _thread.interrupt_main()
            dhaga.sleep(0.01)

dhaga.spawn(hold, daemon=True)
try:
    with changed:
        changed.wait()
except (KeyboardInterrupt, RuntimeError):
    pass
for _ in range(3):
    try:
        items.get(timeout=0.05)
    except (KeyboardInterrupt, queue.Empty) as error:
        print(type(error).__name__)
print(dhaga.spawn(changed.acquire, timeout=1).result())
"""
    )[-2:] == ["Empty", "True"]
