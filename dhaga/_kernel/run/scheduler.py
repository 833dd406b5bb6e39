"""The scheduler: which dhaga runs next. This is the one module that switches.

A parking dhaga switches straight to the next one in the run queue, without the hub between: one greenlet switch instead
of two. When the run queue is empty, the dhaga polls once more (``_pick_next``), and only then switches to the hub,
which ends the lap. ``lap.py`` has the length of a lap and the work before and after it, ``membership.py`` the coming
and going of dhagas, ``attachment.py`` the binding to an OS thread, ``scheduler_state.py`` the state of a scheduler.

To asyncio a dhaga and main code look like a plain thread: ``asyncio.get_running_loop()`` raises there, and
``asyncio.run`` works. A lap sets asyncio's running loop to None, and restores it at its end, on the hub. So coroutines
and callbacks see the loop, and switches pay nothing. Code in a dhaga finds the loop as
``dhaga.current().scheduler.loop``.

Rejected: starting a new dhaga straight from the parking one. Each start deepens the C stack, and 100,000 starts
overflow it; so the hub starts new dhagas (``NewQueue``). Also rejected: a sweep over waiters for timeouts; a Handle of
the loop per wait.
"""

from __future__ import annotations

import asyncio
from asyncio import _get_running_loop, _set_running_loop
from collections import deque
from collections.abc import Callable
from contextvars import Context
from types import TracebackType
from typing import TYPE_CHECKING, Any, ParamSpec, Self, TypeVar, overload

from greenlet import getcurrent

from .. import originals
from ..faces.arguments import check_seconds
from ..faces.foreign_names import refuse_async_with, show_only
from ..fast.compiled import compiled, known_layout
from ..wait import deadlock
from ..wait.current import this_waiter
from ..wait.sleep import sleep_off_fast_path
from ..wait.waiter import Waiter
from .attachment import Attachment, schedulers
from .entries import HubCall
from .membership import Membership
from .microthread import Dhaga
from .preemption import check_quantum
from .run_modes import OwnThreadMode, RunMode
from .run_queues import NORMAL, HighQueue, LowQueue, NewWorkQueue, PreemptedQueue, Priority
from .timers import LoopTimer

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
        self.scheduler.hub.switch()


