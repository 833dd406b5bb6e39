"""Tools for testing what runs on dhagas: a virtual clock, a settled state, an order of steps, cancels at every park.

With pytest comes the rest, a mark and a fixture: see ``pytest_plugin.py``. Nothing but that imports this module. What
``__all__`` does not name is for Dhaga's own tests.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import random
import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Self, SupportsIndex

from greenlet import getcurrent

from .kernel.api import current, park, spawn
from .kernel.deadlock import Watch
from .kernel.errors import Cancelled
from .kernel.graveyard import bury_guests_of_closed_loops, graveyard
from .kernel.lives import Implicit
from .kernel.loop import HubSelector
from .kernel.microthread import Dhaga
from .kernel.priorities import HIGH, NORMAL, Urgent
from .kernel.scheduler import Scheduler, schedulers
from .kernel.waiting import here

__all__ = ["Scenario", "Sequencer", "VirtualClock", "cancel_at_every_park", "settle", "virtual_clock"]

CANCELS = 5
"""How often ``abandon`` cancels a dhaga before it lets it be."""

seed: int | None = None
"""Of ``pytest --dhaga-seed``: shuffles the run queues of virtual clocks; None for first in, first out."""

ROUNDING = 1e-6
"""Seconds by which a deadline may be missed where durations are added up, and still be meant."""


class VirtualClock:
    """Tell seconds that pass when everybody sleeps: ``clock()``, from 0; from ``virtual_clock()``.

    ``now`` may be set, forwards; who sleeps then is woken at the next switch to the loop.
    """

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def __repr__(self) -> str:
        return f"<VirtualClock at {self.now:g} s>"


class JumpingSelector(HubSelector):
    """A selector that does not wait for a deadline: it moves the clock there.

    While a call is under way in a helper thread the clock stands still: that takes real time.
    """

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__()
        self.clock = clock
        self.scheduler: Scheduler | None = None

    def select(self, timeout: float | None = None) -> Any:
        if not timeout or self.idlers:
            return super().select(timeout)
        events = super().select(0)
        if events:
            return events
        assert self.scheduler is not None
        if self.scheduler.outside_calls:
            return super().select(None)
        self.jump(timeout)
        return []

    def jump(self, seconds: float) -> None:
        """Move the clock, to the very deadline if that is what the loop is to be called for: sums of floats differ."""
        assert self.scheduler is not None
        there = self.clock.now + seconds
        deadline = self.scheduler.timers.next_deadline()
        if deadline is not None and abs(deadline - there) < ROUNDING:
            there = max(deadline, self.clock.now)
        self.clock.now = there


class ShuffledQueue(deque[Any]):
    """A queue that gives a random entry, from a seed: order must not matter for what is right; priority may."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.random = random.Random(seed)

    def popleft(self) -> Any:
        if self and type(self[0]) is not Urgent:
            self.rotate(-self.random.randrange(len(self)))
        return super().popleft()


@contextlib.contextmanager
def virtual_clock(shuffle: int | None = None) -> Iterator[VirtualClock]:
    """Give the main code a scheduler on a clock that jumps to the next deadline as soon as everybody waits.

    Sleeps, timeouts and the loop's own timers are on it; calls in helper threads and sockets take their real time.
    From: main code, outside a running loop. ``shuffle``: a seed by which those who are runnable take turns at random,
    what must not matter; by default that of ``pytest --dhaga-seed``, or none.
    Raises: AssertionError in the end that names the dhagas, timers and fds that are left over; RuntimeError in a
    dhaga, coroutine or callback.
    """
    if isinstance(getcurrent(), Dhaga) or asyncio._get_running_loop() is not None:
        raise RuntimeError(
            "virtual_clock() is for main code: it cannot take over a loop that runs already; a pytest test that is "
            "marked dhaga asks for the fixture dhaga_clock instead"
        )
    former, here.main = here.main, None
    scheduler = new_virtual_scheduler(clock := VirtualClock(), seed if shuffle is None else shuffle)
    try:
        yield clock
        problems = leftovers(scheduler)
    finally:
        abandon(scheduler)
        here.main = former
    assert not problems, f"left over: {'; '.join(problems)}"


