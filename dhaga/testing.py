"""Tools for testing code that runs on dhagas: a virtual clock, ``settle``, a sequencer, cancels at every park or event.

- The **virtual clock** belongs to a scheduler whose selector moves the clock to the next deadline instead of sleeping
  (``_kernel/process/virtual_clock.py``).
  It stands still while a call is under way in an OS thread, since that takes real time.
- ``settle`` parks until the loop would sleep: then every dhaga waits for the clock or for an external event.
- ``cancel_at_every_event`` strikes the victim of a scenario where it computes: see ``_kernel/run/strikes.py``.
- ``cancel_at_every_park`` replays a scenario with its victim watched by a ``ParkWatch``, which
  sees each park and each wake, and injects a cancel or a timeout at the nth.

The mark and the fixture for pytest are in ``pytest_plugin.py``; nothing else in the package imports this module. Names
that are not in ``__all__`` are for Dhaga's own tests.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import random
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Self

from greenlet import getcurrent

from ._kernel.api import current, park, spawn
from ._kernel.context_manager import contextmanager
from ._kernel.errors import Cancelled
from ._kernel.faces.foreign_names import refuse_async_with
from ._kernel.process.preemption_events import Events, monitoring
from ._kernel.process.shutdown import retire_closed_guests
from ._kernel.process.victims import EventWatch, ParkWatch
from ._kernel.process.virtual_clock import (
    ClockSince,
    JumpingSelector,
    VirtualClock,
    abandon,
    new_virtual_scheduler,
    set_main_aside,
)
from ._kernel.run.attachment import schedulers
from ._kernel.run.chosen_queue import ShuffledQueue
from ._kernel.run.microthread import Dhaga
from ._kernel.run.run_queues import HIGH, NORMAL
from ._kernel.run.scheduler import Scheduler
from ._kernel.wait.current import this_thread

__all__ = [
    "Scenario", "Sequencer", "VirtualClock", "cancel_at_every_event", "cancel_at_every_park", "preempt_everywhere",
    "settle", "virtual_clock",
]  # fmt: skip

seed: int | None = None
"""The seed of ``pytest --dhaga-seed``, which shuffles the run queues of virtual clocks; None for FIFO."""

PREEMPTED_SHARE = 0.5
"""Share of the events at which ``preempt_everywhere`` ends the turn. With 0.5, a race that is one event wide loses 30
of 200 updates.
"""


@contextmanager
def virtual_clock(shuffle: int | None = None) -> Iterator[VirtualClock]:
    """Give the main code a scheduler on a clock that jumps to the next deadline as soon as every dhaga waits.

    Sleeps, timeouts and the loop's timers use it; calls in OS threads and sockets take real time. ``shuffle``: a seed
    that shuffles the run queue (default: the seed of ``pytest --dhaga-seed``). In a simulation the clock and the order
    are those of the simulation. From: main code, outside a running loop.
    Raises: AssertionError at the end, naming the dhagas, timers and fds that are left; RuntimeError in a dhaga,
    coroutine or callback.
    """
    if isinstance(getcurrent(), Dhaga) or asyncio._get_running_loop() is not None:
        raise RuntimeError(
            "virtual_clock() is for main code: it cannot take over a running loop;\nin a pytest test that is marked "
            "dhaga, use the fixture dhaga_clock"
        )
    if (shared := shared_clock()) is not None:
        yield ClockSince(shared)
        return
    restore = set_main_aside()
    order = seed if shuffle is None else shuffle
    new_queue = None if order is None else partial(ShuffledQueue, order)
    scheduler = new_virtual_scheduler(JumpingSelector(clock := VirtualClock()), new_queue)
    try:
        yield clock
        problems = leftovers(scheduler)
    finally:
        abandon(scheduler)
        restore()
    assert not problems, f"left over: {'; '.join(problems)}"


def shared_clock() -> VirtualClock | None:
    """Return the clock of the simulation that the main code is in; None outside."""
    selector = None if this_thread.main is None else this_thread.main.scheduler.selector
    return selector.clock if isinstance(selector, JumpingSelector) and selector.is_shared else None


def leftovers(scheduler: Scheduler) -> list[str]:
    """Describe the objects left in a scheduler: dhagas, timers, registered fds."""
    problems = [repr(dhaga) for dhaga in scheduler.in_order()]
    if len(scheduler.timers):
        problems.append(f"{len(scheduler.timers)} timers")
    problems += [repr(channel) for channel in scheduler.poller.watchers.values()]
    return problems


def settle() -> None:
    """Wait until no other dhaga can run before the clock moves or an external event comes.

    So a test sees the outcome of the dhagas that it started, without a sleep.
    Parks: until then (``settle``). From: a dhaga or main code of a scheduler that runs its own loop. Raises:
    RuntimeError for a guest.
    """
    me = current()
    selector = me.scheduler.selector
    if selector is None:
        raise RuntimeError("settle() works where Dhaga runs the loop: a host's loop does not say when it is idle")
    park(
        "settle",
        undo=lambda: selector.idle_callbacks.remove(me.wake),
        start=lambda: selector.idle_callbacks.append(me.wake),
    )


class Sequencer:
    """Runs steps of several dhagas and threads in the order of their numbers: ``with sequence(3): ...``, from 0.

    Parks: until the steps before have ended (``step 3``). From: a dhaga, main code, any OS thread. Raises: RuntimeError
    for a number taken before; Deadlock if all wait for a step that is never taken.
    """

    def __init__(self) -> None:
        self._next = 0
        self._waiting: dict[int, Any] = {}

    def __call__(self, number: int) -> SequencerStep:
        return SequencerStep(self, number)

    def _wake_next(self) -> None:
        """Wake the waiter whose step is next."""
        waiter = self._waiting.pop(self._next, None)
        if waiter is not None:
            waiter.wake()

    def __repr__(self) -> str:
        return f"<Sequencer at step {self._next}, parked before {sorted(self._waiting)}>"


@refuse_async_with()
class SequencerStep:
    """One numbered block of a Sequencer."""

    def __init__(self, sequencer: Sequencer, number: int) -> None:
        self._sequencer = sequencer
        self._number = number

    def __enter__(self) -> Self:
        sequencer = self._sequencer
        if self._number in sequencer._waiting or self._number < sequencer._next:
            raise RuntimeError(f"step {self._number} was taken before")
        if self._number != sequencer._next:
            park(f"step {self._number}", undo=self._cancel, start=self._enqueue)
        return self

    def _enqueue(self) -> None:
        self._sequencer._waiting[self._number] = current()
        if self._number == self._sequencer._next:  # the step before ended just now, in another OS thread
            self._sequencer._wake_next()

    def _cancel(self) -> None:
        """Undo the park. Later steps wait until a cancelled step is taken again."""
        if self._sequencer._waiting.pop(self._number, None) is None:
            raise ValueError  # the step has begun: too late for the undo

    def __exit__(self, *_: object) -> None:
        self._sequencer._next += 1
        self._sequencer._wake_next()


Scenario = Callable[[], tuple[Dhaga, Callable[[], object]]]
"""Starts dhagas; returns one of them, the victim, and a check to call when all have ended.

