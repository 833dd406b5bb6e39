"""Delivers signals and Ctrl-C to the main code, whichever code the main thread is executing.

Python calls a signal handler between two bytecodes of the main thread: in the main code, in a dhaga, on the hub, or
inside this package. The program's handler must run in the main code. But Python's call must not switch to the main
code from other code, which may be in the middle of a step. There are four cases:
1. The main code runs user code: the handler is called at once.
2. The main code is parked: a ``SignalDelivery`` joins the run queue, and the hub switches to the main code. During its
   park the main code calls the handler, and then parks again.
3. The main code, or a plain main thread, is inside this package, whose queues and locks must stay whole. The signal is
   sent again a moment later, until it arrives in other code or in a call that blocks (``hold_off``).
4. There is no main code: the handler is called at once.
An error of a handler ends the main code's park if the park can be undone. Otherwise the error is raised at the next
park, so that no handed-over value is lost. A handler may park: while it runs, another ``Main`` replaces the main code,
and a ``MainPlaceholder`` receives wakes for the main code. If the main code is parked on a lock, it leaves the lock's
queue so that the handler may acquire the lock. After the handler, the main code rejoins the queue at its former place
(``WaitQueue.insert_by_arrival``).
Ctrl-C differs in one respect. A dhaga that computes would delay the delivery without limit, so a second Ctrl-C, at
least ``BUSY_SECONDS`` later, raises KeyboardInterrupt in this dhaga.
The functions are in the order of a signal's path: set-up, arrival, delivery.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from contextvars import Context
from functools import partial
from types import FrameType
from typing import Any, TypeVar

from greenlet import getcurrent

from .. import originals
from ..errors import LeftBehind
from ..helper_threads import start_unlisted
from ..run.entries import HubCall
from ..run.loop import WakeupPipe
from ..run.main_code import Main
from ..run.microthread import Dhaga
from ..run.scheduler import Scheduler
from ..run.uncaught import PACKAGE_PREFIX
from ..wait.cancellation import pending_errors_of
from ..wait.current import this_thread
from ..wait.sleep import sleep_off_fast_path
from ..wait.thread_waiter import OSThread
from ..wait.wait_queue import WaitQueue
from ..wait.waiter import NOT_CANCELLABLE, TIMED_OUT, WaitTarget
from . import wakeup_detour

F = TypeVar("F", bound=Callable[..., Any])

# The pause in seconds before a signal that arrived inside this package is sent again.
RESEND_SECONDS = 0.0005

# Seconds after which a frame at the same instruction, with an unchanged heartbeat, counts as blocked in C. In that case
# the handler is called in this frame.
BLOCKED_SECONDS = 0.02

# The number of signals that must find the frame at this instruction before it counts as blocked. A check of the time
# is not enough: on a busy machine any instruction may take 20 ms.
BLOCKED_STRIKES = 5

# If an undelivered Ctrl-C is older than this number of seconds, the next Ctrl-C is raised in the computing dhaga.
BUSY_SECONDS = 0.2

# Standard modules whose functions count as part of this package while this package calls them.
CALLED_MODULES = ("asyncio.", "contextlib", "_weakrefset", "weakref")

# The reasons of waits that hand nothing over: their end is only a notification. ``is_notification_only`` also accepts
# joins, sleeps, and ``dhaga.park`` with an ``undo``.
NOTIFICATIONS = ("event.wait", "signal.pause")

# The waiters in ``pause()``.
pause_queue: WaitQueue = WaitQueue(signal, "signal.pause")

# The standard library's functions, before any patch replaces them.
handler_of, set_handler = signal.getsignal, signal.signal

# The scheduler whose main code has not received its KeyboardInterrupt yet, and the time of the Ctrl-C. The list has at
# most one item.
undelivered_interrupts: list[tuple[Scheduler, float]] = []

# The place where the last signals were deferred: the top frame's id and instruction, and the scheduler's heartbeat. Two
# more items are the time of the first of these signals, and their number.
held_off: list[Any] = []

# Code of this package that blocks a plain thread in C, and in which a handler may raise an error.
BLOCKING = {OSThread.block.__code__, OSThread.block_forever.__code__, sleep_off_fast_path.__code__}


def takes_strikes(function: F) -> F:
    """Mark a function of this package in which signal handlers may run and raise errors. A decorator."""
    BLOCKING.add(function.__code__)
    return function


# ---- set-up


def listen_for_signals(scheduler: Scheduler) -> None:
    """Make signals end the sleep of the main thread's scheduler, and install the handler of Ctrl-C.

    If the program has set its own handler of Ctrl-C, the program's handler stays in place.
    """
    selector = scheduler.selector
    if selector is not None:
        selector.wakeup_pipe = WakeupPipe()
        Context().run(scheduler.loop.add_reader, selector.wakeup_pipe.read_end, on_signals, selector.wakeup_pipe)
        selector.own_fds += 1
    if handler_of(signal.SIGINT) is signal.default_int_handler:
        set_handler(signal.SIGINT, on_ctrl_c)


def on_signals(pipe: WakeupPipe) -> None:
    """End ``pause()`` after signals whose handlers were set by the standard ``signal``. Dhaga's own handlers end
    ``pause()`` themselves.
    """
    if not all(getattr(handler_of(number), "ends_pause", False) for number in pipe.drain()):
        pause_queue.wake_all()


# ---- arrival: these functions run in the Python handler of a signal, during any code of the main thread


def on_ctrl_c(number: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt in the main code: at once if the main code runs, at its park if it waits.

    Never switches. If the signal arrives inside this package, the error is raised a moment later: see ``hold_off``.

    While a dhaga computes, the first Ctrl-C waits for the hub, so that no unfinished work is interrupted. A second
    Ctrl-C, ``BUSY_SECONDS`` later, interrupts the dhaga, except in code of this package, whose queues and locks must
    stay whole. A loop that the main code runs itself (``asyncio.run``) is interrupted at once.
    """
    wakeup_detour.note_arrival(number)
    me = getcurrent()
    scheduler: Any = this_thread.guest if this_thread.main is None else this_thread.main.scheduler
    main: Any = None if scheduler is None else scheduler.main_waiter
    if main is None:
        if not hold_off(number, frame):
            raise KeyboardInterrupt
        return
    error = scheduler.mode.interrupted = KeyboardInterrupt()
    main_runs = me is getattr(main, "own_greenlet", main) and not main.parked
    if main_runs or may_interrupt_busy_dhaga(frame) or getattr(me, "scheduler", scheduler) is not scheduler:
        if not hold_off(number, frame):
            undelivered_interrupts.clear()
            # Other code compares this object by identity, to distinguish it from other KeyboardInterrupts.
            raise error
    elif not undelivered_interrupts:
        undelivered_interrupts.append((scheduler, originals.monotonic()))
        # The threadsafe call is needed even in the loop's thread: if the loop is in its select, only a write ends the
        # select.
        scheduler.loop.call_soon_threadsafe(deliver_interrupts)
        if isinstance(main, Main):
            signal_delivery_of(main).calls.append(raise_undelivered_interrupt)


