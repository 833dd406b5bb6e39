"""Strikes: a signal handler is called after each bytecode of the package after which CPython may call it.

A trace function stops main code, or a plain main thread, after each RESUME, JUMP_BACKWARD and CALL in a frame of the
package, and calls the handler there, as CPython would. If the package defers this call, a real signal follows. After
each strike, the case asserts that the objects of the struck operation are whole. ``python -m tests.kit.strikes WHERE
HANDLER CASE [SAMPLE SEED]`` prints a line for each point at which something broke, and the number of these points.

WHERE: ``main`` (main code of a scheduler), ``thread`` (a plain main thread, whose partners run on a scheduler in
another thread) or ``standard`` (the standard modules on threads, for comparison). HANDLER: ``ctrl_c`` (the package's
own), ``timeout`` and ``error`` (handlers that raise, set by ``dhaga.signal``), ``raw`` (the same, set by the standard
``signal``). ``standard`` and ``raw`` are known to break. Each of their points is struck in its own process, by a
careful program that repeats the struck call.
"""

from __future__ import annotations

import asyncio
import dis
import functools
import itertools
import os
import queue as standard_queue
import random
import signal
import subprocess
import sys
import threading as standard_threading
import time
from collections.abc import Callable, Iterator
from types import CodeType, FrameType
from typing import Any

from greenlet import getcurrent

import dhaga
from dhaga import queue, threading
from dhaga import signal as dhaga_signal
from dhaga._kernel import originals
from dhaga._kernel.process.signals import on_ctrl_c
from dhaga._kernel.wait.current import this_thread

POINTS = ("RESUME", "JUMP_BACKWARD", "CALL")
"""Beginnings of the names of the instructions after which CPython checks for signals."""

PATIENCE = 30.0
"""Seconds after which an expected event counts as lost; the machine may be busy."""

APART = 60.0
"""Maximum number of seconds for one strike in its own process."""

Check = Callable[[], object]
Case = Callable[["World"], tuple[Callable[[], object], Check]]


class Struck(Exception):
    """Raised by the handlers ``error`` and ``raw``."""


class StruckLate(TimeoutError):
    """Raised by the handler ``timeout``."""


ERRORS = (Struck, StruckLate, KeyboardInterrupt)


# ---- the point of the strike


@functools.cache
def points_of(code: CodeType) -> dict[int, bool]:
    """Return, for each instruction's offset, whether CPython checks for signals after the instruction."""
    return {each.offset: each.opname.startswith(POINTS) for each in dis.get_instructions(code)}


class Tracer:
    """A trace function that counts the points, and calls ``handler(frame)`` at the nth point."""

    def __init__(self, nth: float, modules: tuple[str, ...], handler: Callable[[FrameType], object]) -> None:
        self.nth = nth
        self.modules = modules
        self.handler = handler
        self.home = getcurrent()
        self.points = 0
        self.place = ""
        self.after_point: dict[FrameType, bool] = {}

    def on_call(self, frame: FrameType, event: str, arg: object) -> Any:
        # The caller's CALL has called a Python function: CPython does not check for signals after its return.
        if frame.f_back is not None:
            self.after_point.pop(frame.f_back, None)
        name = frame.f_globals.get("__name__", "")
        if self.place or not name.startswith(self.modules) or getcurrent() is not self.home:
            return None
        # In this order: 3.13 ignores f_trace_opcodes of a frame without f_trace.
        frame.f_trace, frame.f_trace_lines, frame.f_trace_opcodes = self.on_opcode, False, True
        self.after_point[frame] = True
        return self.on_opcode

    def on_opcode(self, frame: FrameType, event: str, arg: object) -> Any:
        if event != "opcode" or self.place:
            return self.on_opcode
        if self.after_point.pop(frame, False):
            self.points += 1
            if self.points == self.nth:
                self.place = f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno} {frame.f_code.co_name}"
                sys.settrace(None)
                self.handler(frame)
                return None
        self.after_point[frame] = points_of(frame.f_code).get(frame.f_lasti, False)
        return self.on_opcode


# ---- handlers


def handler_named(name: str) -> Callable[[FrameType], object]:
    """Install a handler. Returns: the call that CPython makes when the signal arrives."""
    if name == "ctrl_c":
        signal.signal(signal.SIGINT, on_ctrl_c)
        return functools.partial(on_ctrl_c, signal.SIGINT)
    error = StruckLate if name == "timeout" else Struck

    def fails(*_: object) -> None:
        raise error(name)

    (signal if name == "raw" else dhaga_signal).signal(signal.SIGUSR1, fails)
    handler: Any = signal.getsignal(signal.SIGUSR1)
    return functools.partial(handler, signal.SIGUSR1)


