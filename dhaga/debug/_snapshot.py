"""Snapshots: the state of all schedulers, dhagas and waiting OS threads at one moment, as immutable values.

``SnapshotRequest`` inspects each scheduler in the scheduler's own OS thread, so that the state cannot change meanwhile.
If a dhaga holds that thread and the scheduler does not answer in time, the requesting thread inspects the scheduler.
Then the stacks of the scheduler's dhagas are left out, because the dhagas may be running. The stack of the OS thread
shows what holds the thread. The requesting thread computes the wait-for graph last, so that a cycle across schedulers
is found.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

from greenlet import getcurrent

from .._kernel import originals
from .._kernel.errors import ParkError
from .._kernel.process.preemption_watcher import cpu_seconds
from .._kernel.run import preemption
from .._kernel.run.attachment import schedulers
from .._kernel.run.lap import POLL_INTERVAL
from .._kernel.run.main_code import Main
from .._kernel.run.microthread import RUNNING, WAITING, Dhaga
from .._kernel.run.run_modes import ForkedMode, GuestMode, ImplicitMode, OwnThreadMode
from .._kernel.run.scheduler import Scheduler
from .._kernel.stacks import Stack, hide_package, stack_of, stacks_of_threads
from .._kernel.wait import deadlock, wait_graph
from .._kernel.wait.thread_waiter import OSThread, os_threads
from .._kernel.wait.waiter import Waiter
from .._kernel.weak_sets import members
from .._structured.scope import scopes_of
from .._sync.event import Event
from . import _spawn_sites

hide_package("dhaga.debug")

LOOK_SECONDS = 1.0
"""Maximum number of seconds to wait for a scheduler's answer; a healthy scheduler answers within milliseconds."""


PLACES_SHOWN = 10
"""Maximum number of the program's lines that are shown: the lines at which preemption has ended the most turns."""


@dataclass(frozen=True, slots=True)
class DhagaView:
    """A dhaga, the main code of a thread, or a plain OS thread that waits for one of Dhaga's objects."""

    ident: int
    name: str
    kind: str  # dhaga, main code, OS thread
    state: str
    reason: str | None
    seconds: float | None  # time since the park began; None without a park, or if the time is unknown
    waits_on: str | None  # repr of the object of the wait, such as a lock or a queue
    held_by: tuple[str, ...]  # names of the holders of this object
    priority: str
    daemon: bool
    scopes: tuple[str, ...]  # the scopes that contain the dhaga, outermost first
    cancels: tuple[str, ...]  # pending cancels
    stack: Stack
    spawned: Stack  # the stack of the spawn, if recorded; see record_origins


@dataclass(frozen=True, slots=True)
class SchedulerView:
    """A scheduler with its main code and its dhagas, oldest first."""

    name: str
    life: str  # the run mode: implicit, own thread, guest or forked (see run_modes.py)
    thread: int  # ident of its OS thread
    asleep: bool
    held: bool  # whether the scheduler did not answer in time, and was inspected from another thread
    runnable: int
    dhagas: tuple[DhagaView, ...]
    stack: Stack  # stack of the scheduler's OS thread, if ``held`` is true
    preemptions: int = 0  # number of turns ended because they took too long
    cpu_seconds: float | None = None  # CPU time of its OS thread so far; None if the platform does not report it


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state of the whole process. ``cycles``: cycles of the wait-for graph, each as a tuple of the waiters' names.

    ``preempted``: the lines at which preemption has ended the most turns, each with its count.
    """

    pid: int
    time: float  # wall clock
    schedulers: tuple[SchedulerView, ...]
    threads: tuple[DhagaView, ...]
    cycles: tuple[tuple[str, ...], ...]
    preempted: tuple[tuple[str, int], ...] = ()

    def find(self, name: str) -> DhagaView:
        """Return the view with this name. Raises: KeyError."""
        for view in self.everybody():
            if view.name == name:
                return view
        raise KeyError(name)

    def everybody(self) -> Iterator[DhagaView]:
        """Yield the views of all schedulers, then the views of plain OS threads."""
        for scheduler in self.schedulers:
            yield from scheduler.dhagas
        yield from self.threads


def snapshot(patience: float = LOOK_SECONDS) -> Snapshot:
    """Return the state of every scheduler, dhaga and waiting OS thread of this process.

    Parks: until the schedulers of other OS threads have answered, at most ``patience`` seconds (``event.wait``).
    From: a dhaga, main code, any OS thread. On an event loop (on the hub, or in a coroutine), the caller cannot park,
    so it inspects other schedulers from outside their threads.
    """
    requests = [SnapshotRequest(scheduler) for scheduler in sorted(schedulers, key=lambda each: each.name)]
    for request in requests:
        request.send()
    deadline = originals.monotonic() + patience
    for request in requests:
        request.wait(max(0.0, deadline - originals.monotonic()))
    views = tuple(request.view or request.view_from_outside() for request in requests)
    waiting = waiting_threads()
    waiters: list[Waiter] = [waiter for request in requests for waiter in waiters_of(request.scheduler)]
    cycles = wait_graph.cycles([waiter for waiter in [*waiters, *waiting] if waiter.parked])
    return Snapshot(
        os.getpid(),
        time.time(),
        views,
        tuple(view_of(thread) for thread in waiting),
        tuple(tuple(waiter.name for waiter in circle) for circle in cycles),
        tuple(preemption.places.most_common(PLACES_SHOWN)),
    )


class SnapshotRequest:
    """A request to one scheduler to create its view in its own thread."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.view: SchedulerView | None = None
        self.looked = Event()

    def send(self) -> None:
        self.scheduler.call(self.make_view)

    def make_view(self) -> None:
        """Create the view. From: the scheduler's thread, on the hub or directly in the caller."""
        self.view = view_of_scheduler(self.scheduler)
        self.looked.set()

    def wait(self, timeout: float) -> None:
        try:
            self.view or self.looked.wait(timeout)
        except ParkError:  # raised on an event loop, which must not wait
            pass

    def view_from_outside(self) -> SchedulerView:
        scheduler = self.scheduler
        dhagas = tuple(view_of(waiter, None) for waiter in waiters_of(scheduler))
        stack = stacks_of_threads().get(scheduler.thread_ident, ())
        return _scheduler_view(scheduler, dhagas, held=True, stack=stack)


