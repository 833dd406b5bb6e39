"""The scheduler: who runs next. This is the one module that switches.

A parking dhaga switches straight to the next one in the run queue. When the queue runs empty it asks the poller once,
and only then goes to the hub, the greenlet in which the IOLoop runs. The loop calls ``lap`` back when an fd is ready,
a deadline has come or somebody woke a dhaga meanwhile; a lap is bounded, so that the loop's other business gets its
turn.

Rejected: starting a new dhaga straight from the parking one (each start would deepen the C stack, 100,000 overflow
it; so a new one is started from the hub, see ``Starter``); a sweep over waiters for time-outs; one Handle of the loop a
wait.
"""

from __future__ import annotations

import asyncio
import itertools
import math
from collections import deque
from collections.abc import Callable
from contextvars import Context
from types import TracebackType
from typing import Any, Self, TypeVar

from greenlet import getcurrent
from tornado.ioloop import IOLoop

from . import deadlock, originals
from .alarms import Alarm
from .errors import Cancelled
from .lives import Life, OwnThread
from .loop import HubSelector
from .microthread import Dhaga, Main
from .poller import Poller, new_poller
from .priorities import NORMAL, Priority, Reserve, Urgent
from .sleeps import sleep_outside
from .timers import Timers
from .waiter import Waiter
from .waiting import this_waiter

STRETCH = 32
"""Switches between two looks at the clock (45 ns each, and about as much around it: 3 ns a switch)."""

SLOW_SECONDS = 0.000_02
"""Where a switch takes longer than this on the average, dhagas compute, and each switch is followed by such a look."""

LAP_SECONDS = 0.001
"""A lap ends once it has taken this long; a turn of the asyncio loop costs about 15 µs, so at most 1.5 % goes there."""

GLANCE_SECONDS = 0.000_25
"""Within a lap, what has become ready is looked for this often (1 µs a look), and an expired deadline ends the lap."""

LAP_STRETCHES = 128
"""A lap ends after this many stretches even if the clock stands still, as it does in tests."""

number = itertools.count(1).__next__
R = TypeVar("R")


class Starter:
    """Stand in a queue for a dhaga of one priority that has not started yet: to switch to it has the hub start the
    next.

    Started from the hub they all begin at the same depth of the C stack, which keeps it flat and the copies small.
    """

    __slots__ = ("fresh", "scheduler")

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.fresh: deque[Dhaga] = deque()

    def switch(self) -> None:
        self.scheduler.starting = self
        self.scheduler.hub.switch()


class Errand:
    """Stand in a queue for a call to be made on the hub, where nobody can park: a Task's first step, for example."""

    __slots__ = ()
    scheduler: Scheduler

    def switch(self) -> None:
        scheduler = self.scheduler
        if getcurrent() is scheduler.hub:
            self.make_call()
        else:
            scheduler.starting = self
            scheduler.hub.switch()

    def make_call(self) -> None:
        """Do what is to be done. It must raise nothing."""
        raise NotImplementedError


