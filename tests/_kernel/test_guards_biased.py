"""A guard that one OS thread has had to itself costs it no atomic operation, and still excludes all others."""

from __future__ import annotations

import gc
import os
import threading
from types import ModuleType
from typing import Any

import pytest

from dhaga._kernel.fast.accelerator import fast_paths
from dhaga._kernel.interpreter.requirements import FREE_THREADED
from tests.kit.scripts import prints

guards_in_c = pytest.mark.skipif(
    not (FREE_THREADED and isinstance(fast_paths, ModuleType)), reason="there are no guards in C"
)
STREAK = 100
"""The same number as in guard.h."""


def guard_of_this_thread() -> Any:
    assert isinstance(fast_paths, ModuleType)
    guard = fast_paths.Guard()
    for _ in range(STREAK + 1):
        with guard:
            pass
    assert repr(guard) == "<Guard free, biased>"
    return guard


@guards_in_c
def test_a_guard_is_biased_to_a_thread_that_has_it_often_and_once_only() -> None:
    assert isinstance(fast_paths, ModuleType)
    guard: Any = fast_paths.Guard()
    states = [repr(guard)]

    def use(times: int) -> None:
        for _ in range(times):
            with guard:
                held = repr(guard)
        states.append(held)

    def use_in_thread(times: int) -> None:
        thread = threading.Thread(target=use, args=(times,))
        thread.start()
        thread.join()

    use(STREAK - 1)
    use_in_thread(STREAK + 1)
    use(1)
    use_in_thread(3 * STREAK)
    mutex = "<Guard held, a mutex>"
    assert states == ["<Guard free, a mutex>", mutex, "<Guard held, biased>", mutex, mutex]


@guards_in_c
def test_the_first_other_thread_waits_until_the_biased_one_is_out_of_its_step() -> None:
    guard = guard_of_this_thread()
    order: list[str] = []

    def other() -> None:
        with guard:
            order.append("other")

    with guard:
        thread = threading.Thread(target=other)
        thread.start()
        while "biased" in repr(guard):
            os.sched_yield()
        with guard:  # a finalizer may do this: the other thread waits on
            order.append("again")
        gc.collect()  # stops all other threads: the waiting one does not run
        order.append("first")
    with guard:
        order.append("after")
    thread.join()
    assert (order[:2], sorted(order[2:])) == (["again", "first"], ["after", "other"])


@guards_in_c
def test_a_thread_that_loses_the_bias_and_its_successors_exclude_each_other() -> None:
    threads, guards, times = 3, 200, 20
    counts = [0] * guards
    all_guards = [guard_of_this_thread() for _ in range(guards)]
    start = threading.Barrier(threads)

    def add() -> None:
        start.wait()
        for number, guard in enumerate(all_guards):
            for _ in range(times):
                with guard:
                    seen = counts[number]
                    for _ in range(5):
                        pass
                    counts[number] = seen + 1

    others = [threading.Thread(target=add) for _ in range(threads - 1)]
    for thread in others:
        thread.start()
    add()
    for thread in others:
        thread.join()
    assert counts == [threads * times] * guards


FORK = """
import os, threading, warnings
warnings.simplefilter("ignore")  # of a fork beside threads
from dhaga._kernel.fast._fast_paths import Guard

def biased():
    guard = Guard()
    for _ in range(101):
        with guard: pass
    return guard

def hold():
    made.append(biased())
    with made[0]:
        held.set(), over.wait()

def take_mine():
    with mine: order.append("other")

def in_child():
    for _ in range(2):  # free, as its thread is gone
        with made[0]: pass
    state = repr(made[0])
    thread = threading.Thread(target=take_mine)
    thread.start()
    while "biased" in repr(mine): os.sched_yield()
    order.append("first")  # it is still held
    mine.__exit__(None, None, None)
    thread.join()
    return (state, order) == ("<Guard free, a mutex>", ["first", "other"])

made, order, held, over = [], [], threading.Event(), threading.Event()
thread = threading.Thread(target=hold)
thread.start()
held.wait()
mine = biased()
mine.__enter__()
pid = os.fork()
if pid == 0:
    os._exit(0 if in_child() else 1)
mine.__exit__(None, None, None)
over.set()
thread.join()
print(os.waitpid(pid, 0)[1])
"""


@guards_in_c
def test_a_forked_child_keeps_its_own_bias_and_takes_that_of_threads_that_are_gone() -> None:
    assert prints(FORK) == ["0"]
