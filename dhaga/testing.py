"""Tools for testing code that runs on dhagas: a virtual clock, ordered steps, and cancels at every park or event.

- The **virtual clock** belongs to a scheduler whose selector moves the clock to the next deadline instead of sleeping
  (``_kernel/process/virtual_clock.py``).
  The clock does not move while a call runs in an OS thread, because such a call takes real time.
- ``settle`` parks until the loop would sleep, which means that every dhaga waits for the clock or an external event.
- ``cancel_at_every_event`` cancels one dhaga of a scenario, the victim, while that dhaga computes: see
  ``_kernel/run/deadline_strikes.py``.
- ``cancel_at_every_park`` replays a scenario. A ``ParkWatch`` observes the parks and wakes of the scenario's victim,
  and injects a cancel or a timeout at the nth park.

The mark and the fixture for pytest are in ``pytest_plugin.py``. Names that are not in ``__all__`` are for Dhaga's own
tests.
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
from ._kernel.process.process_exit import retire_closed_guests
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
"""The seed of ``pytest --dhaga-seed``, which shuffles the run queues under a virtual clock; None for FIFO order."""

PREEMPTED_SHARE = 0.5
"""Share of the events at which ``preempt_everywhere`` ends a turn. With 0.5, a race with a window of one event loses 30
of 200 updates.
"""


@contextmanager
def virtual_clock(shuffle: int | None = None) -> Iterator[VirtualClock]:
    """Give the main code a scheduler whose clock jumps to the next deadline as soon as every dhaga waits.

    Sleeps, timeouts and the loop's timers use this clock; calls in OS threads, and waits for sockets, take real time.
    ``shuffle``: a seed that shuffles the run queue (default: the seed of ``pytest --dhaga-seed``). In a simulation, the
    clock and the order of the simulation are used. From: main code, outside a running loop.
    Raises: AssertionError at the end, which lists the dhagas, timers and fds that are left; RuntimeError in a dhaga,
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
    """Return the clock of the simulation in which the main code runs; None outside a simulation."""
    selector = None if this_thread.main is None else this_thread.main.scheduler.selector
    return selector.clock if isinstance(selector, JumpingSelector) and selector.is_shared else None


def leftovers(scheduler: Scheduler) -> list[str]:
    """Return descriptions of the objects left in a scheduler: dhagas, timers, registered fds."""
    problems = [repr(dhaga) for dhaga in scheduler.in_order()]
    if len(scheduler.timers):
        problems.append(f"{len(scheduler.timers)} timers")
    problems += [repr(channel) for channel in scheduler.poller.watchers.values()]
    return problems


def settle() -> None:
    """Wait until no other dhaga is runnable. Then only a move of the clock or an external event wakes a dhaga.

    So a test can check the effects of the dhagas that it has started, without a sleep.
    Parks: until the loop would sleep (``settle``). From: a dhaga or main code of a scheduler that runs its own loop.
    Raises: RuntimeError on a scheduler that is attached to another program's loop.
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
    """A tool that runs steps of several dhagas and threads in the order of their numbers, from 0: ``with sequence(3):
    ...``.

    Parks: until the earlier steps have ended (``step 3``). From: a dhaga, main code, any OS thread. Raises:
    RuntimeError for a number that was already used; Deadlock if all callers wait for a step that never begins.
    """

    def __init__(self) -> None:
        self._next = 0
        self._waiting: dict[int, Any] = {}
        self._taken: set[int] = set()  # numbers of steps that are under way or waiting

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
        if self._number in sequencer._taken or self._number < sequencer._next:
            raise RuntimeError(f"step {self._number} was taken before")
        sequencer._taken.add(self._number)
        if self._number != sequencer._next:
            try:
                park(f"step {self._number}", undo=self._cancel, start=self._enqueue)
            except BaseException:
                sequencer._taken.discard(self._number)
                raise
        return self

    def _enqueue(self) -> None:
        self._sequencer._waiting[self._number] = current()
        if self._number == self._sequencer._next:  # the previous step has just ended in another OS thread
            self._sequencer._wake_next()

    def _cancel(self) -> None:
        """Undo the park. Later steps wait until the cancelled step is tried again."""
        if self._sequencer._waiting.pop(self._number, None) is None:
            raise ValueError  # the step has begun, so it is too late for the undo

    def __exit__(self, *_: object) -> None:
        self._sequencer._taken.discard(self._number)
        self._sequencer._next += 1
        self._sequencer._wake_next()


Scenario = Callable[[], tuple[Dhaga, Callable[[], object]]]
"""A function that starts dhagas. It returns one of them, the victim, and a check to call when all dhagas have ended.