@show_only("name", "thread", "loop", "ioloop", "start", "stop", "spawn")
@refuse_async_with()
class Scheduler(Attachment):
    """Run the dhagas of one OS thread over one IOLoop.

    There are three run modes: *implicit*, created when the main code of a thread first spawns or parks; *own thread*,
    by ``start()`` or a ``with`` block; *guest*, created when ``spawn`` is called while an asyncio, Tornado or uvloop
    loop runs.

    >>> from dhaga import Scheduler
    >>> with Scheduler("worker") as scheduler:
    ...     scheduler.spawn(sum, [1, 2]).result()
    3
    """

    __slots__ = ()

    def __init__(
        self,
        name: str | None = None,
        *,
        loop: asyncio.AbstractEventLoop | None = None,
        preempt: float | None = None,
    ) -> None:
        """Make a scheduler that has no thread yet; ``loop``: an asyncio loop to run instead of a new one.

        ``preempt``: seconds after which a dhaga that computes must let others run; 0: never; by default as the program
        (``dhaga.monkey.patch`` turns it on).
        The attribute ``loop`` is that loop, and ``ioloop`` Tornado's over it, once the scheduler has a thread. Neither
        is the current loop in a dhaga, which is a plain thread to asyncio.
        """
        if preempt is not None:
            check_quantum(preempt)
        super().__init__(name, loop)
        self.quantum = preempt
        self._init_lap()
        self._init_membership()
        self._high = HighQueue(self)
        self._low = LowQueue(self)
        self._new_work = NewWorkQueue(self)
        self._preempted = PreemptedQueue(self)
        self.new_queues: list[NewQueue] = [NewQueue(self) for _ in Priority]
        self._loop_timer = LoopTimer(self)
        self.mode: RunMode = RunMode(self)
        if self.selector is not None:
            self.selector.watch = deadlock.DeadlockWatch(self, schedulers)

    def __repr__(self) -> str:
        state = "asleep" if self.asleep else "awake"
        if not self.thread_ident:
            state = "stopped" if self.closing else "not started"
        return f"<Scheduler {self.name} {state}, {len(self.live)} dhagas, {self.count_runnable()} runnable>"

    # ---- switching

    if not TYPE_CHECKING:  # type checkers see the inherited one
        admit = compiled(Membership.admit)  # C: priority NORMAL; a scheduler that is awake and not about to end

    @compiled
    def _park(self, me: Waiter) -> Any:
        """Switch to the next runnable entry; once switched back to, return the value of the caller's wake."""
        ready = self.run_queue
        # The time of the next poll is known and close enough; reading the clock would cost 45 ns.
        me.parked_since = self._next_poll_at
        left = self._switches_left = self._switches_left - 1
        if self.around_park is not None:
            self.around_park(me, self._switch_away)
        # The stretch goes on: the next entry runs before clock, fds and timers are checked.
        elif ready and left:
            ready.popleft().switch()
        else:
            self._pick_next().switch()
        if me._error is not None:
            me._throw_error()
        value = me._value
        # A parked dhaga must not keep earlier values alive.
        me._value = None
        return value

    def _let_others_run(self, me: Waiter) -> None:
        """Switch away from main code until another greenlet switches back: the first half of a park."""
        self._switches_left -= 1
        if self.around_park is not None:
            self.around_park(me, self._switch_away)
        else:
            self._switch_away()

    def _give_turn_up(self, me: Waiter) -> None:
        """End an overlong turn: the other NORMAL dhagas go first."""
        self._go_around(me, self._preempted if me.own_priority is NORMAL else me.wake_queue)

    def _go_around(self, me: Waiter, queue: Any) -> None:
        """Go once around a queue, as a yield does, but without a park: cancels and timeouts stay pending."""
        # Nothing is handed over: an error of a signal's handler that is called meanwhile stays pending.
        me.wait_target = None
        queue.append(me)
        # The next switch reads the clock, and ends the lap: fds and timers also get their turn.
        self._end_stretch()
        me.park_within(None)

    def _switch_away(self) -> None:
        """Switch to the next runnable entry, or to the hub. The caller has counted the switch."""
        if self.run_queue and self._switches_left:
            self.run_queue.popleft().switch()
        else:
            self._pick_next().switch()

    def _switch_to(self, following: Any) -> None:
        """Switch from the caller to a given entry."""
        following.switch()

    def _run_on_hub(self, entry: NewQueue | HubCall) -> None:
        """Switch to the hub, which serves the entry."""
        self._next_on_hub = entry
        self.hub.switch()

    def _pick_next(self) -> Any:
        """Choose what runs after a stretch or with an empty run queue: the hub if the lap is over or none can run."""
        if self._switches_left <= 0 and self._lap_is_over():
            self._lap_over = True
            return self.hub
        if not self.run_queue:
            if self.poller.watchers:
                # 11.1 -> 4.9 µs a socketpair round trip, against switching to the hub at once.
                self.poller.poll()
            if not self.run_queue:
                # These queues are outside the run queue, and are read only when it is empty.
                for later in (self._new_work, self._preempted, self._low):
                    if later:
                        return later.popleft()
                self._lap_over = True
                return self.hub
        return self.run_queue.popleft()

    def _run_lap(self, ready: deque[Any]) -> None:
        new = NewQueue
        try:
            self._lap_over = False
            # Once a lap, and not at each switch: it takes 60 ns of the 15 µs of a turn of the loop.
            _set_running_loop(None)
            while not self._lap_over:
                # A parking dhaga switched here for an entry that only the hub can run.
                if self._next_on_hub is not None:
                    following: Any = self._next_on_hub
                    self._next_on_hub = None
                else:
                    self._switches_left -= 1
                    following = ready.popleft() if ready and self._switches_left else self._pick_next()
                if type(following) is new:
                    following = following.not_started.popleft()
                    # A dhaga that ends switches to its parent: back into this loop.
                    following.parent = self.hub
                if following is not self.hub:
                    following.switch()
        finally:
            # A handler of a signal may raise here.
            self._lap_over = True
            _set_running_loop(self.loop)

    def _queue_of(self, priority: Priority) -> Any:
        """Return the queue to append to, to make a waiter of this priority runnable. Raises: TypeError."""
        if not isinstance(priority, Priority):
            raise TypeError(f"a priority is dhaga.HIGH, dhaga.NORMAL or dhaga.LOW, not {priority!r}")
        return (self._high, self.run_queue, self._low)[priority]

    def _leave_to_hub(self) -> None:
        """Run the hub to its end. From: the main code, when nothing is left to do."""
        self._lap_over = True
        self.hub.switch()

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
        self.admit(dhaga)
        return dhaga

    def call(self, fn: Callable[..., object], *args: Any) -> bool:
        """Call ``fn(*args)`` in this scheduler's thread: at once if that is the caller's, else soon.

        Returns: False if the scheduler has ended.
        """
        if originals.get_ident() == self.thread_ident:
            fn(*args)
            return True
        try:
            self.loop.call_soon_threadsafe(fn, *args)
        # The loop is closed.
        except RuntimeError:
            return False
        return True

    def call_as_callback(self, fn: Callable[..., Any], *args: Any) -> Any:
        """Call ``fn(*args)``, which must not park, with the loop shown as the running one. From: a dhaga, main code.

        For functions of asyncio and Tornado that need a running loop: to make a Future, a Task or an IOStream.
        """
        former = _get_running_loop()
        _set_running_loop(self.loop)
        try:
            return fn(*args)
        finally:
            _set_running_loop(former)

    # ---- a thread of its own

    def start(self) -> Self:
        """Start an OS thread for this scheduler; ``with Scheduler() as s:`` does so, and stops it at the end.

        Parks: never; returns once the scheduler takes dhagas. Raises: RuntimeError if it was started before.
        """
        if self.thread_ident or self.closing:
            raise RuntimeError(f"{self!r} was started before: a scheduler starts once")
        OwnThreadMode(self)
        return self

    def stop(self, timeout: float | None = None) -> None:
        """Cancel the remaining dhagas, wait for every ``finally``, and end the thread.

        A dhaga that is spawned after the cancel, for example in a ``finally``, is cancelled at its first park; dhagas
        that it spawns do not start.
        Parks: until the last dhaga has ended (``stop NAME``). From: a dhaga of another scheduler, main code, any other
        thread. Raises: RuntimeError from its own dhagas; TimeoutError naming those that did not end within ``timeout``
        seconds.
        """
        if not isinstance(self.mode, OwnThreadMode):
            raise RuntimeError(f"{self!r} has no thread of its own that could be stopped")
        check_seconds(timeout)
        self.mode.stop(timeout)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


