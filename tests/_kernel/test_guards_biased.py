"""A guard that one OS thread has had to itself costs it no atomic operation, and still excludes all others."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Generator
from types import ModuleType
from typing import Any

import pytest

from dhaga._kernel.fast.accelerator import fast_paths
from dhaga._kernel.interpreter import FREE_THREADED
from tests.kit.scripts import prints

guards_in_c = pytest.mark.skipif(
    not (FREE_THREADED and isinstance(fast_paths, ModuleType)), reason="there are no guards in C"
)
STREAK = 100
"""As in guard.h."""


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
        with guard:  # as a finalizer may: the other waits on
            order.append("again")
        gc.collect()  # which stops all other threads: the one that waits does not run
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


# ---- the protocol, in every order


class Machine:
    """Two threads on two processors that may delay each write past later reads, and one memory.

    A fence of all threads (membarrier) lets each of them finish its writes first.
    """

    def __init__(self, programs: list[Generator[Any, Any, None]], **memory: int) -> None:
        self.memory = memory
        self.programs = programs
        self.delayed: list[list[tuple[str, int]]] = [[], []]
        self.answers: list[Any] = [None, None]
        self.ended = [False, False]

    def moves(self) -> list[tuple[str, int]]:
        runs = [("run", number) for number in (0, 1) if not self.ended[number]]
        return runs + [("write", number) for number in (0, 1) if self.delayed[number]]

    def make(self, move: tuple[str, int]) -> None:
        kind, number = move
        if kind == "write":
            name, value = self.delayed[number].pop(0)
            self.memory[name] = value
            return
        try:
            step = self.programs[number].send(self.answers[number])
        except StopIteration:
            self.ended[number] = True
            return
        self.answers[number] = None
        if step == "fence":
            while any(self.delayed):
                self.make(("write", 0 if self.delayed[0] else 1))
        elif isinstance(step, tuple):
            self.delayed[number].append(step)
        else:
            own = [value for name, value in self.delayed[number] if name == step]
            self.answers[number] = own[-1] if own else self.memory[step]


class Inside:
    """Who is within a step; ``broken`` once two are."""

    def __init__(self) -> None:
        self.count = 0
        self.broken = False

    def step(self) -> Generator[Any, Any, None]:
        self.count += 1
        self.broken |= self.count > 1
        yield "busy"
        self.count -= 1


def biased_thread(inside: Inside) -> Generator[Any, Any, None]:
    """acquire_guard() and release_guard() of the biased thread. With ``revoked`` it would acquire the mutex next."""
    if not (yield "revoked"):
        yield "busy", 1
        if not (yield "revoked"):
            yield from inside.step()
        yield "busy", 0


def other_thread(inside: Inside, fenced: bool) -> Generator[Any, Any, None]:
    """take_bias(), from the thread that has the mutex."""
    yield "revoked", 1
    if fenced:
        yield "fence"
    for _ in range(3):
        if (yield "busy") == 0:
            yield from inside.step()
            return


def breaks(fenced: bool) -> tuple[int, int]:
    """Run both in every order. Returns: the number of orders, and of those in which both were in a step at once."""
    orders = broken = 0
    prefix: list[int] = []
    while True:
        inside = Inside()
        taken: list[tuple[int, int]] = []
        machine = Machine([biased_thread(inside), other_thread(inside, fenced)], revoked=0, busy=0)
        while moves := machine.moves():
            choice = prefix[len(taken)] if len(taken) < len(prefix) else 0
            taken.append((choice, len(moves)))
            machine.make(moves[choice])
        orders += 1
        broken += inside.broken
        prefix = [choice for choice, _ in taken]
        while prefix and prefix[-1] + 1 == taken[len(prefix) - 1][1]:
            prefix.pop()
        if not prefix:
            return orders, broken
        prefix[-1] += 1


@pytest.mark.once
def test_no_order_of_the_steps_admits_both_threads_and_the_fence_is_needed() -> None:
    fenced, bare = breaks(True), breaks(False)
    assert fenced[0] > 1000 and fenced[1] == 0 < bare[1]
