"""Signals: Python handlers and Ctrl-C reach the main code, in any code that the main thread is executing.

Python calls a handler between two bytecodes of the main thread: in the main code, in a dhaga, on the hub, or inside
this package. A handler must not switch there: it has to run in the main code. So there are four cases. Main code that
runs user code: the handler is called at once. Main code that is parked: a ``SignalDelivery`` joins the run queue, the
hub switches to the main code, which calls the handler in the middle of its park and parks on. Main code, or a plain
main thread, inside this package, whose queues and locks must stay whole: the signal is sent again a moment later, until
it strikes elsewhere, or a call that blocks (``hold_off``). No main code: at once.
An error raised by a handler ends the main code's park if the park can be undone, and is otherwise raised at the next
park, so that nothing handed over is lost. While handlers run, a stand-in ``Main`` takes the place of the main code, so
that a handler may park itself; a wake of the real one meets a ``MainPlaceholder``. Main code that is parked on a lock
steps aside, so that the handler may take that lock, and is first in the queue afterwards.
Ctrl-C is the same with one difference: a dhaga that computes never lets the delivery run, hence a second Ctrl-C,
``BUSY_SECONDS`` later, raises KeyboardInterrupt in that dhaga.
The file follows the path of a signal: set-up, the strike, the delivery.
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

# Seconds until a signal is sent again that struck this package in main code or a plain main thread.
RESEND_SECONDS = 0.0005

# Seconds after which a frame that is still at the same instruction, with no lap meanwhile, counts as blocked in C: the
# handler is called there.
BLOCKED_SECONDS = 0.02

# The frame must also stay there for this number of signals: on a busy machine one instruction may take that long.
BLOCKED_STRIKES = 5

# Seconds after which the next Ctrl-C is raised in the computing dhaga, if the first one was not delivered.
BUSY_SECONDS = 0.2

# Standard modules whose functions count as ours while our code calls them.
CALLED_MODULES = ("asyncio.", "contextlib", "_weakrefset", "weakref")

# Reasons of waits that end with a mere notification: nothing is handed over. Joins and sleeps are also of this kind.
NOTIFICATIONS = ("event.wait", "signal.pause")

# The callers of ``pause()``.
pause_queue: WaitQueue = WaitQueue(signal, "signal.pause")

# The standard library's own.
handler_of, set_handler = signal.getsignal, signal.signal

# The scheduler whose main code has not received its KeyboardInterrupt yet, and the time of the Ctrl-C; at most one.
undelivered_interrupts: list[tuple[Scheduler, float]] = []

# Where the last signal was held off: the top frame's id and instruction and the scheduler's heartbeat, since when
# (seconds), and how often.
held_off: list[Any] = []

# Code of this package that blocks a plain thread in C, and is safe when a handler raises.
BLOCKING = {OSThread.block.__code__, OSThread.block_forever.__code__, sleep_off_fast_path.__code__}


def takes_strikes(function: F) -> F:
    """Mark a function in which the handler of a signal may raise, although it is of this package."""
    BLOCKING.add(function.__code__)
    return function


# ---- set-up


def listen_for_signals(scheduler: Scheduler) -> None:
    """Make signals end the sleep of the main thread's scheduler, and Ctrl-C reach the main code wherever it strikes.

    The program's own handler stays in place.
    """
    selector = scheduler.selector
    if selector is not None:
        selector.wakeup_pipe = WakeupPipe()
        Context().run(scheduler.loop.add_reader, selector.wakeup_pipe.read_end, on_signals, selector.wakeup_pipe)
        selector.own_fds += 1
    if handler_of(signal.SIGINT) is signal.default_int_handler:
        set_handler(signal.SIGINT, on_ctrl_c)


def on_signals(pipe: WakeupPipe) -> None:
    """End ``pause()`` after signals whose handlers were set by the standard ``signal``; ours end it themselves."""
    if not all(getattr(handler_of(number), "ends_pause", False) for number in pipe.drain()):
        pause_queue.wake_all()


# ---- a signal arrives: these run in its Python handler, in the middle of any code of the main thread


def on_ctrl_c(number: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt in the main code: here if that runs, at its park if it waits. Never switches.

    Inside this package it comes a moment later: see ``hold_off``.

    While a dhaga computes, the first Ctrl-C waits for the hub, so that no half-done work is struck; a second one,
    ``BUSY_SECONDS`` later, strikes the dhaga, except in code of this package, whose queues and locks must stay whole. A
    loop that the main code runs by itself (``asyncio.run``) is interrupted where it stands.
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
            # Compared by identity: a thread's own errors are others.
            raise error
    elif not undelivered_interrupts:
        undelivered_interrupts.append((scheduler, originals.monotonic()))
        # ``_threadsafe`` although this is the loop's thread: the loop may be in its select, which only a write ends.
        scheduler.loop.call_soon_threadsafe(deliver_interrupts)
        if isinstance(main, Main):
            signal_delivery_of(main).calls.append(raise_undelivered_interrupt)


# Tells deadlock.py that this handler wakes no waiter of the program's.
on_ctrl_c.of_dhaga = True  # type: ignore[attr-defined]


def may_interrupt_busy_dhaga(frame: FrameType | None) -> bool:
    """Return whether a Ctrl-C has waited for so long that the next one may be raised in the code of ``frame``."""
    if not undelivered_interrupts or originals.monotonic() - undelivered_interrupts[0][1] < BUSY_SECONDS:
        return False
    return not in_own_steps(frame)


def call_in_main(handler: Callable[[int, FrameType | None], object], number: int, frame: FrameType | None) -> None:
    """Call a signal's handler in the main code: now if that runs, else in the middle of its park, which then continues.

    Parks: never, but the handler may. An error that it raises ends the main code's park, unless something handed over
    would be lost. From: a signal handler, which Python calls in the main thread, in any code.
    """
    wakeup_detour.note_arrival(number)
    main: Main | None = this_thread.main
    me: Any = getcurrent()
    if main is not None and getattr(me, "scheduler", main.scheduler) is not main.scheduler:
        # A dhaga on a loop that the main code runs by itself.
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
    """If a signal struck this package, whose queues and locks must stay whole, send it again a moment later.

    Returns: False if its handler may run here: in other code, or in a call that blocks, which the handler may be meant
    to end.
    """
    if frame is None or not in_own_steps(frame):
        held_off.clear()
        return False
    # Code that goes through a call again and again may be struck at the same instruction of each call.
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
    """Return whether a signal struck code of this package, or of asyncio and similar modules called by it."""
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module.startswith(PACKAGE_PREFIX):
            return frame.f_code not in BLOCKING
        # Not below a loop that runs: there, asyncio calls us.
        if not module.startswith(CALLED_MODULES) or frame.f_code.co_name == "run_forever":
            return False
        frame = frame.f_back
    return False


# ---- delivery: in the main code, or on the hub


def deliver_interrupts() -> None:
    """On the hub, where no waiter is in the middle of parking: interrupt the parked main code.

    Main code that must not leave its wait, such as for a lock after ``Condition.wait``, is interrupted by force from
    the second Ctrl-C on.
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
    """Return the main code's SignalDelivery, made with the first signal."""
    if main._signals is None:
        main._signals = SignalDelivery(main)
    return main._signals  # type: ignore[no-any-return]


