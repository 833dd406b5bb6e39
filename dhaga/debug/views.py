"""Views: what everybody is at, as it was at one moment; plain values that nothing changes any more.

Each scheduler is looked at in its own OS thread, where nothing moves meanwhile. One that does not come to it in time,
as a dhaga holds its thread, is looked at from outside: then without the stacks of its dhagas, but with that of its
thread, which says who holds it.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass

from greenlet import getcurrent

from dhaga.events import Event
from dhaga.kernel import deadlock, originals
from dhaga.kernel.errors import ParkError
from dhaga.kernel.lives import Guest, Implicit, OwnThread
from dhaga.kernel.microthread import RUNNING, WAITING, Dhaga, Main
from dhaga.kernel.osthread import OSThread, os_threads
from dhaga.kernel.scheduler import GLANCE_SECONDS, Scheduler, schedulers
from dhaga.kernel.waiter import Waiter

from . import holders, origins
from .stacks import Stack, stack_of, stacks_of_threads

PATIENCE = 1.0
"""Seconds that a scheduler has to come to it; one in order takes a few milliseconds."""


@dataclass(frozen=True, slots=True)
class DhagaView:
    """A dhaga, the main code of a thread, or a plain OS thread that waits for something of Dhaga's."""

    ident: int
    name: str
    kind: str  # dhaga, main code, OS thread
    state: str
    reason: str | None
    seconds: float | None  # for how long it has waited, or has held its thread, as far as that is known
    waits_on: str | None  # repr of the lock, queue, … it waits on
    held_by: tuple[str, ...]  # who holds that
    priority: str
    daemon: bool
    scopes: tuple[str, ...]  # that it is in, the outermost first
    cancels: tuple[str, ...]  # not raised yet
    stack: Stack
    spawned: Stack  # where it was spawned, if that is recorded: see origins


@dataclass(frozen=True, slots=True)
class SchedulerView:
    """A scheduler with its main code and its dhagas, the oldest first."""

    name: str
    life: str  # implicit, own thread, guest
    thread: int  # ident of its OS thread
    asleep: bool
    held: bool  # it did not come to it in time: looked at from outside
    runnable: int
    dhagas: tuple[DhagaView, ...]
    stack: Stack  # of its thread, where that was looked at from outside


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everybody in this process. ``circles``: names of those who wait for each other."""

    pid: int
    time: float  # of the system's clock
    schedulers: tuple[SchedulerView, ...]
    threads: tuple[DhagaView, ...]
    circles: tuple[tuple[str, ...], ...]

    def find(self, name: str) -> DhagaView:
        """Return whom this name belongs to. Raises: KeyError."""
        for view in self.everybody():
            if view.name == name:
                return view
        raise KeyError(name)

    def everybody(self) -> Iterator[DhagaView]:
        """Yield the dhagas of all schedulers, then the plain threads."""
        for scheduler in self.schedulers:
            yield from scheduler.dhagas
        yield from self.threads


def snapshot(patience: float = PATIENCE) -> Snapshot:
    """Look at every scheduler, dhaga and waiting thread of this process.

    Parks: until the schedulers of other OS threads have looked, for ``patience`` seconds at most (``event.wait``).
    From: a dhaga, main code, any OS thread; on the hub and in coroutines other schedulers are looked at from outside.
    """
    errands = [Look(scheduler) for scheduler in sorted(schedulers, key=lambda each: each.name)]
    for look in errands:
        look.ask()
    deadline = time.monotonic() + patience
    for look in errands:
        look.wait(max(0.0, deadline - time.monotonic()))
    views = tuple(look.view or look.from_outside() for look in errands)
    waiting = [thread for thread in os_threads if thread.parked]
    waiters: list[Waiter] = [waiter for look in errands for waiter in everybody_of(look.scheduler)]
    circles = holders.circles([waiter for waiter in [*waiters, *waiting] if waiter.parked])
    return Snapshot(
        os.getpid(),
        time.time(),
        views,
        tuple(view_of(thread) for thread in waiting),
        tuple(tuple(waiter.name for waiter in circle) for circle in circles),
    )


class Look:
    """A look at one scheduler, made in its thread."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.view: SchedulerView | None = None
        self.looked = Event()

    def ask(self) -> None:
        self.scheduler.call(self.make)

    def make(self) -> None:
        """Look; on the hub, or as whoever asks, if that is in this thread."""
        self.view = view_of_scheduler(self.scheduler)
        self.looked.set()

    def wait(self, timeout: float) -> None:
        try:
            self.view or self.looked.wait(timeout)
        except ParkError:  # on the hub: nobody waits there
            pass

    def from_outside(self) -> SchedulerView:
        scheduler = self.scheduler
        dhagas = tuple(view_of(waiter, None) for waiter in everybody_of(scheduler))
        stack = stacks_of_threads().get(scheduler.ident, ())
        return _scheduler_view(scheduler, dhagas, held=True, stack=stack)