The check asserts that no permit, lock, item or byte is lost. The victim must not have run yet.
"""

Injection = Callable[[Dhaga], object]


def run_queue_seed() -> int | None:
    """Return the seed of ``pytest --dhaga-seed``."""
    return seed


@contextmanager
def preempt_everywhere(seed: int | None = None) -> Iterator[None]:
    """End the running dhaga's turn at half of the jumps, calls and returns of the program, wherever preemption may.

    Code that checks and then acts fails here, unless it holds a lock or runs in ``dhaga.no_preempt()``. ``seed``:
    decides which half; by default the seed of ``pytest --dhaga-seed``, else 0. If a turn ended at each event, dhagas of
    one rhythm would never meet.
    Needs CPython 3.12 or later. Raises: RuntimeError on an older one, or if other tools own all events.
    """
    draw = random.Random(seed if seed is not None else run_queue_seed() or 0).random
    with armed(lambda: draw() < PREEMPTED_SHARE, "preempt_everywhere"):
        yield


@contextmanager
def armed(choose: Callable[[], bool], caller: str) -> Iterator[None]:
    """End turns at the events of the program that ``choose`` accepts, wherever preemption may.

    Raises: RuntimeError without events, in the name of its ``caller``.
    """
    events = None if monitoring is None else Events()
    if events is None or not events.take_tool():
        raise RuntimeError(f"{caller}() needs a free tool id of sys.monitoring (CPython 3.12 or later)")
    events.arm_everywhere(choose)
    try:
        yield
    finally:
        events.arm_everywhere(None)
        events.free_tool()


def cancel(victim: Dhaga) -> None:
    victim.cancel("at a park")


def time_out(victim: Dhaga) -> None:
    if any(entry[2] is victim for entry in victim.scheduler.timers.heap):
        victim._expire()
    elif not getattr(victim.pending_errors, "shields", None):  # a shield holds off the Timeouts around it
        victim.time_out_park()


MOMENTS = ("at once", "in its turn", "after the wake")
"""When an error comes: before any other dhaga runs; after all runnable ones; when the victim is woken but has not run.
"""


def cancel_at_every_park(scenario: Scenario) -> int:
    """Replay a scenario, with a cancel or a timeout injected at its victim's 1st, 2nd, 3rd … park.

    Each replay has a virtual clock; each error comes at three moments (``MOMENTS``). After each replay every dhaga must
    have ended and the check must pass; any other error of the victim is raised, with a note that names the injection.
    Parks: while dhagas run (``join``). From: main code, outside a running loop. Returns: the number of parks.
    Raises: AssertionError, Deadlock, what the scenario raises.
    """
    parks = 0
    for inject, moment in itertools.product((cancel, time_out), MOMENTS):
        for nth in itertools.count(1):
            if not replay(scenario, nth, inject, moment):
                parks = max(parks, nth - 1)
                break
    return parks


def cancel_at_every_event(scenario: Scenario) -> int:
    """Replay a scenario, with a cancel at its victim's 1st, 2nd, 3rd … event: a jump, call or return of its own code.

    Where a deadline may not strike either, as in ``finally``, the cancel comes at the next park. Each replay has a
    virtual clock. After each, every dhaga must have ended and the check must pass; any other error of the victim is
    raised, with a note that names the line. Needs CPython 3.12 or later.
    Parks: while dhagas run (``join``). From: main code, outside a running loop. Returns: the number of events.
    Raises: AssertionError, Deadlock, RuntimeError, what the scenario raises.
    """
    for nth in itertools.count(1):
        if cancel_at_event(scenario, nth) < nth:
            return nth - 1
    raise AssertionError("unreachable")


def cancel_at_event(scenario: Scenario, nth: int) -> int:
    """Replay a scenario once, with a cancel at its victim's nth event. Returns: the events until then, or the end."""
    watch = EventWatch(nth)
    with armed(watch.is_nth, "cancel_at_every_event"):
        run_once(scenario, watch.begin, watch.note)
    return nth - watch.events_left