class SignalDelivery(HubCall):
    """Run-queue entry that makes the parked main code call handlers of signals."""

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
        """Switch to the main code, unless it was woken meanwhile and then runs the handlers itself."""
        # The last condition: while main code runs handlers already, a stand-in is in its place.
        if self.calls and self.main.parked and this_thread.main is self.main:
            self.resumed_main = True
            self.scheduler._switch_to(self.main)

    def take_resumed(self) -> bool:
        """Return whether this delivery, and no wake, has resumed the main code; reset the mark. From: that code."""
        resumed_main, self.resumed_main = self.resumed_main, False
        return resumed_main

    def run_handlers(self) -> None:
        """Call the handlers, with the main code not parked; a wake that comes meanwhile takes effect afterwards."""
        main, mode = self.main, self.scheduler.mode
        stand_in, placeholder = Main(self.scheduler), MainPlaceholder(self.scheduler)
        this_thread.main = mode.main = stand_in
        # A wake puts the main code into the run queue; a switch to it there meets the placeholder.
        main.switch = placeholder.switch
        try:
            while self.calls:
                self.calls.pop(0)()
        finally:
            main.switch = main.own_greenlet.switch
            # Otherwise a handler has forked, and this child has other main code.
            if this_thread.main is stand_in:
                this_thread.main = mode.main = main
            for error in stand_in.pending_errors:
                pending_errors_of(main).append(error)
            if placeholder.woken:
                main.wake_queue.append(main)

    def interrupt_park(self) -> None:
        """Run the handlers in the middle of a park. An error of a handler ends the park, unless a waker was faster."""
        main = self.main
        queue, target = self.step_aside(), main.wait_target
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
        """Remove the main code from the queue of a lock, so that its handlers can take that lock.

        Returns: that queue; None if it waits for something else, or a waker has won.
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
        return queue  # type: ignore[no-any-return]

    def step_back(self, queue: WaitQueue, target: WaitTarget | None) -> None:
        """Rejoin the queue of a lock, by arrival; a cancel that came meanwhile is raised."""
        main = self.main
        main.park_on(queue, main.arrival)
        main.wait_target = target
        queue.owner._hand_over_if_free()  # type: ignore[attr-defined]
        if main.pending_errors and target is not NOT_CANCELLABLE:
            main.cancel_with(main.pending_errors.pop(0))

    def undo_main_park(self) -> bool:
        """Undo the main code's park. Returns: False if a waker has won."""
        try:
            return self.main.undo_park() and bool(self.main.parked.pop())
        except IndexError:
            return False

    def end_park(self) -> None:
        """Run the handlers left after a park. If the wake handed something over, their error stays pending."""
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
        """Make the greenlet the holder of a lock that was handed over; an RLock was handed over to the stand-in."""
        lock: Any = getattr(self.main.wait_target, "owner", None)
        if getattr(lock, "_holder", None) is self.main:
            lock._holder = self.main.own_greenlet


def is_notification_only(target: object) -> bool:
    """Return whether waits for this target end without a value that could be lost."""
    return (
        isinstance(target, Dhaga)
        or getattr(target, "for_all", False)
        or getattr(target, "reason", None) in NOTIFICATIONS
    )


class MainPlaceholder(HubCall):
    """Run-queue stand-in for main code that is woken while it runs handlers of signals."""

    __slots__ = ("scheduler", "woken")

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.woken = False

    def make_call(self) -> None:
        """Record the wake."""
        self.woken = True