def everybody_of(scheduler: Scheduler) -> list[Waiter]:
    """Return the main code of a scheduler, if it has any, and its dhagas, the oldest first."""
    main = scheduler.main
    return [*([main] if isinstance(main, Main) else []), *scheduler.in_order()]


def view_of_scheduler(scheduler: Scheduler) -> SchedulerView:
    """Look at one scheduler, in its own thread."""
    me = getcurrent()
    dhagas = tuple(view_of(waiter, me) for waiter in everybody_of(scheduler))
    return _scheduler_view(scheduler, dhagas, held=False, stack=())


LIVES = {Implicit: "implicit", OwnThread: "own thread", Guest: "guest"}


def _scheduler_view(scheduler: Scheduler, dhagas: tuple[DhagaView, ...], held: bool, stack: Stack) -> SchedulerView:
    life = LIVES.get(type(scheduler.life), type(scheduler.life).__name__.lower())
    return SchedulerView(
        scheduler.name, life, scheduler.ident, scheduler.asleep, held, scheduler.runnable(), dhagas, stack
    )


def view_of(waiter: Waiter, me: object = None) -> DhagaView:
    """Look at one waiter; ``me``: who runs, if this is its thread, so that stacks can be looked at, too."""
    thing = waiter.waits_on
    pending = waiter.pending
    return DhagaView(
        ident=waiter.ident,
        name=waiter.name,
        kind=_kind(waiter),
        state=_state(waiter),
        reason=waiter.parked[0] if waiter.parked else None,
        seconds=_seconds(waiter),
        waits_on=None if thing is None else deadlock.shortened(thing),
        held_by=tuple(map(holders.name, holders.holders(waiter))),
        priority=(getattr(waiter, "rank", None) and waiter.rank.name) or "NORMAL",
        daemon=getattr(waiter, "daemon", False),
        scopes=tuple(map(repr, holders.scopes(waiter))),
        cancels=tuple(map(repr, pending)),
        stack=() if me is None else _stack(waiter, me),
        spawned=origins.of(waiter),
    )


def _kind(waiter: Waiter) -> str:
    return "dhaga" if isinstance(waiter, Dhaga) else "main code" if isinstance(waiter, Main) else "OS thread"


def _state(waiter: Waiter) -> str:
    if isinstance(waiter, Dhaga):
        return waiter.state
    return WAITING if waiter.parked else RUNNING


def _seconds(waiter: Waiter) -> float | None:
    if not waiter.parked or waiter.since == math.inf:
        return None
    if isinstance(waiter, OSThread):
        return originals.monotonic() - waiter.since
    since = waiter.since - (GLANCE_SECONDS if isinstance(waiter, Dhaga) else 0.0)
    return max(0.0, waiter.scheduler.clock() - since)


def _stack(waiter: Waiter, me: object) -> Stack:
    greenlet = getattr(waiter, "greenlet", waiter)
    if greenlet is me:
        import sys

        return stack_of(sys._getframe(1))
    return stack_of(getattr(greenlet, "gr_frame", None))