# ---- struck operations


class World:
    """The primitives and the partners of one kind of caller."""

    def __init__(self, where: str) -> None:
        self.standard = where == "standard"
        self.threading: Any = standard_threading if self.standard else threading
        self.queue: Any = standard_queue if self.standard else queue
        self.modules = ("threading", "queue") if self.standard else ("dhaga.",)
        self.scheduler = dhaga.Scheduler("partners").start() if where == "thread" else None
        self.in_main = where == "main"
        # Set by the careful program, which repeats the struck call, because the standard's own Python code may break.
        self.again = False

    def spawn(self, fn: Callable[..., object], *args: Any) -> Any:
        """Start a partner."""
        if self.standard:
            thread = standard_threading.Thread(target=fn, args=args, daemon=True)
            thread.start()
            return thread
        return (self.scheduler or dhaga).spawn(fn, *args, daemon=True)

    def pause(self, seconds: float = 0.0005) -> None:
        """Park for a moment. A pending error is raised there."""
        self.threading.Event().wait(seconds)

    def partner_sleeps(self) -> None:
        (time.sleep if self.standard else dhaga.sleep)(0.004)

    def until(self, happened: Callable[[], object], what: str) -> None:
        """Wait until a condition holds, which partners fulfil. Raises: AssertionError."""
        deadline = originals.monotonic() + PATIENCE
        while not happened():
            assert originals.monotonic() < deadline, what
            self.pause()

    def parked(self, thing: Any, count: int = 1) -> None:
        """Wait until ``count`` partners are parked in the queue of a primitive."""
        if self.standard:
            time.sleep(0.003)
            return
        self.until(lambda: thing.parked() >= count, "the partners do not park")

    def takes(self, lock: Any) -> None:
        """Assert that a partner gets the lock."""
        got: list[bool] = []

        def take() -> None:
            with lock:
                got.append(True)

        self.spawn(take)
        self.until(lambda: got, f"another caller does not get {lock!r}")


def lock_alone(world: World, kind: str = "Lock") -> tuple[Callable[[], object], Check]:
    lock = getattr(world.threading, kind)()

    def use() -> None:
        with lock:
            pass

    return use, lambda: world.takes(lock)


def rlock_alone(world: World) -> tuple[Callable[[], object], Check]:
    lock = world.threading.RLock()

    def use() -> None:
        with lock, lock:
            pass

    return use, lambda: world.takes(lock)


def lock_given_over(world: World, kind: str = "Lock") -> tuple[Callable[[], object], Check]:
    lock, got = getattr(world.threading, kind)(), []

    def take() -> None:
        with lock:
            got.append(1)

    lock.acquire()
    world.spawn(take)
    world.parked(getattr(lock, "_waiters", None))

    def check() -> None:
        if world.again and not got:
            try:
                lock.release()
            except RuntimeError:
                pass
        world.until(lambda: got, f"{lock!r} was not handed over")
        world.takes(lock)

    return lock.release, check


def lock_waited_for(world: World, kind: str = "Lock") -> tuple[Callable[[], object], Check]:
    lock, inside, wrong = getattr(world.threading, kind)(), [1], []

    def hold() -> None:
        with lock:
            began.append(1)
            world.partner_sleeps()
            inside.clear()

    def use() -> None:
        with lock:
            wrong.extend(inside)

    began: list[int] = []
    world.spawn(hold)
    world.until(lambda: began, "the partner does not begin")

    def check() -> None:
        assert not wrong, "the block ran without the lock"
        world.until(lambda: not inside, "the holder does not end")
        world.takes(lock)

    return use, check


def condition_notify(world: World) -> tuple[Callable[[], object], Check]:
    condition, woken = world.threading.Condition(), []

    def wait() -> None:
        with condition:
            condition.wait()
            woken.append(1)

    def notify() -> None:
        with condition:
            condition.notify_all()

    for _ in range(2):
        world.spawn(wait)
    world.parked(getattr(condition, "_waiters", None), 2)

    def check() -> None:
        if world.again:
            world.spawn(notify)
        world.until(lambda: len(woken) == 2, f"{condition!r} has not woken its waiters")
        world.takes(condition)

    return notify, check