The check asserts that no permit, lock, item or byte is lost. The victim must not have run yet.
"""

Injection = Callable[[Dhaga], object]


def run_queue_seed() -> int | None:
    """Return the seed of ``pytest --dhaga-seed``."""
    return seed


@contextmanager
def preempt_everywhere(seed: int | None = None) -> Iterator[None]:
    """End the running dhaga's turn at half of the program's jumps, calls and returns at which preemption is allowed.

    This reveals races in code that checks and then acts without a lock or ``dhaga.no_preempt()``. ``seed`` selects the
    half (default: the seed of ``pytest --dhaga-seed``, else 0). Ending a turn at every event would hide races of dhagas
    that run the same code in step. Raises: RuntimeError before CPython 3.12, or without a free tool id.
    """
    draw = random.Random(seed if seed is not None else run_queue_seed() or 0).random
    with armed(lambda: draw() < PREEMPTED_SHARE, "preempt_everywhere"):
        yield


@contextmanager
def armed(choose: Callable[[], bool], caller: str) -> Iterator[None]:
    """During the block, end the turn at an event of the program if ``choose()`` returns true and preemption is allowed
    there.

    Raises: RuntimeError, with the name of ``caller``, if no tool id is available.
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
    elif not getattr(victim.pending_errors, "shields", None):  # a shield delays the Timeouts outside its block
        victim.time_out_park()


MOMENTS = ("at once", "in its turn", "after the wake")
"""The moments of an injected error: before any other dhaga runs; after all runnable dhagas; between the victim's wake
and its run.
"""


def cancel_at_every_park(scenario: Scenario) -> int:
    """Replay a scenario, with a cancel or a timeout injected at its victim's 1st, 2nd, 3rd … park.

    Each replay has a virtual clock, and each error is injected at three moments (``MOMENTS``). After each replay every
    dhaga must have ended and the check must pass. An error of the victim, other than a cancel or timeout, is raised
    with a note that names the injection.
    Parks: while dhagas run (``join``). From: main code, outside a running loop. Returns: the number of parks.
    Raises: AssertionError, Deadlock, errors of the scenario.
    """
    parks = 0
    for inject, moment in itertools.product((cancel, time_out), MOMENTS):
        for nth in itertools.count(1):
            if not replay(scenario, nth, inject, moment):
                parks = max(parks, nth - 1)
                break
    return parks


def cancel_at_every_event(scenario: Scenario) -> int:
    """Replay a scenario, with a cancel at its victim's 1st, 2nd, 3rd … event: a jump, call or return in program code.

    In code that a deadline does not interrupt, such as a ``finally``, the cancel is raised at the next park. Each
    replay has a virtual clock. After each replay every dhaga must have ended and the check must pass. An error of the
    victim, other than a cancel or timeout, is raised with a note that names the line. Needs CPython 3.12 or later.
    Parks: while dhagas run (``join``). From: main code, outside a running loop. Returns: the number of events.
    Raises: AssertionError, Deadlock, RuntimeError, errors of the scenario.
    """
    for nth in itertools.count(1):
        if cancel_at_event(scenario, nth) < nth:
            return nth - 1
    raise AssertionError("unreachable")


def cancel_at_event(scenario: Scenario, nth: int) -> int:
    """Replay a scenario once, with a cancel at its victim's nth event. Returns: the number of events up to then."""
    watch = EventWatch(nth)
    with armed(watch.is_nth, "cancel_at_every_event"):
        run_once(scenario, watch.begin, watch.note)
    return nth - watch.events_left


def replay(scenario: Scenario, nth: int, inject: Injection, moment: str) -> bool:
    """Run a scenario once, with an error injected at the nth park. Returns: False if there were fewer parks."""
    park_of_victim = ParkWatch(nth)

    def note() -> str:
        seen = ", ".join(park_of_victim.reasons)
        return f"the victim was to get a {inject.__name__} {moment} at park {nth} of: {seen}"

    run_once(scenario, lambda victim: inject_at(victim, park_of_victim, inject, moment), note)
    return park_of_victim.parks_left <= 0


def run_once(scenario: Scenario, prepare: Injection, note: Callable[[], str]) -> None:
    """Call ``prepare(victim)``, run a scenario to its end, and call its check. ``note()`` is added to an error."""
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
        with contextlib.suppress(AttributeError):  # a frozen dataclass accepts no notes
            error.add_note(note())
        raise


def inject_at(victim: Dhaga, parked: ParkWatch, inject: Injection, moment: str) -> None:
    """Prepare the injection of an error by another dhaga, or within the victim's wake."""

    def inject_now() -> None:
        inject(victim)

    def at_park() -> None:
        spawn(inject_now, name="injector", priority=HIGH if moment == "at once" else NORMAL)

    if moment == "after the wake":
        parked.at_wake = inject_now
    else:
        parked.at_park = at_park
    parked.begin(victim)
    victim.result_waiters += 1  # run_once() calls result(), so the victim's error must not be reported


# ---- for Dhaga's own tests


def other_threads() -> set[threading.Thread]:
    """Return the OS threads, except the threads of the pools for ``offload`` and for name lookups."""
    return {thread for thread in threading.enumerate() if thread.name not in ("dhaga-offload", "dhaga-dns")}


def close_leftover_schedulers() -> list[str]:
    """Close or stop all schedulers that a test has left. Returns: descriptions of leftovers."""
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
    """Cancel all dhagas of a scheduler and stop it. A scheduler that does not stop is discarded, so only one test
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
    except OSError:  # the fd of the listing itself, which is closed by now
        return False
    return True