def replay(scenario: Scenario, nth: int, inject: Injection, moment: str) -> bool:
    """Run a scenario once, with an error injected at the nth park. Returns: False if the victim ended before that."""
    park_of_victim = ParkWatch(nth)

    def note() -> str:
        seen = ", ".join(park_of_victim.reasons)
        return f"the victim was to get a {inject.__name__} {moment} at park {nth} of: {seen}"

    run_once(scenario, lambda victim: inject_at(victim, park_of_victim, inject, moment), note)
    return park_of_victim.parks_left <= 0


def run_once(scenario: Scenario, prepare: Injection, note: Callable[[], str]) -> None:
    """Run a scenario to its end and call its check. ``prepare`` gets the victim; ``note`` is added to an error."""
    try:
        with virtual_clock():
            victim, check = scenario()
            assert victim.state == "NEW", f"{victim!r} has parked before it could be watched"
            prepare(victim)
            while live := victim.scheduler.in_order():
                live[0].join()
            with contextlib.suppress(Cancelled, TimeoutError):
                victim.result()
            check()
    except BaseException as error:
        with contextlib.suppress(AttributeError):  # a frozen dataclass takes no notes
            error.add_note(note())
        raise


def inject_at(victim: Dhaga, parked: ParkWatch, inject: Injection, moment: str) -> None:
    """Prepare the injection: by another dhaga, or within the victim's own wake."""

    def inject_now() -> None:
        inject(victim)

    def at_park() -> None:
        spawn(inject_now, name="injector", priority=HIGH if moment == "at once" else NORMAL)

    if moment == "after the wake":
        parked.at_wake = inject_now
    else:
        parked.at_park = at_park
    parked.begin(victim)
    victim.result_waiters += 1  # replay() calls result(), so its error is not reported


# ---- for Dhaga's own tests


def other_threads() -> set[threading.Thread]:
    """Return the OS threads, except for the pools' threads, which make calls of ``offload`` and look up names."""
    return {thread for thread in threading.enumerate() if thread.name not in ("dhaga-offload", "dhaga-dns")}


def close_leftover_schedulers() -> list[str]:
    """Close the main code's scheduler, stop those with threads, forget guests. Returns: the objects left in them."""
    problems = []
    for scheduler in list(schedulers):
        problems += leftovers(scheduler)
        if scheduler.thread is not None:
            problems.append(f"{scheduler!r} was not stopped")
            problems += stop_leftover(scheduler)
    retire_closed_guests()
    if this_thread.main is not None:
        abandon(this_thread.main.scheduler)
    return problems


def stop_leftover(scheduler: Scheduler) -> list[str]:
    """Cancel all dhagas of a scheduler, and stop it. A dhaga that does not end is forgotten, so that only one test
    reports it.
    """
    try:
        scheduler.call(scheduler.cancel_all)
        scheduler.stop(5)
    except (RuntimeError, TimeoutError) as error:
        schedulers.discard(scheduler)
        return [str(error)]
    return []


def open_fds() -> set[int]:
    """Return the open file descriptors of this process."""
    return {fd for fd in map(int, os.listdir("/dev/fd")) if is_open(fd)}


def is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:  # the one that listed the directory
        return False
    return True