@compiled  # C: an int or a float
def sleep(seconds: float = 0) -> None:
    """Yield to other dhagas for at least ``seconds``; with 0 once around the run queue.

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
        scheduler = None
    # Outside the except block, so that errors raised here do not have that error as their context.
    if scheduler is None:
        sleep_off_fast_path(this_waiter(), seconds)
        return
    if seconds or me.pending_errors or scheduler.around_park is not None:
        sleep_off_fast_path(me, seconds)
        return
    # A park without its reason and its value: 20 % less of a yield.
    ready = scheduler.run_queue
    me.wake_queue.append(me)
    left = scheduler._switches_left = scheduler._switches_left - 1
    if left:
        ready.popleft().switch()
    else:
        scheduler._pick_next().switch()


def begin_new_work() -> None:
    """Yield until all work in progress has parked: servers call this before they begin a request.

    Parks: ``sleep``, while other dhagas are runnable. From: a dhaga of NORMAL priority; no-op elsewhere. Raises:
    Cancelled, Expired.
    """
    me: Any = getcurrent()
    scheduler = getattr(me, "scheduler", None)
    if scheduler is None or me.wake_queue is not scheduler.run_queue:
        return
    if scheduler.run_queue or scheduler._new_work:
        me.wake_queue = scheduler._new_work
        try:
            sleep(0)
        finally:
            me.wake_queue = scheduler._queue_of(me.own_priority)
