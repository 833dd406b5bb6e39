"""Deadlock: when nothing in this process could ever wake anybody, and what is said about it.

A scheduler that runs its own loop asks here before it sleeps without a deadline. It is stuck for good when all of this
holds:

- nothing is runnable, and no timer is armed (its own heap and the loop's);
- nobody is parked on a file descriptor, and nobody added a handler of his own to the loop;
- no call is under way in an offload thread, and no Python signal handler is installed that could wake somebody;
- every other OS thread is itself stuck: the thread of a stuck scheduler to whose loop nothing has been handed
  meanwhile, or one blocked without a timeout on something of Dhaga's, or an idle offload thread. Any other live thread
  counts as one that could still wake somebody: which references it holds cannot be told, so Dhaga stays silent rather
  than guess, and looks again every ``LOOK_AGAIN`` seconds, as a thread may end without a word.

A guest on somebody else's loop never decides: its host may always have more to do. Plain OS threads among themselves do
not either. A thread that C code has made and that has not called Python yet is not seen.
"""

from __future__ import annotations

import gc
import itertools
import logging
import signal
import sys
from collections.abc import Collection, Iterable
from importlib import import_module
from types import FrameType
from typing import TYPE_CHECKING, Any

from . import originals
from .errors import Deadlock

if TYPE_CHECKING:
    from .osthread import OSThread
    from .scheduler import Scheduler
    from .waiter import Waiter

logger = logging.getLogger("dhaga")

LOOK_AGAIN = 1.0
"""Seconds between two looks while another thread lives; a look takes 0.1 to 0.2 ms, mostly for the signal handlers."""

LONGEST_LIST = 100
"""So many dhagas are described one by one, with so many characters each for what they wait on."""

blocked: dict[int, OSThread] = {}
"""Plain OS threads that block without a timeout in a wait of Dhaga's, by thread ident."""

stuck: dict[int, Scheduler] = {}
"""Schedulers asleep with nothing of their own left to wake them, by thread ident."""

idle: set[int] = set()
"""Idents of our own helper threads that wait for work."""

next_change = itertools.count(1).__next__
last_change = 0
"""Grows before every entry into ``stuck``, ``blocked`` and ``idle``, and after every leave of the first two.

Who looks at one after the other needs it: whom a thread has woken, or given work, before its entry is to be looked at
again.
"""


def changed() -> None:
    global last_change
    last_change = next_change()


class Watch:
    """Look for a deadlock whenever the loop of one scheduler is about to sleep without a deadline."""

    def __init__(self, scheduler: Scheduler, everybody: Collection[Scheduler]) -> None:
        self.scheduler = scheduler
        self.everybody = everybody

    def begin(self) -> float | None:
        """Look, before the sleep.

        Returns: seconds after which to look again; 0 if the main code gets a Deadlock right here; None: sleep for good.
        """
        if not self.could_be_stuck():
            return None
        enter(self.scheduler.ident, self.scheduler)
        if not self.scheduler.live and self.scheduler.main is None:  # nobody waits here: it looks on behalf of none
            return None
        if not found():
            return LOOK_AGAIN
        victim = main_code()
        if victim is not None and not any(isinstance(error, Deadlock) for error in victim.pending):
            error = Deadlock(describe(victim, list(self.everybody)))
            victim.interrupt(error)
            if error in victim.pending:  # it must get what it waits for, a lock after Condition.wait, and never will
                logger.error("%s", error)
        return 0 if self.scheduler.runnable() else None

    def end(self) -> None:
        """Take note that the sleep is over."""
        leave(self.scheduler.ident)

    def could_be_stuck(self) -> bool:
        """Tell whether nothing of the scheduler's own could wake anybody."""
        scheduler = self.scheduler
        return bool(
            not scheduler.runnable()
            and not scheduler.poller.anybody_parked()
            and scheduler.selector is not None
            and scheduler.selector.only_own_fds()
            and not scheduler.outside_calls
        )


def block(thread: OSThread) -> None:
    """Note a plain thread that blocks without a timeout, and have stuck schedulers look again."""
    changed()
    blocked[thread.ident] = thread
    for scheduler in list(stuck.values()):
        scheduler.rouse()


def unblock(thread: OSThread) -> None:
    """Forget a plain thread that goes on."""
    blocked.pop(thread.ident, None)
    changed()


def enter(ident: int, scheduler: Scheduler) -> None:
    """Note a scheduler that has nothing of its own to wake it."""
    changed()
    stuck[ident] = scheduler