# This attribute tells deadlock.py that the handler does not wake the program's waiters.
on_ctrl_c.of_dhaga = True  # type: ignore[attr-defined]


def may_interrupt_busy_dhaga(frame: FrameType | None) -> bool:
    """Return whether a Ctrl-C has been undelivered so long that the next Ctrl-C may interrupt the code of ``frame``."""
    if not undelivered_interrupts or originals.monotonic() - undelivered_interrupts[0][1] < BUSY_SECONDS:
        return False
    return not in_own_steps(frame)


def call_in_main(handler: Callable[[int, FrameType | None], object], number: int, frame: FrameType | None) -> None:
    """Call a signal's handler in the main code: at once if the main code runs, otherwise during its park.

    Parks: never, but the handler may. An error of the handler ends the main code's park, unless a handed-over value
    would be lost. From: a signal handler, which Python calls in the main thread, in any code.
    """
    wakeup_detour.note_arrival(number)
    main: Main | None = this_thread.main
    me: Any = getcurrent()
    if main is not None and getattr(me, "scheduler", main.scheduler) is not main.scheduler:
        # The caller is a dhaga on a loop that the main code runs itself.
        main = None
    if main is not None and (me is not main.own_greenlet or main.parked):
        signal_delivery_of(main).send(partial(handler, number, frame))
    elif hold_off(number, frame):
        pass
    elif main is None:
        handler(number, frame)
    else:
        signal_delivery_of(main).calls.append(partial(handler, number, frame))
        signal_delivery_of(main).run_handlers()


