"""Signals: how they come to the main code, wherever they strike; above all Ctrl-C, as a KeyboardInterrupt."""

from __future__ import annotations

import _thread
import signal
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any

from greenlet import getcurrent

from . import originals
from .errors import LeftBehind
from .loop import Bell
from .microthread import OWN, Dhaga, Main
from .scheduler import Errand, Scheduler
from .waiting import here

handler_of, set_handler = signal.getsignal, signal.signal
"""The standard's own."""


def hear_signals(scheduler: Scheduler) -> None:
    """Have signals end the sleep of the main thread's scheduler, and Ctrl-C reach the main code wherever it strikes.

    A handler that the program has set stays in place.
    """
    selector = scheduler.selector
    if selector is not None:
        selector.bell = Bell()
        scheduler.loop.add_reader(selector.bell.ear, selector.bell.heard)
        selector.own_fds += 1
    if handler_of(signal.SIGINT) is signal.default_int_handler:
        set_handler(signal.SIGINT, on_ctrl_c)


COMPUTES_LONG = 0.2
"""Seconds after which a Ctrl-C that has not been delivered lets the next one strike the dhaga that computes."""

undelivered: list[tuple[Scheduler, float]] = []
"""The scheduler whose main code has not got its KeyboardInterrupt yet, and when that came."""