def condition_wait(world: World) -> tuple[Callable[[], object], Check]:
    condition, ready, asked = world.threading.Condition(), [], []

    def notify() -> None:
        world.partner_sleeps()
        with condition:
            ready.append(1)
            condition.notify()
            world.partner_sleeps()

    def wait() -> None:
        with condition:
            world.spawn(notify)
            asked.append(1)
            while not ready:
                condition.wait()

    def check() -> None:
        if asked:
            world.until(lambda: ready, "the notifier does not get the lock")
        world.takes(condition)

    return wait, check


def semaphore_release(world: World) -> tuple[Callable[[], object], Check]:
    permits, got = world.threading.Semaphore(0), []

    def take() -> None:
        permits.acquire()
        got.append(1)

    world.spawn(take)
    world.parked(getattr(permits, "_waiters_", None))

    def check() -> None:
        if world.again and not got:
            world.pause(0.002)
            if not got:
                permits.release()
        world.until(lambda: got, f"{permits!r}: the permit is lost")

    return permits.release, check


def semaphore_wait(world: World) -> tuple[Callable[[], object], Check]:
    permits, released = world.threading.Semaphore(1), []

    def hold() -> None:
        with permits:
            began.append(1)
            world.partner_sleeps()
        released.append(1)

    def use() -> None:
        with permits:
            pass

    began: list[int] = []
    world.spawn(hold)
    world.until(lambda: began, "the partner does not begin")

    def check() -> None:
        world.until(lambda: released, "the holder does not end")
        world.takes(permits)
        world.until(lambda: permits._value == 1, f"{permits!r}: a permit is lost or made")

    return use, check


def event_set(world: World) -> tuple[Callable[[], object], Check]:
    event, woken = world.threading.Event(), []

    def wait() -> None:
        event.wait()
        woken.append(1)

    for _ in range(2):
        world.spawn(wait)
    world.parked(getattr(event, "_waiters_", None), 2)

    def check() -> None:
        if world.again:
            event.set()
        world.until(lambda: len(woken) == 2, f"{event!r} has not woken its waiters")

    return event.set, check


def event_wait(world: World) -> tuple[Callable[[], object], Check]:
    event = world.threading.Event()

    def ring() -> None:
        world.partner_sleeps()
        event.set()

    def use() -> None:
        assert event.wait(), "the wait without a timeout has timed out"

    world.spawn(ring)
    return use, lambda: world.until(lambda: event.is_set() and not waiting(event), "a stale waiter")


def waiting(thing: Any) -> int:
    waiters = getattr(thing, "_waiters_", None)
    return waiters.parked() if waiters is not None else 0


def queue_put(world: World, kind: str = "Queue") -> tuple[Callable[[], object], Check]:
    items, got = getattr(world.queue, kind)(), []

    def take() -> None:
        while (item := items.get()) is not None:
            got.append(item)

    world.spawn(take)
    world.parked(getattr(items, "_getters_", None))

    def check() -> None:
        if world.again and not got:
            world.pause(0.002)
            if not got:
                world.spawn(items.put, 1)
        world.until(lambda: got, f"{items!r}: the item is lost")
        world.spawn(items.put, 2)
        world.until(lambda: got[-1] == 2, f"{items!r} takes no more items")
        world.spawn(items.put, None)

    return lambda: items.put(1), check


def queue_get(world: World, kind: str = "Queue") -> tuple[Callable[[], object], Check]:
    items, got = getattr(world.queue, kind)(), []

    def feed() -> None:
        world.partner_sleeps()
        items.put(1)
        fed.append(1)

    fed: list[int] = []
    world.spawn(feed)

    def check() -> None:
        world.until(lambda: fed, f"{items!r} takes no items")
        if not got:
            # The struck caller has left the item in the queue.
            world.spawn(lambda: got.append(items.get()))
        world.until(lambda: got == [1], f"{items!r}: the item is lost")

    return lambda: got.append(items.get()), check


def queue_put_full(world: World) -> tuple[Callable[[], object], Check]:
    items, got = world.queue.Queue(1), []
    items.put(1)

    def take() -> None:
        world.partner_sleeps()
        got.append(items.get())

    world.spawn(take)

    def check() -> None:
        world.until(lambda: got, f"{items!r} gives no items")
        world.pause(0.001)
        world.spawn(items.put, 3)
        while 3 not in got:
            before = len(got)
            world.spawn(lambda: got.append(items.get()))
            world.until(lambda n=before: len(got) > n, f"{items!r} gives no items")
        assert got in ([1, 2, 3], [1, 3]), got

    return lambda: items.put(2), check