def new_virtual_scheduler(clock: VirtualClock, shuffle: int | None) -> Scheduler:
    selector = JumpingSelector(clock)
    loop = asyncio.SelectorEventLoop(selector)
    loop.time = clock  # type: ignore[method-assign]
    scheduler = Scheduler("virtual", loop=loop)
    scheduler.clock = clock
    scheduler.selector = selector
    selector.scheduler = scheduler
    selector.watch = Watch(scheduler, schedulers)
    if shuffle is not None:
        scheduler.ready = ShuffledQueue(shuffle)
        for starter in scheduler.starters:
            starter.fresh = ShuffledQueue(shuffle)
    Implicit(scheduler)
    return scheduler


def leftovers(scheduler: Scheduler) -> list[str]:
    """Name what a scheduler still has that a finished program would not: dhagas, timers, registered fds."""
    problems = [repr(dhaga) for dhaga in scheduler.in_order()]
    if len(scheduler.timers):
        problems.append(f"{len(scheduler.timers)} timers")
    problems += [repr(channel) for channel in scheduler.poller.channels.values()]
    return problems


def abandon(scheduler: Scheduler) -> None:
    """Cancel what is left of the main code's scheduler and close it, whatever the state; what will not end is kept."""
    for _ in range(CANCELS):
        scheduler.cancel_all("the test is over")
        for dhaga in scheduler.in_order():
            with contextlib.suppress(Exception, SystemExit, Cancelled):
                dhaga.join(1)
    if scheduler.live:
        graveyard.append(scheduler)
    scheduler.life.close()


def settle() -> None:
    """Return when nobody else has anything to do before the clock or somebody outside moves.

    So a test can look at what has become of all that it set going, without a sleep. Parks: until then (``settle``).
    From: a dhaga or main code of a scheduler that runs its own loop. Raises: RuntimeError for a guest.
    """
    me = current()
    selector = me.scheduler.selector
    if selector is None:
        raise RuntimeError("settle() works where Dhaga runs the loop: a host's loop does not say when it is idle")
    park("settle", undo=lambda: selector.idlers.remove(me.wake), start=lambda: selector.idlers.append(me.wake))


class Sequencer:
    """Make steps of several dhagas and threads happen in the order of their numbers: ``with sequence(3): ...``, from 0.

    Parks: until the steps before it have ended (``step 3``). From: a dhaga, main code, any OS thread. Raises:
    RuntimeError for a number that was taken before. A step that nobody takes is a Deadlock, if all wait for it.
    """

    def __init__(self) -> None:
        self.turn = 0
        self.waiting: dict[int, Any] = {}

    def __call__(self, number: int) -> Step:
        return Step(self, number)

    def wake_next(self) -> None:
        """Wake whoever waits for the turn that has come."""
        following = self.waiting.pop(self.turn, None)
        if following is not None:
            following.wake()

    def __repr__(self) -> str:
        return f"<Sequencer at step {self.turn}, parked before {sorted(self.waiting)}>"


class Step:
    """One numbered block of a Sequencer."""

    def __init__(self, sequencer: Sequencer, number: int) -> None:
        self.sequencer = sequencer
        self.number = number

    def __enter__(self) -> Self:
        sequencer = self.sequencer
        if self.number in sequencer.waiting or self.number < sequencer.turn:
            raise RuntimeError(f"step {self.number} was taken before")
        if self.number != sequencer.turn:
            park(f"step {self.number}", undo=self.leave, start=self.queue_up)
        return self

    def queue_up(self) -> None:
        self.sequencer.waiting[self.number] = current()
        if self.number == self.sequencer.turn:  # it came just now, in another OS thread
            self.sequencer.wake_next()

    def leave(self) -> None:
        """Undo: the turn of a step that is cancelled never comes."""
        if self.sequencer.waiting.pop(self.number, None) is None:
            raise ValueError("its turn has come")

    def __exit__(self, *_: object) -> None:
        self.sequencer.turn += 1
        self.sequencer.wake_next()