def waiters_of(scheduler: Scheduler) -> list[Waiter]:
    """Return the main code of a scheduler, if any, and its dhagas, oldest first."""
    main = scheduler.main_waiter
    return [*([main] if isinstance(main, Main) else []), *scheduler.in_order()]


def waiting_threads() -> list[OSThread]:
    """Return the plain OS threads that wait for an object of Dhaga."""
    return [thread for thread in members(os_threads) if thread.parked]


def view_of_scheduler(scheduler: Scheduler) -> SchedulerView:
    """Return the view of one scheduler. From: the scheduler's own thread."""
    me = getcurrent()
    dhagas = tuple(view_of(waiter, me) for waiter in waiters_of(scheduler))
    return _scheduler_view(scheduler, dhagas, held=False, stack=())


MODE_NAMES = {ImplicitMode: "implicit", OwnThreadMode: "own thread", GuestMode: "guest", ForkedMode: "forked"}


def _scheduler_view(scheduler: Scheduler, dhagas: tuple[DhagaView, ...], held: bool, stack: Stack) -> SchedulerView:
    life = MODE_NAMES.get(type(scheduler.mode), type(scheduler.mode).__name__.lower())
    return SchedulerView(
        scheduler.name,
        life,
        scheduler.thread_ident,
        scheduler.asleep,
        held,
        scheduler.count_runnable(),
        dhagas,
        stack,
        scheduler.preemptions,
        cpu_seconds(scheduler, None),
    )


def view_of(waiter: Waiter, me: object = None) -> DhagaView:
    """Return the view of one waiter, with a stack unless ``me`` is None. ``me``: the thread's running greenlet."""
    thing = waiter.waits_on
    pending = waiter.pending_errors
    return DhagaView(
        ident=waiter.ident,
        name=waiter.name,
        kind=kind_of(waiter),
        state=state_of(waiter),
        reason=waiter.park_reason if waiter.parked else None,
        seconds=_seconds(waiter),
        waits_on=None if thing is None else deadlock.shortened(thing),
        held_by=tuple(map(wait_graph.name_of, wait_graph.holders(waiter))),
        priority=(getattr(waiter, "own_priority", None) and waiter.own_priority.name) or "NORMAL",
        daemon=getattr(waiter, "daemon", False),
        scopes=tuple(map(repr, scopes_of(waiter))),
        cancels=tuple(map(repr, pending)),
        stack=() if me is None else _stack(waiter, me),
        spawned=_spawn_sites.spawn_site_of(waiter),
    )


def kind_of(waiter: Waiter) -> str:
    """Return the kind of a waiter: ``dhaga``, ``main code`` or ``OS thread``."""
    return "dhaga" if isinstance(waiter, Dhaga) else "main code" if isinstance(waiter, Main) else "OS thread"


def state_of(waiter: Waiter) -> str:
    """Return the state of a waiter. A plain OS thread has no run queue: it is WAITING or RUNNING."""
    if isinstance(waiter, Dhaga | Main):
        return waiter.state
    return WAITING if waiter.parked else RUNNING


def _seconds(waiter: Waiter) -> float | None:
    if not waiter.parked or waiter.parked_since == math.inf:
        return None
    if isinstance(waiter, OSThread):
        return originals.monotonic() - waiter.parked_since
    since = waiter.parked_since - (POLL_INTERVAL if isinstance(waiter, Dhaga) else 0.0)
    return max(0.0, waiter.scheduler.clock() - since)


def _stack(waiter: Waiter, me: object) -> Stack:
    greenlet = getattr(waiter, "own_greenlet", waiter)
    if greenlet is me:
        import sys

        return stack_of(sys._getframe(1))
    return stack_of(getattr(greenlet, "gr_frame", None))


# ---- one dhaga


def view_one(waiter: Waiter, patience: float = LOOK_SECONDS) -> DhagaView:
    """Return the view of one waiter. The thread of its scheduler creates the view if that thread answers in time. A
    plain OS thread has no scheduler.

    Parks: at most ``patience`` seconds (``event.wait``). From: any OS thread.
    """
    if isinstance(waiter, OSThread):
        return replace(view_of(waiter), stack=stacks_of_threads().get(waiter.ident, ()))
    views: list[DhagaView] = []
    looked = Event()

    def look() -> None:
        views.append(view_of(waiter, getcurrent()))
        looked.set()

    scheduler = waiter.scheduler
    if scheduler.call(look):
        looked.wait(patience)
    if views:
        return views[0]
    view = view_of(waiter)
    return view if view.state != RUNNING else replace(view, stack=stacks_of_threads().get(scheduler.thread_ident, ()))