def on_ctrl_c(number: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt in the main code: here if that runs, at its park if it waits. Never switches.

    While a dhaga computes, the first Ctrl-C waits for the hub, so that no half-done work is struck; a second one,
    ``COMPUTES_LONG`` later, strikes the dhaga, unless it is just in code of this package, whose queues and locks must
    stay whole. What runs on another loop in the main code (``asyncio.run``) is interrupted where it stands.
    """
    me = getcurrent()
    scheduler: Any = here.guest if here.main is None else here.main.scheduler
    main: Any = None if scheduler is None else scheduler.main
    if main is None:
        raise KeyboardInterrupt
    scheduler.life.interrupted = KeyboardInterrupt()
    main_runs = me is getattr(main, "greenlet", main) and not main.parked
    if main_runs or computes_long(frame) or getattr(me, "scheduler", scheduler) is not scheduler:
        undelivered.clear()
        raise KeyboardInterrupt
    if not undelivered:
        undelivered.append((scheduler, originals.monotonic()))
        scheduler.loop.call_soon_threadsafe(deliver_ctrl_c)
        if isinstance(main, Main):
            summons_of(main).calls.append(strike)


def computes_long(frame: FrameType | None) -> bool:
    """Tell whether a Ctrl-C has waited so long that the next one may strike what runs in ``frame``."""
    if not undelivered or originals.monotonic() - undelivered[0][1] < COMPUTES_LONG:
        return False
    return not in_own_code(frame)


def in_own_code(frame: FrameType | None) -> bool:
    """Tell whether a signal has struck code of this package, whose queues and locks must stay whole."""
    return frame is not None and frame.f_globals.get("__name__", "").startswith(OWN)


on_ctrl_c.of_dhaga = True  # type: ignore[attr-defined]


def deliver_ctrl_c() -> None:
    """Interrupt the parked main code, on the hub, where nobody is in the middle of parking.

    One that must get what it waits for, a lock after ``Condition.wait``, is interrupted by force from the second on.
    """
    while undelivered:
        scheduler, _ = undelivered.pop()
        main: Any = scheduler.main
        if not any(isinstance(error, KeyboardInterrupt) for error in main.pending):
            scheduler.life.interrupt(KeyboardInterrupt())
        else:
            main.unpark(error=KeyboardInterrupt())


def strike() -> None:
    """Raise the KeyboardInterrupt that is still undelivered when the main code comes back from a park."""
    if undelivered:
        undelivered.clear()
        raise KeyboardInterrupt


AGAIN_SECONDS = 0.0005
"""After this a signal comes again that has struck main code where it must not park, within this package."""


def call_in_main(handler: Callable[[int, FrameType | None], object], number: int, frame: FrameType | None) -> None:
    """Call a signal's handler in the main code: now if that runs, else in the middle of its park, which then goes on.

    Parks: never, but the handler may. What it raises ends the park of the main code, as far as nothing is lost by that.
    From: a signal handler, which Python calls in the main thread, whatever runs there.
    """
    main: Main | None = here.main
    me: Any = getcurrent()
    if main is not None and getattr(me, "scheduler", main.scheduler) is not main.scheduler:
        main = None  # a dhaga on a loop that the main code runs by itself
    if main is not None and (me is not main.greenlet or main.parked):
        summons_of(main).send(partial(handler, number, frame))
    elif main is None:
        handler(number, frame)  # also within this package: what blocks there is to be ended
    elif in_own_code(frame):
        originals.start_new_thread(come_again, (number,))
    else:
        summons_of(main).calls.append(partial(handler, number, frame))
        summons_of(main).answer()


def come_again(number: int) -> None:
    originals.thread_sleep(AGAIN_SECONDS)
    _thread.interrupt_main(number)  # type: ignore[arg-type]


def summons_of(main: Main) -> Summons:
    if main.summons is None:
        main.summons = Summons(main)
    return main.summons  # type: ignore[no-any-return]


class Summons(Errand):
    """Bring handlers of signals to the main code, which is parked, by standing in the run queue for it."""

    __slots__ = ("brought", "calls", "main", "scheduler")

    def __init__(self, main: Main) -> None:
        self.main = main
        self.scheduler = main.scheduler
        self.calls: list[Callable[[], object]] = []
        self.brought = False

    def send(self, call: Callable[[], object]) -> None:
        self.calls.append(call)
        self.main.queue.append(self)
        if self.scheduler.asleep:
            self.scheduler.rouse()

    def make_call(self) -> None:
        """Switch to the main code, unless it was woken meanwhile, and answers by itself."""
        if self.calls and self.main.parked:
            self.brought = True
            self.scheduler.give_turn(self.main)

    def delivered(self) -> bool:
        """Tell whether it is this, and no wake, that has brought the main code here. From: the main code."""
        brought, self.brought = self.brought, False
        return brought

    def answer(self) -> None:
        """Call the handlers, as main code that has not parked: what becomes of its park waits for the end of them."""
        main, life = self.main, self.scheduler.life
        stand_in, absence = Main(self.scheduler), Absence(self.scheduler)
        here.main = life.main = stand_in
        main.switch = absence.switch
        try:
            while self.calls:
                self.calls.pop(0)()
        finally:
            main.switch = main.greenlet.switch
            if here.main is stand_in:  # not so in a child that a handler has forked
                here.main = life.main = main
            for error in stand_in.pending:
                main.pending.append(error)
            if absence.woken:
                main.queue.append(main)

    def interrupt_park(self) -> None:
        """Answer in the middle of a park, which ends by what a handler raises, unless a waker was faster."""
        try:
            self.answer()
        except BaseException as error:
            if self.retracted():
                raise
            self.main.pending.append(error)
        if here.main is not self.main:
            raise LeftBehind("a signal's handler has forked this process: what it waited for stayed in its parent")

    def retracted(self) -> bool:
        try:
            return self.main.taken_off() and bool(self.main.parked.pop())
        except IndexError:
            return False

    def end_park(self) -> None:
        """Answer after a park; what a handler raises is for the next one, if something was handed over by this."""
        try:
            if self.calls:
                self.answer()
        except BaseException as error:
            main = self.main
            if main.fault is None and not hands_nothing_over(main.place):
                main.pending.append(error)
                return
            main.fault = main.value = None
            raise


NEWS = ("event.wait", "signal.pause")
"""Reasons of waits that end with nothing handed over but the news, as the end of a dhaga and that of a sleep do."""


def hands_nothing_over(place: object) -> bool:
    return isinstance(place, Dhaga) or getattr(place, "for_all", False) or getattr(place, "reason", None) in NEWS


class Absence(Errand):
    """Stand in for main code that is woken while it is at the handlers of signals."""

    __slots__ = ("scheduler", "woken")

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.woken = False

    def make_call(self) -> None:
        """Remember the wake."""
        self.woken = True