class WatchedPark(list[str]):
    """The ``parked`` of a victim: calls ``at_park`` when it parks for the nth time, ``at_wake`` when that park ends."""

    def __init__(self, nth: int, at_park: Callable[[], object], at_wake: Callable[[], object]) -> None:
        super().__init__()
        self.left = nth
        self.at_park = at_park
        self.at_wake = at_wake
        self.reasons: list[str] = []

    def append(self, reason: str) -> None:
        super().append(reason)
        self.reasons.append(reason)
        self.left -= 1
        if not self.left:
            self.at_park()

    def __delitem__(self, index: SupportsIndex | slice) -> None:
        super().__delitem__(index)  # raises IndexError where another wake was first
        if not self.left:
            self.left = -1
            self.at_wake()


Scenario = Callable[[], tuple[Dhaga, Callable[[], object]]]
"""Starts dhagas and returns one of them, the victim, with a check to be made when all have ended.

The check asserts that nothing is lost: permits, locks, items, bytes. The victim must not have run yet.
"""

Strike = Callable[[Dhaga], object]


def cancel(victim: Dhaga) -> None:
    victim.cancel("at a park")


def time_out(victim: Dhaga) -> None:
    victim.expire()


MOMENTS = ("at once", "in its turn", "after the wake")
"""When the victim is struck: before anybody else runs, after all that are runnable, once it is woken but has not
run.
"""


def cancel_at_every_park(scenario: Scenario) -> int:
    """Replay a scenario on the virtual clock, striking its victim at its 1st, 2nd, 3rd … park: a cancel, or a timeout.

    Each strike comes at once, after all who are runnable, or when the victim is woken but has not run yet. After each
    replay every dhaga must have ended and the scenario's check passed; what else the victim ends by is raised. A
    failure tells in a note where the strike was. Parks: while dhagas run (``join``). From: main code, outside a running
    loop. Returns: how many parks there were. Raises: AssertionError, Deadlock, what the scenario raises.
    """
    parks = 0
    for strike, moment in itertools.product((cancel, time_out), MOMENTS):
        for nth in itertools.count(1):
            if not replay(scenario, nth, strike, moment):
                parks = max(parks, nth - 1)
                break
    return parks


def replay(scenario: Scenario, nth: int, strike: Strike, moment: str) -> bool:
    """Run a scenario once, striking its victim at the nth park; False if it ended before that."""
    park_of_victim = WatchedPark(nth, lambda: None, lambda: None)
    try:
        with virtual_clock():
            victim, check = scenario()
            watch(victim, park_of_victim, strike, moment)
            while live := victim.scheduler.in_order():
                live[0].join()
            with contextlib.suppress(Cancelled, TimeoutError):
                victim.result()
            check()
    except BaseException as error:
        seen = ", ".join(park_of_victim.reasons)
        error.add_note(f"the victim was to get a {strike.__name__} {moment} at park {nth} of: {seen}")
        raise
    return park_of_victim.left <= 0


def watch(victim: Dhaga, parked: WatchedPark, strike: Strike, moment: str) -> None:
    """Have the victim struck, by a dhaga that waits for nothing else, or by its own wake."""
    assert victim.state == "NEW", f"{victim!r} has parked before it could be watched"

    def strikes() -> None:
        strike(victim)

    def at_park() -> None:
        spawn(strikes, name="striker", priority=HIGH if moment == "at once" else NORMAL)

    if moment == "after the wake":
        parked.at_wake = strikes
    else:
        parked.at_park = at_park
    victim.parked = parked
    victim.asked += 1  # replay() sees its error


# ---- for Dhaga's own tests


def other_threads() -> set[threading.Thread]:
    """Return the OS threads that Dhaga did not start as helpers."""
    return {thread for thread in threading.enumerate() if thread.name != "dhaga-offload"}


def close_leftover_schedulers() -> list[str]:
    """Close the main code's scheduler, stop those with threads, forget guests; returns what was left over in them."""
    problems = []
    for scheduler in list(schedulers):
        problems += leftovers(scheduler)
        if scheduler.thread is not None:
            problems.append(f"{scheduler!r} was not stopped")
            scheduler.stop(5)
    bury_guests_of_closed_loops()
    if here.main is not None:
        abandon(here.main.scheduler)
    return problems


def open_fds() -> set[int]:
    """Return the file descriptors that this process has open."""
    return {fd for fd in map(int, os.listdir("/dev/fd")) if is_open(fd)}


def is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:  # the one that listed them
        return False
    return True