def hold_off(number: int, frame: FrameType | None) -> bool:
    """Send a signal again a moment later if it arrived inside this package, whose queues and locks must stay whole.

    Returns: False if the handler may run at once: in other code, or in a blocking call, which the handler may be meant
    to end.
    """
    if frame is None or not in_own_steps(frame):
        held_off.clear()
        return False
    # If code repeats a call, several signals may arrive at the same instruction, but each with another heartbeat.
    heartbeat = None if this_thread.main is None else this_thread.main.scheduler.heartbeat()
    here, now = [id(frame), frame.f_lasti, heartbeat], originals.monotonic()
    if held_off[:3] != here:
        held_off[:] = [*here, now, 1]
    elif now - held_off[3] > BLOCKED_SECONDS and held_off[4] >= BLOCKED_STRIKES:
        held_off.clear()
        return False
    else:
        held_off[4] += 1
    start_unlisted("dhaga-signals", wakeup_detour.divert(number).send, RESEND_SECONDS)
    return True


def in_own_steps(frame: FrameType | None) -> bool:
    """Return whether a frame runs code of this package, or of asyncio and similar modules called by this package."""
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module.startswith(PACKAGE_PREFIX):
            return frame.f_code not in BLOCKING
        # The search ends at ``run_forever``: code of this package further out only runs the loop, and leaves no step
        # half done.
        if not module.startswith(CALLED_MODULES) or frame.f_code.co_name == "run_forever":
            return False
        frame = frame.f_back
    return False


# ---- delivery: in the main code, or on the hub


def deliver_interrupts() -> None:
    """Raise KeyboardInterrupt at the park of the main code. From: the hub, where no waiter is half parked.

    If the park must not end (for example, a park for a lock after ``Condition.wait``), the second Ctrl-C ends the park
    by force.
    """
    while undelivered_interrupts:
        scheduler, _ = undelivered_interrupts.pop()
        main: Any = scheduler.main_waiter
        if not any(isinstance(error, KeyboardInterrupt) for error in main.pending_errors):
            scheduler.mode.interrupt(KeyboardInterrupt())
        else:
            main.wake_parked(error=KeyboardInterrupt())


def raise_undelivered_interrupt() -> None:
    """Raise the undelivered KeyboardInterrupt in main code that returns from a park."""
    if undelivered_interrupts:
        undelivered_interrupts.clear()
        raise KeyboardInterrupt


def signal_delivery_of(main: Main) -> SignalDelivery:
    """Return the main code's SignalDelivery; the first call makes it."""
    if main._signals is None:
        main._signals = SignalDelivery(main)
    return main._signals  # type: ignore[no-any-return]