def queue_task_done(world: World) -> tuple[Callable[[], object], Check]:
    items, joined = world.queue.Queue(), []
    items.put(1)
    items.get()
    world.spawn(lambda: joined.append(items.join()))
    world.parked(getattr(items, "_joiners_", None))

    def check() -> None:
        if world.again and items.unfinished_tasks:
            world.spawn(items.task_done)
        world.until(lambda: joined, f"{items!r}: the join does not end")
        world.spawn(items.put, 1)
        world.until(lambda: items.qsize() == 1, f"{items!r} takes no more items")

    return items.task_done, check


def spawn(world: World) -> tuple[Callable[[], object], Check]:
    ran: list[int] = []

    def check() -> None:
        for n in (1, 2, 3):
            world.spawn(ran.append, n)
        world.until(lambda: {1, 2, 3} <= set(ran), f"of the dhagas 1, 2, 3 only these ran: {ran}")
        assert world.again or 0 in ran, "the struck spawn has started nothing"

    return lambda: world.spawn(ran.append, 0), check


def join(world: World) -> tuple[Callable[[], object], Check]:
    partner = world.spawn(world.partner_sleeps)

    def use() -> None:
        partner.join()
        assert not partner.is_alive(), "the join without a timeout has timed out"

    return use, lambda: world.until(lambda: not partner.is_alive(), "the partner does not end")


def result(world: World) -> tuple[Callable[[], object], Check]:
    partner = world.spawn(world.partner_sleeps)

    def check() -> None:
        world.until(lambda: not partner.is_alive(), "the partner does not end")
        assert partner.result_waiters <= 1, "it counts as one who waits twice"  # 1: it has seen the result

    return partner.result, check


def cancel(world: World) -> tuple[Callable[[], object], Check]:
    partner = world.spawn(dhaga.park, "never")
    world.until(lambda: partner.parked, "the partner does not park")

    def check() -> None:
        if world.again:
            partner.cancel()
        world.until(lambda: not partner.is_alive(), "the cancel is lost")

    return partner.cancel, check


def scope(world: World) -> tuple[Callable[[], object], Check]:
    children: list[Any] = []

    def use() -> None:
        with dhaga.Scope() as here:
            for _ in range(2):
                children.append(here.spawn(dhaga.sleep, 0.001))

    return use, lambda: world.until(lambda: not any(each.is_alive() for each in children), "a child is left")


def offload(world: World) -> tuple[Callable[[], object], Check]:
    pool = pools.setdefault("pool", dhaga.OffloadPool("struck", 1)) if world.in_main else None

    def check() -> None:
        if pool is not None:
            assert world.spawn(pool.offload, pow, 2, 3).result(PATIENCE) == 8

    return functools.partial((pool or dhaga).offload, pow, 2, 3), check


def sleep(world: World) -> tuple[Callable[[], object], Check]:
    return lambda: (dhaga.sleep(0), dhaga.sleep(0.0005)), lambda: world.pause()


pools: dict[str, Any] = {}

CASES: dict[str, Case] = {
    "lock": lock_alone,
    "lock release": lock_given_over,
    "lock acquire": lock_waited_for,
    "rlock": rlock_alone,
    "rlock release": functools.partial(lock_given_over, kind="RLock"),
    "rlock acquire": functools.partial(lock_waited_for, kind="RLock"),
    "condition notify": condition_notify,
    "condition wait": condition_wait,
    "semaphore release": semaphore_release,
    "semaphore acquire": semaphore_wait,
    "event set": event_set,
    "event wait": event_wait,
    "queue put": queue_put,
    "queue put full": queue_put_full,
    "queue get": queue_get,
    "queue task_done": queue_task_done,
    "simple queue put": functools.partial(queue_put, kind="SimpleQueue"),
    "simple queue get": functools.partial(queue_get, kind="SimpleQueue"),
    "spawn": spawn,
    "join": join,
    "result": result,
    "cancel": cancel,
    "scope": scope,
    "offload": offload,
    "sleep": sleep,
}
OF_MAIN_CODE = ("scope", "sleep")
"""Cases only for main code: a plain thread cannot make these calls, or runs no code of the package in them."""


# ---- strikes, one after another


