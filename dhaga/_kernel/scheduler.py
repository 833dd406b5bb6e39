"""The scheduler: which dhaga runs next. This is the one module that switches.

A *lap* is what the scheduler does between two turns of the event loop. ``_lap``, a callback of the loop, polls for fds,
fires due timers and switches to the first in the run queue. A parking dhaga switches straight to the next one, without
the hub between: one greenlet switch instead of two. When the run queue is empty, the dhaga polls once more
(``_pick_next``), and only then switches to the hub, which ends the lap.
A lap is bounded, so that fds, timers and the loop's other callbacks get their turn. A switch counts ``_switches_left``
down; at 0 the *stretch* is over and the clock is read (``_lap_is_over``): every ``POLL_INTERVAL`` fds are polled, and
after ``LAP_SECONDS``, or at a due timer, the lap ends. Where dhagas compute, a stretch is one switch
(``_adapt_clock_checks``).
At its end a lap arms the loop's timer, sets ``_asleep`` and looks at the run queue again. A waker appends first and
looks at the flag then, so that one of the two sees the other; it calls ``_wake_loop`` from whatever thread it is in.
What is runnable then gets another lap by ``call_soon``.
To asyncio a dhaga and main code look like a plain thread: ``asyncio.get_running_loop()`` raises there, and
``asyncio.run`` works. A lap hides the loop from the OS thread and shows it again at its end, on the hub; so a coroutine
and a callback see it, and a switch costs nothing. Code in a dhaga finds the loop as ``dhaga.current().scheduler.loop``.

Rejected: starting a new dhaga straight from the parking one (each start deepens the C stack, and 100,000 overflow it; a
new one is started from the hub, see ``NewQueue``); a sweep over waiters for timeouts; a Handle of the loop per wait.
"""

from __future__ import annotations

import asyncio
import itertools
import math
from asyncio import _get_running_loop, _set_running_loop
from collections import deque
from collections.abc import Callable
from contextvars import Context
from sys import gettrace
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar, overload

from greenlet import getcurrent
from tornado.ioloop import IOLoop

from . import deadlock, hooks, originals
from .arguments import check_seconds
from .compiled import compiled, known_layout
from .current import this_waiter
from .errors import Cancelled
from .loop import HubSelector
from .microthread import Dhaga, Main, next_ident
from .poller import Poller, new_poller
from .run_modes import OwnThreadMode, RunMode
from .run_queues import NORMAL, HighQueue, LowQueue, Priority
from .sleep import sleep_off_fast_path
from .timers import LoopTimer, Timers
from .waiter import Waiter

# Switches between two reads of the clock (45 ns each, and about as much around it: 3 ns a switch).
SWITCHES_PER_CLOCK_CHECK = 32

# If switches take longer than this on the average, dhagas compute, and the clock is read after each.
SLOW_SWITCH_SECONDS = 0.000_02

# A lap ends once it has taken this long. A turn of the asyncio loop costs about 15 µs, so at most 1.5 % goes there.
LAP_SECONDS = 0.001

# Within a lap the poller is asked this often (1 µs each time), and a deadline that has passed ends the lap.
POLL_INTERVAL = 0.000_25

# A lap ends after this many stretches even if the clock stands still, as it does in tests.
CLOCK_CHECKS_PER_LAP = 128

next_number = itertools.count(1).__next__
P = ParamSpec("P")
R = TypeVar("R")


@known_layout
class NewQueue:
    """Run-queue entry for NEW dhagas of one priority. Switching to it makes the hub start the next one.

    Started from the hub, all of them begin at the same depth of the C stack: it stays flat, and the copies small.
    """

    __slots__ = ("not_started", "scheduler")

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.not_started: deque[Dhaga] = deque()

    def switch(self) -> None:
        self.scheduler._next_on_hub = self
        self.scheduler._hub.switch()