def leave(ident: int) -> None:
    """Forget a scheduler that somebody wakes, or whose sleep is over."""
    if stuck.pop(ident, None) is not None:
        changed()


def rest(ident: int) -> None:
    """Note a helper thread that waits for work; who gives it some discards it from ``idle`` first."""
    changed()
    idle.add(ident)


def found() -> bool:
    """Tell whether the whole process is stuck; asked by a scheduler that has entered, which may have left since."""
    former = -1
    while former != last_change:  # a thread may have woken one that was found stuck, and got stuck itself meanwhile
        former = last_change
        if not all_listed() or not all(map(is_stuck, frames_of_threads())) or signal_could_wake():
            return False
    return True


def all_listed() -> bool:
    """Tell whether as many threads say that they are stuck as there are.

    Asked first, as it costs next to nothing, while ``sys._current_frames`` makes frame objects of all that threads are
    at.
    """
    return len(stuck) + len(blocked) + len(idle) > originals.thread_count()


def frames_of_threads() -> dict[int, FrameType]:
    """Return the frame that each OS thread is at, by its ident.

    On Python 3.11 a frame object that is made may start a collection, and that lets other threads run: then a program
    of three busy schedulers ended by a segmentation fault, or hung, within seconds. Without collections it did not.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        return sys._current_frames()
    finally:
        if enabled:
            gc.enable()


def is_stuck(ident: int) -> bool:
    """Tell whether a thread is stuck and nothing is under way to it."""
    scheduler, thread = stuck.get(ident), blocked.get(ident)
    if scheduler is not None:
        return scheduler.selector is not None and not scheduler.selector.would_return()
    return bool(thread.parked) if thread is not None else ident in idle


def forget() -> None:
    """Forget all, in a forked child, which has one thread."""
    stuck.clear()
    blocked.clear()
    idle.clear()


def signal_could_wake() -> bool:
    ours = (signal.default_int_handler, signal.SIG_DFL, signal.SIG_IGN, None)
    for number in signal.valid_signals():
        handler = signal.getsignal(number)
        if handler not in ours and not getattr(handler, "of_dhaga", False):
            return True
    return False


def main_code() -> Waiter | None:
    """Return the parked main code of the process, which gets the Deadlock."""
    ident = originals.main_thread().ident or 0
    scheduler = stuck.get(ident)
    return scheduler.main if scheduler is not None else blocked.get(ident)


def describe(victim: Waiter, schedulers: Iterable[Scheduler]) -> str:
    """Say of everybody what it waits for, on what, and who holds that (the repr of a lock tells)."""
    others: list[Waiter] = list(blocked.values())
    for scheduler in sorted(schedulers, key=lambda scheduler: scheduler.name):
        others += [] if scheduler.main is None else [scheduler.main]
        others += scheduler.in_order()
    others = [waiter for waiter in dict.fromkeys(others) if waiter is not victim]
    lines = ["every dhaga waits, and nothing in this process could wake one:"]
    lines += line_and_place("main code", victim)
    for waiter in others[:LONGEST_LIST]:
        lines += line_and_place(waiter.name, waiter)
    if len(others) > LONGEST_LIST:
        lines.append(f"  ... and {len(others) - LONGEST_LIST} more")
    lines += [f"  in a circle: {circle}" for circle in hangs().circles_of([victim, *others])]
    return "\n".join(lines)


def hangs() -> Any:
    """Return what sees more of it than the kernel can; imported when a program hangs, and not before."""
    return import_module("dhaga.debug.hangs")


def line_and_place(name: str, waiter: Waiter) -> Iterable[str]:
    """Say what somebody waits for, and in the next line where: nobody moves, so that all stacks can be looked at."""
    yield f"  {name}: {line_of(waiter)}"
    place = hangs().place_of(waiter)
    if place:
        yield f"    at {place}"


def line_of(waiter: Waiter) -> str:
    reason = waiter.parked[0] if waiter.parked else "not parked"
    place = waiter.waits_on
    return f"waits for {reason}" + (f" on {shortened(place)}" if place is not None else "")


def shortened(thing: object) -> str:
    try:
        text = repr(thing)
    except Exception as error:
        text = f"<{type(thing).__name__}, whose repr fails: {type(error).__name__}>"
    return text if len(text) <= LONGEST_LIST else f"{text[:LONGEST_LIST]}..."