def strike(
    world: World, case: Case, nth: float, handler: str, tell: Callable[[FrameType], object] | None = None
) -> tuple[Tracer, str]:
    """Run a case with one strike, before which ``tell`` is called. Returns: the tracer, and an error text or ""."""
    operation, check = case(world)
    handle = handler_named(handler)

    def call(frame: FrameType) -> object:
        if tell is not None:
            tell(frame)
        return handle(frame)

    tracer = Tracer(nth, world.modules, call)
    raised: list[type[BaseException]] = []
    try:
        try:
            sys.settrace(tracer.on_call)
            operation()
        finally:
            sys.settrace(None)
        if tracer.place:
            wait_for_strike(world)
    except (*ERRORS, BaseExceptionGroup) as error:
        # A Scope groups the errors of its block.
        raised.extend(map(type, error.exceptions if isinstance(error, BaseExceptionGroup) else [error]))
    try:
        if tracer.place:
            drain(world, raised)
        check()
        assert asyncio._get_running_loop() is None, "the running loop is left set"
        assert len(raised) == bool(tracer.place), f"raised: {raised}"
    except (AssertionError, *ERRORS, RuntimeError, TimeoutError) as error:
        return tracer, f"{type(error).__name__}: {error}"
    return tracer, ""


def wait_for_strike(world: World) -> None:
    """Wait for a strike that the package defers, or that is pending."""
    deadline = originals.monotonic() + PATIENCE
    while originals.monotonic() < deadline:
        world.pause()


def drain(world: World, raised: list[type[BaseException]]) -> None:
    """Park twice, so that a pending error or a second error is raised."""
    for _ in range(2):
        try:
            world.pause()
        except ERRORS as error:
            raised.append(type(error))
    main = this_thread.main
    assert main is None or not (main.parked or main.pending_errors), "the main code is left half parked"


def points_to_strike(world: World, case: Case, sample: int, seed: int) -> Iterator[int]:
    """Yield the numbers of the points: all, or a random sample of ``sample`` points."""
    if not sample:
        yield from itertools.count(1)
    tracer, problem = strike(world, case, float("inf"), "error")
    assert not problem, problem
    yield from sorted(random.Random(seed).sample(range(1, tracer.points + 1), min(sample, tracer.points)))


def run(where: str, handler: str, name: str, sample: int = 0, seed: int = 0) -> tuple[int, list[str]]:
    """Strike a case at its points. Returns: the number of strikes, and a line for each point that broke."""
    if where == "standard" or handler == "raw":
        return run_apart(where, handler, name)
    world, broken, struck = World(where), [], 0
    if world.in_main:
        dhaga.sleep(0.001)
    for nth in points_to_strike(world, CASES[name], sample, seed):
        tracer, problem = strike(world, CASES[name], nth, handler)
        if not tracer.place and not sample:
            break
        struck += bool(tracer.place)
        if problem:
            broken.append(f"{tracer.place}: {problem}")
    return struck, broken


def run_apart(where: str, handler: str, name: str) -> tuple[int, list[str]]:
    """Strike a case at all its points, each in its own process, because a broken program may hang."""
    broken: list[str] = []
    for nth in itertools.count(1):
        arguments = [sys.executable, "-m", "tests.kit.strikes", "--one", where, handler, name, str(nth)]
        try:
            answer = subprocess.run(arguments, capture_output=True, text=True, timeout=APART).stdout
        except subprocess.TimeoutExpired as error:
            answer = (error.stdout or b"").decode() + f"it hangs for {APART:.0f} s\n"
        place, _, problem = answer.partition("\n")
        if not place:
            return nth - 1, broken
        if problem.strip():
            broken.append(f"{place}: {problem.strip()}")
    raise AssertionError("there is always a next point")


def strike_one(where: str, handler: str, name: str, nth: str) -> None:
    """Strike one point. Print the place, and in a second line what broke."""
    world = World(where)
    world.again = True
    if world.in_main:
        dhaga.sleep(0.001)

    def tell(frame: FrameType) -> None:
        place = f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno} {frame.f_code.co_name}"
        print(place, flush=True)

    _, problem = strike(world, CASES[name], int(nth), handler, tell)
    print(problem, flush=True)


def main(where: str, handler: str, names: str, sample: str = "0", seed: str = "0") -> None:
    for name in names.split(",") if names != "all" else CASES:
        if name in OF_MAIN_CODE and where != "main":
            continue
        struck, broken = run(where, handler, name, int(sample), int(seed))
        for line in broken:
            print(f"{name}: {line}")
        print(f"{name}: {len(broken)} of {struck} broken", flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "--one":
        strike_one(*sys.argv[2:])
    else:
        main(*sys.argv[1:])
    sys.stdout.flush()
    os._exit(0)