class HubCall:
    """Run-queue entry for a call to be made on the hub, where nothing can park: a Task's first step, for example.

    It is made in a lap, which shows no running loop.
    """

    __slots__ = ()
    scheduler: Scheduler

    def switch(self) -> None:
        scheduler = self.scheduler
        if getcurrent() is scheduler._hub:
            self.make_call()
        else:
            scheduler._next_on_hub = self
            scheduler._hub.switch()

    def make_call(self) -> None:
        """Make the call. It must not raise."""
        raise NotImplementedError


class NewcomerCancel(HubCall):
    """Run-queue entry behind a NEW dhaga: cancels it once it has run up to its first park."""

    __slots__ = ("dhaga", "error", "scheduler")

    def __init__(self, dhaga: Dhaga, error: Cancelled) -> None:
        self.scheduler = dhaga.scheduler
        self.dhaga = dhaga
        self.error = error

    def make_call(self) -> None:
        if not self.dhaga._done:
            self.dhaga._cancel_with(self.error)


class Scheduler:
    """Run the dhagas of one OS thread over one IOLoop.

    Three run modes: *implicit*, made when the main code of a thread first spawns or parks; *own thread*, by ``start()``
    or a ``with`` block; *guest*, made when ``spawn`` is called where an asyncio, Tornado or uvloop loop runs already.

    >>> from dhaga import Scheduler
    >>> with Scheduler("worker") as scheduler:
    ...     scheduler.spawn(sum, [1, 2]).result()
    3
    """

    __slots__ = (
        "__weakref__",
        "_around_park",
        "_asleep",
        "_busy_seconds",
        "_check_every",
        "_checks_at_poll",
        "_checks_left",
        "_clock",
        "_closing",
        "_counted_switches",
        "_end_reason",
        "_full_laps",
        "_high",
        "_hub",
        "_lap_began",
        "_lap_ends_at",
        "_lap_over",
        "_laps",
        "_last_old_ident",
        "_live",
        "_loop_timer",
        "_low",
        "_mode",
        "_new_queues",
        "_next_on_hub",
        "_next_poll_at",
        "_outside_calls",
        "_poller",
        "_run_queue",
        "_selector",
        "_started_at",
        "_switches_left",
        "_thread_ident",
        "_timers",
        "_traced",
        "_turn",
        "_turn_ends_at",
        "_uncounted_from",
        "ioloop",
        "loop",
        "name",
    )  # fmt: skip

    def __init__(self, name: str | None = None, *, loop: asyncio.AbstractEventLoop | None = None) -> None:
        """Make a scheduler that has no thread yet; ``loop``: an asyncio loop to run instead of a new one.

        The attribute ``loop`` is that loop, and ``ioloop`` Tornado's over it, once the scheduler has a thread. Neither
        is the current one of a dhaga, which asyncio takes for a plain thread.
        """
        self.name: str = name or f"scheduler-{next_number()}"
        self._selector: HubSelector | None = None
        if loop is None:
            self._selector = HubSelector()
            self._selector.watch = deadlock.DeadlockWatch(self, schedulers)
            loop = originals.SelectorEventLoop(self._selector)
        self.loop: asyncio.AbstractEventLoop = loop
        self._clock: Callable[[], float] = originals.monotonic
        self._run_queue: deque[Any] = deque()
        self._high = HighQueue(self)
        self._low = LowQueue(self)
        self._timers = Timers()
        self._live: set[Dhaga] = set()
        self._hub: Any = None
        self._new_queues = [NewQueue(self) for _ in Priority]
        self._next_on_hub: NewQueue | HubCall | None = None
        self._asleep = False
        self._switches_left = self._check_every = SWITCHES_PER_CLOCK_CHECK
        self._checks_left = CLOCK_CHECKS_PER_LAP
        # Infinite until main code or a lap begins.
        self._next_poll_at = self._lap_ends_at = math.inf
        self._checks_at_poll = 0
        # False while a lap is under way.
        self._lap_over = True
        self._full_laps = 0
        self._uncounted_from = self._switches_left
        # The turn that was last looked at, by its number of switches, and when it is to end: see turn_budget.py.
        self._turn = -1
        self._turn_ends_at = 0.0
        # So far, without the stretch under way.
        self._counted_switches = self._laps = 0
        self._started_at = self._busy_seconds = self._lap_began = 0.0
        self._thread_ident = 0
        self._mode = RunMode(self)
        # Calls under way in helper threads, which will wake a waiter: no deadlock while there are any.
        self._outside_calls = 0
        self._loop_timer = LoopTimer(self)
        self._closing = False
        # Set once all dhagas are cancelled because the scheduler ends; those with a higher ident are newcomers.
        self._end_reason: str | None = None
        self._last_old_ident = 0
        # A listener that switches in our place, see hooks.py: an asyncio loop that runs in a dhaga swaps its thread
        # state.
        self._around_park: Callable[[Waiter, Callable[[], None]], None] | None = None
        # A trace function was set when this lap began. The fast paths stand aside then: coverage's learns from the call
        # and the return of Python functions alone that another greenlet runs.
        self._traced = False
        self.ioloop: IOLoop
        self._poller: Poller

    def __repr__(self) -> str:
        state = "asleep" if self._asleep else "awake"
        if not self._thread_ident:
            state = "stopped" if self._closing else "not started"
        return f"<Scheduler {self.name} {state}, {len(self._live)} dhagas, {self._runnable()} runnable>"

    # ---- switching

    @compiled
    def _park(self, me: Waiter) -> Any:
        """Switch to the next runnable entry; once switched back to, return what the caller was woken with."""
        ready = self._run_queue
        # The time of the next poll is at hand, and close enough; reading the clock would cost 45 ns.
        me._since = self._next_poll_at
        left = self._switches_left = self._switches_left - 1
        if self._around_park is not None:
            self._around_park(me, self._switch_away)
        # The stretch goes on: the next entry runs without a look at clock, fds or timers.
        elif ready and left:
            ready.popleft().switch()
        else:
            self._pick_next().switch()
        if me._error is not None:
            me._throw_error()
        value = me._value
        # A parked dhaga must not keep alive what it once received.
        me._value = None
        return value

    def _let_others_run(self, me: Waiter) -> None:
        """Switch away from main code until another greenlet switches back: the first half of a park."""
        self._switches_left -= 1
        if self._around_park is not None:
            self._around_park(me, self._switch_away)
        else:
            self._switch_away()

    def _switch_away(self) -> None:
        """Switch to the next runnable entry, or to the hub. The caller has counted the switch."""
        if self._run_queue and self._switches_left:
            self._run_queue.popleft().switch()
        else:
            self._pick_next().switch()

    def _switch_to(self, following: Any) -> None:
        """Switch to a certain entry, in the place of the caller."""
        following.switch()

    def _pick_next(self) -> Any:
        """Choose what runs after a stretch or with an empty run queue: the hub if the lap is over or none can run."""
        if self._switches_left <= 0 and self._lap_is_over():
            self._lap_over = True
            return self._hub
        if not self._run_queue:
            if self._poller.watchers:
                # 11.1 -> 4.9 µs a socketpair round trip, against switching to the hub at once.
                self._poller.poll()
            if not self._run_queue:
                # LOW entries are no part of the run queue: they are looked at when that is empty.
                if self._low:
                    return self._low.popleft()
                self._lap_over = True
                return self._hub
        return self._run_queue.popleft()

    def _lap_is_over(self) -> bool:
        """Read the clock after a stretch; if it is time, poll. Returns: True if the lap must end."""
        now = self._clock()
        self._checks_left -= 1
        self._counted_switches += self._uncounted_from - self._switches_left
        self._uncounted_from = self._switches_left
        if now >= self._next_poll_at or self._checks_left <= 0:
            self._adapt_clock_checks(now)
            if now >= self._lap_ends_at or self._checks_left <= 0:
                # Only laps that were cut short count: after two of them _prevent_starvation acts.
                self._full_laps += 1
                return True
            # Timers fire at the start of a lap alone, on the hub.
            if self._timers.due(now):
                return True
            self._poller.poll()
        self._switches_left = self._uncounted_from = self._check_every
        return False

    def _end_stretch(self) -> None:
        """Make the next switch read the clock."""
        self._uncounted_from -= self._switches_left - 1
        self._switches_left = 1

    def _adapt_clock_checks(self, now: float) -> None:
        """Fit the length of the stretches to the pace since the last poll, and set the time of the next one."""
        switches = (self._checks_at_poll - self._checks_left) * self._check_every
        self._check_every = (
            1 if now - self._next_poll_at + POLL_INTERVAL > switches * SLOW_SWITCH_SECONDS else SWITCHES_PER_CLOCK_CHECK
        )
        self._checks_at_poll = self._checks_left
        self._next_poll_at = now + POLL_INTERVAL

    def _lap(self, *_: object) -> None:
        """Poll, run what is runnable, and return to the loop. From: the loop, on the hub."""
        self._asleep = False
        self._poller.poll()
        self._run()

    def _run(self) -> None:
        """Run what is runnable, for one lap."""
        # A guest's host may run its loop in another greenlet than last time.
        self._hub = getcurrent()
        now = self._clock()
        self._timers.fire(now)
        # Not in each lap: if one turn fills a lap, the HIGH dhagas would starve.
        if self._full_laps == 2:
            self._prevent_starvation()
        self._next_poll_at = now + POLL_INTERVAL
        self._lap_ends_at = now + LAP_SECONDS
        self._lap_began = now
        self._traced = gettrace() is not None
        self._switches_left = self._uncounted_from = self._check_every
        self._checks_left = self._checks_at_poll = CLOCK_CHECKS_PER_LAP
        self._run_lap(self._run_queue)
        self._end_lap()

    def _prevent_starvation(self) -> None:
        """Put one NORMAL and one LOW dhaga first in this lap."""
        self._full_laps = 0
        if self._high.waiters:
            self._high.promote_one_other()
        if self._low:
            self._run_queue.appendleft(self._low.popleft())

    def _run_lap(self, ready: deque[Any]) -> None:
        new = NewQueue
        try:
            self._lap_over = False
            # Once a lap, and not at each switch: 60 ns of 15 µs.
            _set_running_loop(None)
            while not self._lap_over:
                # A parking dhaga has switched here for an entry that only the hub can run.
                if self._next_on_hub is not None:
                    following: Any = self._next_on_hub
                    self._next_on_hub = None
                else:
                    self._switches_left -= 1
                    following = ready.popleft() if ready and self._switches_left else self._pick_next()
                if type(following) is new:
                    following = following.not_started.popleft()
                    # A dhaga that ends switches to its parent: back into this loop.
                    following.parent = self._hub
                if following is not self._hub:
                    following.switch()
        finally:
            # A handler of a signal may raise here.
            self._lap_over = True
            _set_running_loop(self.loop)

    def _end_lap(self) -> None:
        """End the lap: ask the loop for another one if something is runnable, else for one at the next deadline."""
        self._counted_switches += self._uncounted_from - self._switches_left
        self._uncounted_from = self._switches_left
        self._laps += 1
        self._busy_seconds += self._clock() - self._lap_began
        self._loop_timer.arm()
        self._asleep = True
        # Looked at only now that wakers see the flag: what was appended before is found here, what comes later wakes
        # the loop.
        if self._runnable():
            self._asleep = False
            self.loop.call_soon(self._continue_lap, self._laps)
        if self._mode.is_over():
            self.loop.stop()
        # Last, as a guest's raises.
        self._mode.on_lap_end()

    def _continue_lap(self, laps: int) -> None:
        """Run the lap that the last one asked for, unless another ran meanwhile, which then has asked anew.

        Events of fds, timers and awaited Tasks run laps, too. Where each of them led to one more lap in every turn of
        the loop, a turn took 90 laps after 3 s in which dhagas were never idle, and coroutines starved.
        """
        if laps == self._laps:
            self._lap()

    def _queue_of(self, priority: Priority) -> Any:
        """Return the queue to append to, to make a waiter of this priority runnable. Raises: TypeError."""
        if not isinstance(priority, Priority):
            raise TypeError(f"a priority is dhaga.HIGH, dhaga.NORMAL or dhaga.LOW, not {priority!r}")
        return (self._high, self._run_queue, self._low)[priority]

    def _runnable(self) -> int:
        """Return the number of entries that are runnable."""
        return len(self._run_queue) + len(self._low)

    def _switches(self) -> int:
        """Return the number of switches to dhagas so far; seen from another thread a few may be missing."""
        return self._counted_switches + self._uncounted_from - self._switches_left

    def _wake_loop(self) -> None:
        """Make a sleeping loop call ``_lap``. From: any thread, and signal handlers."""
        # It has ended, or its loop was closed without notice: there is nothing to wake.
        if not self._thread_ident or self.loop.is_closed():
            return
        # Before the call: of many wakes one writes to the pipe.
        self._asleep = False
        try:
            deadlock.unmark_stuck(self._thread_ident)
            self._post_lap()
        except BaseException:
            # A handler of a signal has raised here. Without a lap the loop would sleep on, and no later wake would call
            # this; one lap too many does no harm.
            self._post_lap()
            raise

    def _post_lap(self) -> None:
        """Make the loop call ``_lap``. From: any thread."""
        try:
            if originals.get_ident() == self._thread_ident and not self._selecting():
                self.loop.call_soon(self._lap)
            else:
                self.loop.call_soon_threadsafe(self._lap)
        except RuntimeError:
            # Its thread has closed the loop since the look in _wake_loop: there is nothing to wake.
            if not self.loop.is_closed():
                raise

    def _wake_in_callback(self, waiter: Waiter) -> None:
        """Wake a waiter of this scheduler and run a lap here. From: a callback of its loop, but no Task's step.

        That saves a turn of the loop, and a guest in the main thread the write to its wake-up pipe.
        """
        if not self._asleep or not self._thread_ident:
            waiter._wake()
        else:
            # First, so that the wake does not ask the loop for the lap that runs here.
            self._asleep = False
            waiter._wake()
            self._run()

    def _selecting(self) -> bool:
        """Return whether the loop may be inside its select, or about to be: only a write ends that.

        There a signal handler may strike, and a finalizer in any thread.
        """
        # A host's loop does not say.
        return self._selector is None or self._selector.selecting

    # ---- dhagas

    @overload
    def spawn(
        self,
        fn: Callable[..., R],
        /,
        *args: Any,
        name: str | None,
        daemon: bool = ...,
        priority: Priority = ...,
        context: Context | None = ...,
        **kwargs: Any,
    ) -> Dhaga[R]: ...
    @overload
    def spawn(
        self,
        fn: Callable[..., R],
        /,
        *args: Any,
        daemon: bool,
        priority: Priority = ...,
        context: Context | None = ...,
        **kwargs: Any,
    ) -> Dhaga[R]: ...
    @overload
    def spawn(
        self, fn: Callable[..., R], /, *args: Any, priority: Priority, context: Context | None = ..., **kwargs: Any
    ) -> Dhaga[R]: ...
    @overload
    def spawn(self, fn: Callable[..., R], /, *args: Any, context: Context | None, **kwargs: Any) -> Dhaga[R]: ...
    @overload
    def spawn(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Dhaga[R]: ...
    def spawn(  # type: ignore[misc]  # P.kwargs may name ours
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
        """Start a dhaga that calls ``fn(*args, **kwargs)`` in this scheduler's thread, at its place in the run queue.

        Parks: never. From: any thread. ``daemon``: cancelled at interpreter exit instead of joined; ``priority``: see
        ``dhaga.priority``; ``context``: its context variables, by default a copy of the caller's. Raises: TypeError,
        RuntimeError after ``stop``.
        """
        dhaga: Dhaga[R] = Dhaga(self, fn, args, kwargs or None, name, daemon, context, priority)
        self._admit(dhaga)
        return dhaga

    @compiled
    def _admit(self, dhaga: Dhaga) -> None:
        """Take a NEW dhaga in, at the end of the run queue. Raises: RuntimeError once stopped."""
        # Its own thread may still spawn: a finally block of a dhaga that is being cancelled, for example.
        if self._closing and originals.get_ident() != self._thread_ident:
            raise RuntimeError(f"{self!r} is stopped: it takes no more dhagas")
        if self._asleep and (not self._thread_ident or self.loop.is_closed()):
            raise RuntimeError(f"{self!r} has stopped: it takes no more dhagas")
        if hooks.on_spawn is not None:
            hooks.on_spawn(dhaga)
        # greenlet throws GreenletExit into a suspended greenlet whose last reference is dropped.
        self._live.add(dhaga)
        new_queue = self._new_queues[dhaga._priority]
        new_queue.not_started.append(dhaga)
        dhaga._queue.append(new_queue)
        if self._end_reason is not None:
            self._cancel_newcomer(dhaga)
        if self._asleep:
            self._wake_loop()
            # Ended after the checks above, seen from another OS thread: the end finds the dhaga, or it is refused here.
            if not self._thread_ident and self._take_off(dhaga):
                raise RuntimeError(f"{self!r} has stopped: it takes no more dhagas")

    def _take_off(self, dhaga: Dhaga) -> bool:
        """Take a dhaga off the live ones, which is atomic. Returns: False if it is none any more."""
        try:
            self._live.remove(dhaga)
        except KeyError:
            return False
        return True

    def _reject_not_started(self) -> None:
        """End, without starting them, the dhagas that another OS thread has spawned in the moment of the end."""
        for dhaga in list(self._live):
            # As a greenlet: false until its first switch.
            if not dhaga and self._take_off(dhaga):
                dhaga._error = Cancelled(f"{self.name} has stopped")
                dhaga._end()

    def _call(self, fn: Callable[..., object], *args: Any) -> bool:
        """Call ``fn(*args)`` in this scheduler's thread: at once if that is the caller's, else soon.

        Returns: False if the scheduler has ended.
        """
        if originals.get_ident() == self._thread_ident:
            fn(*args)
            return True
        try:
            self.loop.call_soon_threadsafe(fn, *args)
        # The loop is closed.
        except RuntimeError:
            return False
        return True

    def _call_as_callback(self, fn: Callable[..., Any], *args: Any) -> Any:
        """Call ``fn(*args)``, which must not park, with the loop shown as the running one. From: a dhaga, main code.

        For functions of asyncio and Tornado that ask for that one: to make a Future, a Task or an IOStream.
        """
        former = _get_running_loop()
        _set_running_loop(self.loop)
        try:
            return fn(*args)
        finally:
            _set_running_loop(former)

    def _cancel_all(self, reason: object = None) -> None:
        """Cancel every dhaga of this scheduler, the oldest first."""
        for dhaga in self._in_order():
            dhaga._cancel_with(Cancelled(reason))

    def _cancel_for_end(self, reason: str, spared: object = None) -> None:
        """Cancel every dhaga but ``spared``, and from now on each newcomer: nothing else may keep the end waiting."""
        self._last_old_ident = next_ident()
        self._end_reason = reason
        for dhaga in self._in_order():
            if dhaga is not spared:
                dhaga._cancel_with(Cancelled(reason))

    def _cancel_newcomer(self, dhaga: Dhaga) -> None:
        """Cancel a dhaga that was spawned after the cancel of all: once, as those.

        It gets to its first park, as a ``finally`` may have spawned it; what a newcomer itself spawns does not begin,
        so that a dhaga that starts its successor in its ``finally`` comes to an end.
        """
        spawner, error = getcurrent(), Cancelled(self._end_reason)
        if isinstance(spawner, Dhaga) and spawner.ident > self._last_old_ident:
            dhaga._cancel_with(error)
        else:
            dhaga._queue.append(NewcomerCancel(dhaga, error))

    def _in_order(self) -> list[Dhaga]:
        """Return the live dhagas, the oldest first."""
        return sorted(self._live, key=lambda dhaga: dhaga.ident)

    # ---- attaching and ending: see _kernel/run_modes.py

    def _attach(self, mode: RunMode, hub: Any, ioloop: IOLoop) -> None:
        """Bind the scheduler to this OS thread, with ``hub`` as the greenlet in which its loop runs."""
        self._mode = mode
        self._thread_ident = originals.get_ident()
        self._started_at = now = self._clock()
        # Main code that never waits is in no lap yet, and must give way to the first.
        self._next_poll_at, self._lap_ends_at = now + POLL_INTERVAL, now + LAP_SECONDS
        self._hub = hub
        self.ioloop = ioloop
        self._poller = new_poller(ioloop, self._lap)
        if self._selector is not None:
            # Counted before any handler of the program: with more fds than these the loop may wake by itself.
            self._selector.own_fds = len(self._selector.get_map())
        schedulers.add(self)
        for hook in hooks.on_scheduler:
            hook(self, True)

    def _detach(self) -> None:
        """Let go of the loop and of what the operating system holds for the scheduler."""
        schedulers.discard(self)
        deadlock.unmark_stuck(self._thread_ident)
        self._loop_timer.cancel()
        self._poller.detach()
        self._detach_thread()
        self._reject_not_started()

    def _detach_thread(self) -> None:
        """Forget the OS thread: its ident may become another's."""
        self._mode.leave_thread()
        for hook in hooks.on_scheduler:
            hook(self, False)
        self._thread_ident = 0
        # So that each wake goes through _wake_loop, which finds no thread and does nothing.
        self._asleep = True

    def _leave_to_hub(self) -> None:
        """Let the hub run to its end. From: the main code, when nothing is left to do."""
        self._lap_over = True
        self._hub.switch()

    @property
    def _main(self) -> Main | Dhaga | None:
        """The main code that this scheduler serves, if it has any; in a forked child that may be a dhaga."""
        return self._mode.main

    @property
    def thread(self) -> Any:
        """The OS thread that this scheduler was started in, if it has one of its own."""
        return self._mode.thread

    def start(self) -> Self:
        """Run in an OS thread of its own from now on; ``with Scheduler() as s:`` does so, and stops it in the end.

        Parks: never; returns once the scheduler takes dhagas. Raises: RuntimeError if it was started before.
        """
        if self._thread_ident or self._closing:
            raise RuntimeError(f"{self!r} was started before: a scheduler starts once")
        OwnThreadMode(self)
        return self

    def stop(self, timeout: float | None = None) -> None:
        """Cancel what is left, let every ``finally`` run, and end the thread.

        A dhaga that is spawned after the cancel, in a ``finally`` or by one that has not met its cancel yet, gets its
        own at its first park; what such a one spawns does not begin.
        Parks: until the last dhaga has ended (``stop NAME``). From: a dhaga of another scheduler, main code, any other
        thread. Raises: RuntimeError from its own dhagas; TimeoutError naming those that did not end within ``timeout``
        seconds.
        """
        if not isinstance(self._mode, OwnThreadMode):
            raise RuntimeError(f"{self!r} has no thread of its own that could be stopped")
        check_seconds(timeout)
        self._mode.stop(timeout)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


# Every scheduler that is bound to a thread and has not ended.
schedulers: set[Scheduler] = set()


@compiled
def sleep(seconds: float = 0) -> None:
    """Let other dhagas run for at least ``seconds``; with 0 once around the run queue.

    Parks: ``sleep``; a plain OS thread sleeps as with ``time.sleep``. Raises: ValueError (below 0, NaN), Cancelled,
    ParkError.

    >>> import dhaga
    >>> sleepers = [dhaga.spawn(dhaga.sleep, 0.01) for _ in range(100)]
    >>> for sleeper in sleepers:  # 100 sleeps take 0.01 s together
    ...     sleeper.join()
    """
    me: Any = getcurrent()
    try:
        scheduler = me.scheduler
    # Main code, a plain OS thread, or the hub, which cannot sleep.
    except AttributeError:
        sleep_off_fast_path(this_waiter(), seconds)
        return
    if seconds or me._pending or scheduler._around_park is not None:
        sleep_off_fast_path(me, seconds)
        return
    # A park without its reason and its value: 20 % less of a yield.
    ready = scheduler._run_queue
    me._queue.append(me)
    left = scheduler._switches_left = scheduler._switches_left - 1
    if left:
        ready.popleft().switch()
    else:
        scheduler._pick_next().switch()
