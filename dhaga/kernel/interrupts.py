"""Ctrl-C: how a KeyboardInterrupt comes to the main code, wherever it strikes."""

from __future__ import annotations

import signal
from types import FrameType
from typing import Any

from greenlet import getcurrent

from . import originals
from .loop import Bell
from .microthread import Main
from .scheduler import Scheduler
from .summons import in_own_code, summons_of
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