class SignalDelivery(HubCall):
    """A run-queue entry that makes the parked main code call signal handlers."""

    __slots__ = ("calls", "main", "resumed_main", "scheduler")

    def __init__(self, main: Main) -> None:
        self.main = main
        self.scheduler = main.scheduler
        self.calls: list[Callable[[], object]] = []
        self.resumed_main = False

    def send(self, call: Callable[[], object]) -> None:
        """Queue a call for the parked main code. From: a signal handler; never switches."""
        self.calls.append(call)
        self.main.wake_queue.append(self)
        if self.scheduler.asleep:
            self.scheduler.wake_loop()

    def make_call(self) -> None:
        """Switch to the main code, which calls the handlers. If a wake has ended the park, do nothing: in that case the
        main code calls the handlers by itself (``end_park``).
        """
        # While the main code runs handlers, the last condition is False: ``run_handlers`` has replaced
        # ``this_thread.main`` by a stand-in.
        if self.calls and self.main.parked and this_thread.main is self.main:
            self.resumed_main = True
            self.scheduler._switch_to(self.main)

    def take_resumed(self) -> bool:
        """Return whether this delivery, and not a wake, has resumed the main code. Clear the mark."""
        resumed_main, self.resumed_main = self.resumed_main, False
        return resumed_main

    def run_handlers(self) -> None:
        """Call the handlers with another ``Main`` as the main code. A wake that comes meanwhile takes effect after the
        handlers.
        """
        main, mode = self.main, self.scheduler.mode
        stand_in, placeholder = Main(self.scheduler), MainPlaceholder(self.scheduler)
        this_thread.main = mode.main = stand_in
        # A wake puts the main code into the run queue. The scheduler then calls ``main.switch``, which is the
        # placeholder's.
        main.switch = placeholder.switch
        try:
            while self.calls:
                self.calls.pop(0)()
        finally:
            main.switch = main.own_greenlet.switch
            # In a child process that a handler has forked, there is another main code, which stays.
            if this_thread.main is stand_in:
                this_thread.main = mode.main = main
            for error in stand_in.pending_errors:
                pending_errors_of(main).append(error)
            if placeholder.woken:
                main.wake_queue.append(main)

    def interrupt_park(self) -> None:
        """Run the handlers during a park. An error ends the park, if the park may end and no waker was faster."""
        main = self.main
        target, queue = main.wait_target, self.step_aside()
        try:
            self.run_handlers()
        except BaseException as error:
            if target is not NOT_CANCELLABLE and (queue is not None or self.undo_main_park()):
                raise
            pending_errors_of(main).append(error)
        if this_thread.main is not main:
            raise LeftBehind("a signal handler forked this process: the object that it waited for stayed in the parent")
        if queue is not None:
            self.step_back(queue, target)

    def step_aside(self) -> WaitQueue | None:
        """Remove the main code from the queue of a lock, so that the handlers can acquire the lock.

        Returns: the queue; None if the main code does not wait for a lock, or a waker was faster.
        """
        main = self.main
        bound = main.wait_target is NOT_CANCELLABLE
        queue: Any = main._value if bound else main.wait_target
        if not hasattr(getattr(queue, "owner", None), "_hand_over_if_free"):
            return None
        try:
            queue._remove(main)
            main.parked.pop()
        except IndexError:
            return None
        main.wait_target = None  # the handlers wait as code outside a park does
        return queue  # type: ignore[no-any-return]

    def step_back(self, queue: WaitQueue, target: WaitTarget | None) -> None:
        """Rejoin a lock's queue at the former place. If a cancel has come meanwhile, raise its error at the park."""
        main = self.main
        main.park_on(queue, main.arrival)
        main.wait_target = target
        queue.owner._hand_over_if_free()  # type: ignore[attr-defined]
        if main.pending_errors and target is not NOT_CANCELLABLE:
            main.cancel_with(main.pending_errors.pop(0))

    def undo_main_park(self) -> bool:
        """Undo the main code's park. Returns: False if a waker was faster."""
        try:
            return self.main.undo_park() and bool(self.main.parked.pop())
        except IndexError:
            return False

    def end_park(self) -> None:
        """Run the remaining handlers after a park. If the wake handed something over, a handler's error stays
        pending.
        """
        try:
            if self.calls:
                self.tell_lock()
                self.run_handlers()
        except BaseException as error:
            main = self.main
            if main._error is None and main._value is not TIMED_OUT and not is_notification_only(main.wait_target):
                pending_errors_of(main).append(error)
                return
            main._error = main._value = None
            raise

    def tell_lock(self) -> None:
        """Make the main code's greenlet the holder of a lock that was handed over to the main code."""
        lock: Any = getattr(self.main.wait_target, "owner", None)
        if getattr(lock, "_holder", None) is self.main:
            lock._holder = self.main.own_greenlet


def is_notification_only(target: object) -> bool:
    """Return whether a handler's error may replace the result of a wait for this target."""
    return (
        isinstance(target, Dhaga)
        or getattr(target, "for_all", False)
        or getattr(target, "reason", None) in NOTIFICATIONS
    )


class MainPlaceholder(HubCall):
    """A run-queue entry that receives wakes for the main code while the main code runs signal handlers."""

    __slots__ = ("scheduler", "woken")

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.woken = False

    def make_call(self) -> None:
        """Record the wake."""
        self.woken = True
