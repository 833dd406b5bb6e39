"""Handlers of signals: called in the main code, which may be parked then, and parks on when they have returned."""

from __future__ import annotations

import _thread
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any

from greenlet import getcurrent

from . import originals
from .errors import LeftBehind
from .microthread import OWN, Dhaga, Main
from .scheduler import Errand, Scheduler
from .waiting import here

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


def in_own_code(frame: FrameType | None) -> bool:
    """Tell whether a signal has struck code of this package, whose queues and locks must stay whole."""
    return frame is not None and frame.f_globals.get("__name__", "").startswith(OWN)


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
        if self.calls and self.main.parked and here.main is self.main:  # not absent, at other handlers
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
