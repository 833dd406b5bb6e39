"""Fork: the child keeps one thread, with one dhaga at most; all others stay in the parent, and count as ended here."""

from __future__ import annotations

import contextlib
import os
import threading
from heapq import heappush
from typing import Any

from greenlet import getcurrent

from . import deadlock
from .callers import implicit_scheduler
from .cancels import Cancels
from .errors import LeftBehind
from .exit import end_dhagas, end_process, farewells, stop_schedulers
from .graveyard import graveyard
from .interrupts import hear_signals, undelivered
from .lives import Orphan
from .microthread import Dhaga
from .osthread import os_threads
from .scheduler import Scheduler, schedulers
from .waiting import here


def after_fork_in_child() -> None:
    """Forget the parent's dhagas without running a line of theirs, and let the caller be the main code of the child."""
    survivor, main = getcurrent(), here.main
    former = survivor.scheduler if isinstance(survivor, Dhaga) else None if main is None else main.scheduler
    for scheduler in schedulers:
        leave_behind(scheduler, survivor)
    schedulers.clear()
    undelivered.clear()
    deadlock.forget()
    for thread in os_threads:
        thread.parked.clear()
    here.main = here.guest = here.thread = here.end = None
    if isinstance(survivor, Dhaga):
        go_on_alone(survivor)
    elif former is not None and main is not None and in_blocks(main, former):
        implicit_scheduler()
        carry_over(former, main, here.main)


def leave_behind(scheduler: Scheduler, survivor: Any) -> None:
    """Make of the parent's scheduler, in the child, one that has ended: nobody parked there is woken any more."""
    graveyard.append(scheduler)
    scheduler.poller.abandon()
    scheduler.life.left_behind()
    if scheduler.selector is not None and scheduler.selector.bell is not None:
        scheduler.selector.bell.silence()
    scheduler.name = f"{scheduler.name}, left in the parent process,"
    if scheduler.main is not None:
        scheduler.main.parked.clear()
    for dhaga in scheduler.live - {survivor}:
        dhaga.parked.clear()
        dhaga.joiners.clear()
        dhaga.fault = LeftBehind(f"{dhaga.name} stayed in the parent process: wait for it there")
        dhaga.done = True


def go_on_alone(survivor: Dhaga) -> None:
    """Give the dhaga in which the fork was made a scheduler of its own, and let the process end with it."""
    former = survivor.scheduler
    Orphan(Scheduler(f"child {os.getpid()}"), survivor)
    carry_over(former, survivor, survivor)
    survivor.joiners[:] = [Heir(survivor)]
    hear_signals(survivor.scheduler)


def in_blocks(who: Any, scheduler: Scheduler) -> bool:
    """Tell whether a caller is within Timeouts, scopes or shields."""
    if isinstance(who.pending, Cancels) and (who.pending.scopes or who.pending.shields):
        return True
    return any(getattr(expiring, "waiter", None) is who for _, _, expiring in scheduler.timers.heap)


def carry_over(former: Scheduler, who: Any, heir: Any) -> None:
    """Let the Timeouts, scopes and shields in which the caller is at the moment of the fork go on."""
    timers = heir.scheduler.timers
    timers.sequence = former.timers.sequence  # what was entered first shows in the numbers
    for entry in former.timers.heap:
        if getattr(entry[2], "waiter", None) is who:
            entry[2].waiter = heir
            heappush(timers.heap, entry)
    if isinstance(who.pending, Cancels):
        heir.pending = who.pending
        for scope in heir.pending.scopes:
            scope.waiter = heir


class Heir:
    """Joins a dhaga that has become the main code of a forked child: with its end it ends the process."""

    __slots__ = ("survivor",)

    def __init__(self, survivor: Dhaga) -> None:
        self.survivor = survivor

    def unpark(self, value: object = None, error: BaseException | None = None) -> bool:
        self.survivor.scheduler.spawn(end_child, self.survivor.fault, name="end of the child", daemon=True)
        return True


def end_child(failure: BaseException | None) -> None:
    """End a forked child whose code went on in a dhaga, as its main code had ended: others are waited for."""
    me: Any = getcurrent()
    life = me.scheduler.life
    life.main = me
    if isinstance(failure, SystemExit):
        life.interrupted = None
    interruption = end_dhagas()
    with contextlib.suppress(BaseException):
        stop_schedulers()
        threading._shutdown()  # type: ignore[attr-defined]
        for farewell in farewells:
            farewell()
    end_process(interruption if isinstance(interruption, SystemExit) else failure)


os.register_at_fork(after_in_child=after_fork_in_child)
