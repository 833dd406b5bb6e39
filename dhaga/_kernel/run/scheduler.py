"""The scheduler: it chooses the dhaga that runs next, and switches to it. No other module switches.

When a dhaga parks, it switches directly to the next dhaga in the run queue. A detour through the hub (the greenlet in
which the loop runs) would take two greenlet switches instead of one. If the run queue is empty, the dhaga polls once
(``_pick_next``). If there is still no runnable entry, the dhaga switches to the hub, and the lap ends. The other parts
of a scheduler are in ``lap.py`` (the length of a lap and the work before and after it), ``membership.py`` (adding and
removing dhagas), ``attachment.py`` (the OS thread) and ``scheduler_state.py`` (the attributes).

To asyncio, dhagas and main code look like a plain thread: ``asyncio.get_running_loop()`` raises there, and
``asyncio.run`` works. A lap first sets asyncio's running loop to None, and restores the loop at the end of the lap, on
the hub. So coroutines and callbacks see the loop, and switches cost nothing extra. Code in a dhaga finds the loop as
``dhaga.current().scheduler.loop``.

Rejected: starting a new dhaga directly from a parking dhaga. Each start would deepen the C stack, and 100,000 starts
would overflow it: so the hub starts new dhagas (``NewQueue``). Also rejected: a periodic search of all waiters for
expired timeouts, and a Handle of the loop for each wait.
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
from ..wait.waiter import YIELDING, Waiter
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
    """Run-queue entry for the NEW dhagas of one priority. Switching to the entry makes the hub start the next dhaga.

    The hub starts all dhagas at the same depth of the C stack, so that greenlet's copies of the stack stay small.
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
    """A scheduler, which runs the dhagas of one OS thread on one IOLoop.

    There are three kinds of schedulers. An *implicit* scheduler is created when the main code of a thread first spawns
    or, in the main OS thread, first waits. A scheduler with its *own thread* begins with ``start()`` or a ``with``
    block. A *guest* is created when ``spawn`` is called while an asyncio, Tornado or uvloop loop runs.

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
        """Make a scheduler that has no thread yet.

        ``loop``: an asyncio loop to run instead of a new one.
        ``preempt``: the seconds after which preemption ends the turn of a dhaga that computes; 0: never; None: the
        program's setting (``dhaga.monkey.patch`` turns preemption on).
        The attribute ``loop`` is the asyncio loop. Once the scheduler has a thread, ``ioloop`` is Tornado's wrapper of
        this loop. In a dhaga neither of them is the current loop, because a dhaga is a plain thread to asyncio.
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

    if not TYPE_CHECKING:  # type checkers see the inherited method
        admit = compiled(Membership.admit)  # in C only for priority NORMAL, on an awake scheduler that does not end

    @compiled
    def _park(self, me: Waiter) -> Any:
        """Switch to the next runnable entry. Once the caller is woken, return the wake's value or raise its error."""
        ready = self.run_queue
        # The time of the next poll serves as the current time. Reading the clock would cost 45 ns.
        me.parked_since = self._next_poll_at
        left = self._switches_left = self._switches_left - 1
        if self.around_park is not None:
            self.around_park(me, self._switch_away)
        # The stretch (see lap.py) continues: the next entry runs before the clock, fds and timers are checked.
        elif ready and left:
            ready.popleft().switch()
        else:
            self._pick_next().switch()
        # A waiter must not keep targets and values of earlier parks alive, such as the dhaga of an earlier join.
        # The target is dropped on return, when the value is safe: the drop may call a finalizer that parks.
        _target, me.wait_target = me.wait_target, None
        if me._error is not None:
            me._throw_error()
        value = me._value
        me._value = None
        return value

    def _let_others_run(self, me: Waiter) -> None:
        """Switch away from main code until another greenlet switches back, as in the first half of ``_park``."""
        self._switches_left -= 1
        if self.around_park is not None:
            self.around_park(me, self._switch_away)
        else:
            self._switch_away()

    def _give_turn_up(self, me: Waiter) -> None:
        """End an overlong turn of the caller, so that other dhagas run first."""
        self._go_around(me, self._preempted if me.own_priority is NORMAL else me.wake_queue)

    def _go_around(self, me: Waiter, queue: Any) -> None:
        """Append the caller to a queue and switch away, like a yield, but keep cancels and timeouts pending."""
        # With this target, the error of a signal handler that is called meanwhile stays pending (see signals.py).
        me.wait_target = YIELDING
        queue.append(me)
        # The next switch reads the clock and ends the lap, so that fds and timers also get their turn.
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
        """Switch to the hub, which runs the entry."""
        self._next_on_hub = entry
        self.hub.switch()

    def _pick_next(self) -> Any:
        """Choose the next entry at the end of a stretch, or if the run queue is empty.

        Returns: the hub if the lap is over or no entry is runnable.
        """
        if self._switches_left <= 0 and self._lap_is_over():
            self._lap_over = True
            return self.hub
        if not self.run_queue:
            if self.poller.watchers:
                # With this poll, a socketpair round trip takes 4.9 µs; if the hub polled, it would take 11.1 µs.
                self.poller.poll()
            if not self.run_queue:
                # These queues are read only when the run queue is empty.
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
            # The running loop is set once per lap, and not at each switch. Setting it takes 60 ns; a turn of the loop
            # takes 15 µs.
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
                    # When a dhaga ends, greenlet switches to the dhaga's parent, and so back into this loop.
                    following.parent = self.hub
                if following is not self.hub:
                    following.switch()
        finally:
            # This is a finally block, because a signal handler may raise during the lap.
            self._lap_over = True
            _set_running_loop(self.loop)

    def _queue_of(self, priority: Priority) -> Any:
        """Return the queue for runnable waiters of this priority. Raises: TypeError."""
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
    def spawn(  # type: ignore[misc]  # P.kwargs may contain keywords of spawn
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
        """Start a dhaga that calls ``fn(*args, **kwargs)`` in this scheduler's thread, by adding it to the run queue.

        ``daemon``: whether the exit of the interpreter cancels the dhaga instead of joining it. ``priority``: see
        ``dhaga.priority``. ``context``: the dhaga's context variables, by default a copy of the caller's.
        Parks: never. From: any thread. Raises: TypeError; after ``stop``, RuntimeError.
        """
        dhaga: Dhaga[R] = Dhaga(self, fn, args, kwargs or None, name, daemon, context, priority)
        self.admit(dhaga)
        return dhaga

    def call(self, fn: Callable[..., object], *args: Any) -> bool:
        """Call ``fn(*args)`` in this scheduler's thread: at once if the caller runs in this thread, otherwise in a
        callback of the loop.

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
        """Call ``fn(*args)``, which must not park, with the scheduler's loop as asyncio's running loop.

        Use this method for functions of asyncio and Tornado that need a running loop, for example to make a Future or
        an IOStream.
        From: a dhaga, main code.
        """
        former = _get_running_loop()
        _set_running_loop(self.loop)
        try:
            return fn(*args)
        finally:
            _set_running_loop(former)

    # ---- a thread of its own

    def start(self) -> Self:
        """Start an OS thread for this scheduler. A ``with`` block also starts the thread, and stops the scheduler at
        the end of the block.

        Parks: never; returns once the scheduler accepts dhagas. Raises: RuntimeError if the scheduler was started
        before.
        """
        if self.thread_ident or self.closing:
            raise RuntimeError(f"{self!r} was started before: a scheduler starts once")
        OwnThreadMode(self)
        return self

    def stop(self, timeout: float | None = None) -> None:
        """Cancel the remaining dhagas, wait until all of them have ended, and end the thread.

        A dhaga that is spawned after the cancel, for example in a ``finally`` block, is cancelled at its first park.
        Dhagas that are spawned by such a dhaga do not start.
        Parks: until the last dhaga has ended (``stop NAME``). From: a dhaga of another scheduler, main code, any other
        thread. Raises: RuntimeError if a dhaga of this scheduler calls ``stop``; TimeoutError after ``timeout``
        seconds, with the names of the remaining dhagas.
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


@compiled  # in C only for an int or a float
def sleep(seconds: float = 0) -> None:
    """Yield to other dhagas for at least ``seconds``. With 0, yield to the dhagas that are already in the run queue.

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
    # The caller is main code, a plain OS thread or the hub. On the hub, the call below raises an error.
    except AttributeError:
        scheduler = None
    # This call is outside the except block, so that errors raised here do not have the AttributeError as their context.
    if scheduler is None:
        sleep_off_fast_path(this_waiter(), seconds)
        return
    if seconds or me.pending_errors or me.wait_target is not None or scheduler.around_park is not None:
        sleep_off_fast_path(this_waiter(), seconds)
        return
    # A park without a reason and a value, which makes a yield 20 % cheaper.
    ready = scheduler.run_queue
    me.wait_target = YIELDING
    me.wake_queue.append(me)
    left = scheduler._switches_left = scheduler._switches_left - 1
    if left:
        ready.popleft().switch()
    else:
        scheduler._pick_next().switch()
    me.wait_target = None