class Scheduler:
    """Run the dhagas of one OS thread over one IOLoop.

    Three ways to live: *implicit*, made when the main code of a thread first spawns or parks; *own thread*, by
    ``start()`` or ``with Scheduler() as s:``; *guest*, made when ``spawn`` is called where an asyncio, Tornado or
    uvloop loop runs already.
    """

    __slots__ = (
        "__weakref__", "alarm", "asleep", "began", "busy", "clock", "closing", "full_laps",
        "glance_at", "glanced", "granted", "hub", "ident", "ioloop", "lap_began", "lap_ends",
        "lap_over", "laps", "left", "life", "live", "loop", "name", "outside_calls", "poller", "ready",
        "reserve", "selector", "starters", "starting", "stretch", "stretches", "switched", "timers",
        "urgent",
    )  # fmt: skip

    hosts = False
    """Whether some of its dhagas run loops of the program: see ``dhaga/asyncio.py``."""

    def __init__(self, name: str | None = None, *, loop: asyncio.AbstractEventLoop | None = None) -> None:
        """Make a scheduler that has no thread yet; ``loop``: an asyncio loop to run instead of a new one."""
        self.name = name or f"scheduler-{number()}"
        self.selector: HubSelector | None = None
        if loop is None:
            self.selector = HubSelector()
            self.selector.watch = deadlock.Watch(self, schedulers)
            loop = originals.SelectorEventLoop(self.selector)
        self.loop = loop
        self.clock: Callable[[], float] = originals.monotonic
        self.ready: deque[Any] = deque()
        self.urgent = Urgent(self)
        self.reserve = Reserve(self)
        self.timers = Timers()
        self.live: set[Dhaga] = set()
        self.hub: Any = None
        self.starters = [Starter(self) for _ in Priority]
        self.starting: Starter | Errand | None = None
        self.asleep = False
        self.left = self.stretch = STRETCH
        self.stretches = LAP_STRETCHES
        self.glance_at = self.lap_ends = math.inf  # until the first lap begins
        self.glanced = 0
        self.lap_over = False
        self.full_laps = 0
        self.granted = self.left
        self.switched = self.laps = 0  # so far, without the stretch under way
        self.began = self.busy = self.lap_began = 0.0
        self.ident = 0
        self.life = Life(self)
        self.outside_calls = 0  # calls under way in helper threads, which will wake somebody
        self.alarm = Alarm(self)
        self.closing = False
        self.ioloop: IOLoop
        self.poller: Poller

    def __repr__(self) -> str:
        state = "asleep" if self.asleep else "awake"
        if not self.ident:
            state = "stopped" if self.closing else "not started"
        return f"<Scheduler {self.name} {state}, {len(self.live)} dhagas, {self.runnable()} runnable>"

    # ---- switching

    def park(self, me: Waiter) -> Any:
        """Give the thread to the next runnable one; when it is the caller's turn again, give out what it was woken
        with.
        """
        ready = self.ready
        me.since = self.glance_at
        left = self.left = self.left - 1
        if ready and left:
            ready.popleft().switch()
        else:
            self.elect().switch()
        if me.fault is not None:
            me.throw_fault()
        value = me.value
        me.value = None
        return value

    def let_others_run(self) -> None:
        """Give the thread away until somebody switches back: of a park the half that main code needs by itself."""
        left = self.left = self.left - 1
        if self.ready and left:
            self.ready.popleft().switch()
        else:
            self.elect().switch()

    def give_turn(self, following: Any) -> None:
        """Have a certain one run now, in the place of the caller."""
        following.switch()

    def elect(self) -> Any:
        """Choose who runs when a stretch is over or the run queue is empty: the hub, if the lap is over or nobody
        can.
        """
        if self.left <= 0 and self.lap_is_over():
            self.lap_over = True
            return self.hub
        if not self.ready:
            if self.poller.channels:
                self.poller.poll()  # 11.1 -> 4.9 µs a socketpair round trip, against going home at once
            if not self.ready:
                if self.reserve:
                    return self.reserve.popleft()
                self.lap_over = True
                return self.hub
        return self.ready.popleft()

    def lap_is_over(self) -> bool:
        """Look at the clock after a stretch. Where dhagas compute, look also at what has become ready meanwhile."""
        now = self.clock()
        self.stretches -= 1
        self.switched += self.granted - self.left
        self.granted = self.left
        if now >= self.glance_at or self.stretches <= 0:
            self.take_pace(now)
            if now >= self.lap_ends or self.stretches <= 0:
                self.full_laps += 1
                return True
            if self.timers.due(now):
                return True
            self.poller.poll()
        self.left = self.granted = self.stretch
        return False

    def take_pace(self, now: float) -> None:
        """Fit the stretches to the pace since the last glance, and say when the next is due."""
        switches = (self.glanced - self.stretches) * self.stretch
        self.stretch = 1 if now - self.glance_at + GLANCE_SECONDS > switches * SLOW_SECONDS else STRETCH
        self.glanced = self.stretches
        self.glance_at = now + GLANCE_SECONDS

    def lap(self, *_: object) -> None:
        """Look what is ready, run what is runnable, and go home to the loop. A callback of the loop, on the hub."""
        self.asleep = False
        self.poller.poll()
        self.run()

    def run(self) -> None:
        """Run what is runnable, for a bounded while."""
        self.hub = getcurrent()
        now = self.clock()
        self.timers.fire(now)
        if self.full_laps == 2:  # not in each: where one turn fills a lap, the HIGH ones would starve
            self.let_others_pass()
        self.glance_at = now + GLANCE_SECONDS
        self.lap_ends = now + LAP_SECONDS
        self.lap_began = now
        self.left = self.granted = self.stretch
        self.lap_over = False
        self.stretches = self.glanced = LAP_STRETCHES
        self.run_lap(self.ready)
        self.go_home()

    def let_others_pass(self) -> None:
        """Let one NORMAL and one LOW dhaga be the first in a lap: nobody starves."""
        self.full_laps = 0
        if self.urgent.waiters:
            self.urgent.let_one_pass()
        if self.reserve:
            self.ready.appendleft(self.reserve.popleft())

    def run_lap(self, ready: deque[Any]) -> None:
        new = Starter
        while not self.lap_over:
            if self.starting is not None:  # a parking dhaga has met a starter in the queue
                following: Any = self.starting
                self.starting = None
            else:
                self.left -= 1
                following = ready.popleft() if ready and self.left else self.elect()
            if type(following) is new:
                following = following.fresh.popleft()
                following.parent = self.hub
            if following is not self.hub:
                following.switch()

    def go_home(self) -> None:
        """Leave the lap: have the loop call back for what is still runnable, or for the next deadline."""
        self.switched += self.granted - self.left
        self.granted = self.left
        self.laps += 1
        self.busy += self.clock() - self.lap_began
        self.alarm.set()
        self.asleep = True
        if self.runnable():  # looked at now that wakers see the flag
            self.asleep = False
            self.loop.call_soon(self.go_on, self.laps)
        if self.life.over():
            self.loop.stop()
        self.life.at_home()

    def go_on(self, laps: int) -> None:
        """Run the lap that the last one has asked for, unless there was another meanwhile, which then has asked anew.

        Events of fds, alarms and awaited Tasks run laps, too. Where each of them had one more run in every turn of the
        loop from then on, a turn took 90 laps after 3 s in which dhagas were never idle, and coroutines starved.
        """
        if laps == self.laps:
            self.lap()

    def queue_of(self, priority: Priority) -> Any:
        """Return what to append to, to make one of this priority runnable. Raises: TypeError."""
        if not isinstance(priority, Priority):
            raise TypeError(f"a priority is dhaga.HIGH, dhaga.NORMAL or dhaga.LOW, not {priority!r}")
        return (self.urgent, self.ready, self.reserve)[priority]

    def runnable(self) -> int:
        """Return how many wait for their turn."""
        return len(self.ready) + len(self.reserve)

    def switches(self) -> int:
        """Return how often dhagas have been switched to so far; seen from another thread a few may be missing."""
        return self.switched + self.granted - self.left

    def rouse(self) -> None:
        """Have a sleeping loop call ``lap``; from any thread and from signal handlers."""
        if not self.ident or self.loop.is_closed():  # it has ended, or will be found dead
            return
        self.asleep = False
        deadlock.leave(self.ident)
        if originals.get_ident() == self.ident and not self.selecting():
            self.loop.call_soon(self.lap)
        else:
            self.loop.call_soon_threadsafe(self.lap)

    def wake_in_callback(self, waiter: Waiter) -> None:
        """Wake a waiter of this scheduler and run a lap right here; from a callback of its loop, but no Task's step.

        That saves a turn of the loop, and a guest in the main thread the write to its wake-up pipe.
        """
        if not self.asleep or not self.ident:
            waiter.unpark()
        else:
            self.asleep = False
            waiter.unpark()
            self.run()

    def selecting(self) -> bool:
        """Tell whether the loop may be inside its select, where a signal handler strikes: only a write wakes it."""
        if self.selector is None:  # a host's loop does not say; Python's signal handlers run in the main thread
            return self.ident == originals.main_thread().ident
        return self.selector.selecting

    # ---- dhagas

    def spawn(
        self,
        fn: Callable[..., R],
        /,
        *args: Any,
        name: str | None = None,
        daemon: bool = False,
        priority: Priority = NORMAL,
        context: Context | None = None,
        **kwargs: Any,
    ) -> Dhaga[R]:
        """Start a dhaga that calls ``fn(*args, **kwargs)`` in this scheduler's thread, when its turn comes.

        Parks: never. From: any thread. ``daemon``: cancelled, not waited for, at interpreter exit; ``priority``: see
        ``dhaga.priority``; ``context``: its context variables, by default a copy of the caller's. Raises: TypeError,
        RuntimeError after ``stop``.
        """
        dhaga: Dhaga[R] = Dhaga(self, fn, args, kwargs or None, name, daemon, context, priority)
        self.admit(dhaga)
        return dhaga

    def admit(self, dhaga: Dhaga) -> None:
        """Take a NEW dhaga in, at the end of the run queue."""
        if self.closing and originals.get_ident() != self.ident:
            raise RuntimeError(f"{self!r} is stopped: it takes no more dhagas")
        if self.asleep and (not self.ident or self.loop.is_closed()):
            raise RuntimeError(f"{self!r} has stopped: it takes no more dhagas")
        if births is not None:
            births(dhaga)
        self.live.add(dhaga)  # greenlet would throw GreenletExit into one that nobody refers to
        starter = self.starters[dhaga.rank]
        starter.fresh.append(dhaga)
        dhaga.queue.append(starter)
        if self.asleep:
            self.rouse()

    def call(self, fn: Callable[..., object], *args: Any) -> bool:
        """Call ``fn(*args)`` in this scheduler's thread: at once if that is this one, else soon. False if it has
        ended.
        """
        if originals.get_ident() == self.ident:
            fn(*args)
            return True
        try:
            self.loop.call_soon_threadsafe(fn, *args)
        except RuntimeError:  # the loop is closed
            return False
        return True

    def cancel_all(self, reason: object = None) -> None:
        """Cancel every dhaga of this scheduler, the oldest first."""
        for dhaga in self.in_order():
            dhaga.interrupt(Cancelled(reason))

    def in_order(self) -> list[Dhaga]:
        """Return the live dhagas, the oldest first."""
        return sorted(self.live, key=lambda dhaga: dhaga.ident)

    # ---- lives: see kernel/lives.py

    def attach(self, life: Life, hub: Any, ioloop: IOLoop) -> None:
        """Bind the scheduler to this OS thread, with ``hub`` as the greenlet in which its loop runs."""
        self.life = life
        self.ident = originals.get_ident()
        self.began = self.clock()
        self.hub = hub
        self.ioloop = ioloop
        self.poller = new_poller(ioloop, self.lap)
        if self.selector is not None:
            self.selector.own_fds = len(self.selector.get_map())
        schedulers.add(self)
        for follow in followers:
            follow(self, True)

    def detach(self) -> None:
        """Let go of the loop and of what is held in the operating system."""
        schedulers.discard(self)
        deadlock.leave(self.ident)
        self.alarm.cancel()
        self.poller.detach()
        self.disown()

    def disown(self) -> None:
        """Belong to no thread any more: its ident may become another's."""
        for follow in followers:
            follow(self, False)
        self.ident = 0
        self.asleep = True

    def leave_to_hub(self) -> None:
        """Let the hub run to its end; from the main code, when nothing is left to do."""
        self.lap_over = True
        self.hub.switch()

    @property
    def main(self) -> Main | Dhaga | None:
        """The main code that this scheduler serves, if it has any; in a forked child that may be a dhaga."""
        return self.life.main

    @property
    def thread(self) -> Any:
        """The OS thread that this scheduler was started in, if it has one of its own."""
        return self.life.thread

    def start(self) -> Self:
        """Run in an OS thread of its own from now on; ``with Scheduler() as s:`` does so and stops it in the end.

        Parks: never; returns once the scheduler takes dhagas. Raises: RuntimeError if it was started before.
        """
        if self.ident or self.closing:
            raise RuntimeError(f"{self!r} was started before: a scheduler starts once")
        OwnThread(self)
        return self

    def stop(self, timeout: float | None = None) -> None:
        """Cancel what is left, let every ``finally`` run, and end the thread.

        Parks: until the last dhaga has ended (``stop NAME``). From: a dhaga of another scheduler, main code, any
        other thread.
        Raises: RuntimeError from its own dhagas; TimeoutError naming those that did not end within ``timeout``
        seconds.
        """
        if not isinstance(self.life, OwnThread):
            raise RuntimeError(f"{self!r} has no thread of its own that could be stopped")
        self.life.stop(timeout)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


births: Callable[[Dhaga], object] | None = None
"""Told of each new dhaga, in its spawner: see ``dhaga/debug/origins.py``."""

followers: list[Callable[[Scheduler, bool], object]] = []
"""Told of each scheduler that begins, True, or ends, in its thread if that lives: see ``dhaga/debug/observers.py``."""

schedulers: set[Scheduler] = set()
"""Every scheduler that is bound to a thread and has not ended."""


def sleep(seconds: float = 0) -> None:
    """Let others run for at least ``seconds``; with 0 once around the run queue.

    Parks: ``sleep``; a plain OS thread sleeps as with ``time.sleep``. Raises: ValueError below 0, Cancelled, ParkError.
    """
    me: Any = getcurrent()
    try:
        scheduler = me.scheduler
    except AttributeError:  # not a dhaga
        sleep_outside(this_waiter(), seconds)
        return
    if seconds or me.pending or scheduler.hosts:
        sleep_outside(me, seconds)
        return
    ready = scheduler.ready  # a park without its reason and its value: 20 % less of a yield
    me.queue.append(me)
    left = scheduler.left = scheduler.left - 1
    if left:
        ready.popleft().switch()
    else:
        scheduler.elect().switch()
