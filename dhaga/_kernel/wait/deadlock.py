"""Deadlock detection: whether any event in this process could still wake a waiter, and the report if none can.

A scheduler that runs its own loop asks here before it sleeps without a deadline. It is stuck for good when all of this
holds:

- nothing is runnable, and no timer is armed (in its own heap or the loop's);
- no waiter is parked on a file descriptor, and the program has added no handler of its own to the loop;
- no waiter and no Task of the loop waits for a Future that others than Dhaga may end (``mark_own``);
- no call is under way in an offload thread, and no Python signal handler is installed that could wake a waiter;
- every other OS thread is stuck itself. It is the thread of a stuck scheduler whose loop has got no call meanwhile, a
  thread that is blocked without a timeout on an object of Dhaga's, or an idle helper thread. Any other live thread
  counts as one that could still wake a waiter, since the references it holds are unknown: Dhaga then stays silent
  rather than guess, and looks again every ``RECHECK_SECONDS``, because a thread may end without notice. The same goes
  for a thread that was just made and has not begun.

A guest never decides, because its host may always have more to do; nor does a plain OS thread. A thread made by C code
that has not called Python yet is not seen, only an open Future that it may end: asyncio also waits for that for ever.
Each thread writes its own mark (``stuck``, ``blocked``, ``idle``) before it sleeps and removes it after; no lock is
taken. ``version`` grows with each change: a scheduler that reads one mark after the other can tell whether all of them
held at the same moment, and starts over if not.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import logging
import os
import signal
import sys
from collections.abc import Collection, Iterable
from types import FrameType
from typing import TYPE_CHECKING, Any

from .. import originals
from ..errors import Deadlock
from .wait_graph import cycle_texts, place_of

if TYPE_CHECKING:
    from ..run.scheduler import Scheduler
    from .thread_waiter import OSThread
    from .waiter import Waiter

logger = logging.getLogger("dhaga")

# Seconds between two looks while another thread lives. A look takes 0.1 to 0.2 ms, mostly for the signal handlers.
RECHECK_SECONDS = 1.0

# The number of dhagas above which their waits are not all looked at before each sleep: 0.1 us each.
MAX_CHEAP_LOOK = 1000

# The maximal number of dhagas described one by one, and of characters for the object each waits on.
MAX_DESCRIBED = 100

# Plain OS threads that block without a timeout in a wait of Dhaga's, by thread ident.
blocked: dict[int, OSThread] = {}

# Schedulers asleep with nothing of their own left to wake them, by thread ident.
stuck: dict[int, Scheduler] = {}

# Idents of our own helper threads that wait for work.
idle: set[int] = set()

# Held while a Deadlock is raised; re-entrant, because a repr in its text may run a finalizer that waits.
raising = originals.RLock()

next_version = itertools.count(1).__next__
# Grows before every entry into ``stuck``, ``blocked`` and ``idle``, and after every removal from the first two. A
# thread that wakes another thread, or gives it work, does so before it sets its own mark. A look that sees the mark,
# but an older state of the other thread, is repeated.
version = 0


# OS threads that had not begun in Python at the last look, and the time when there were more than before.
unbegun = 0
unbegun_since = 0.0


def bump_version() -> None:
    """Note a change of a mark."""
    global version
    version = next_version()


class DeadlockWatch:
    """Looks for a deadlock whenever the loop of one scheduler is about to sleep without a deadline."""

    def __init__(self, scheduler: Scheduler, schedulers: Collection[Scheduler]) -> None:
        self.scheduler = scheduler
        self.schedulers = schedulers
        # Before this time no costly look at the fds and the waits is taken again.
        self.next_costly_look: float = 0.0

    def begin(self) -> float | None:
        """Look, before the sleep.

        Returns: seconds after which to look again; 0 if the main code gets a Deadlock right here; None: sleep for good.
        """
        if not self.could_be_stuck():
            return None
        if self.scheduler.poller.scan_is_costly() or len(self.scheduler.live) > MAX_CHEAP_LOOK:
            now = originals.monotonic()
            if now < self.next_costly_look:
                return RECHECK_SECONDS
            self.next_costly_look = now + RECHECK_SECONDS
        if self.scheduler.poller.has_waiters() or self.awaits_open_future():
            return None
        mark_stuck(self.scheduler.thread_ident, self.scheduler)
        # The thread has no waiter of its own: it only sets its mark, and other threads decide.
        if not self.scheduler.live and self.scheduler.main_waiter is None:
            return None
        # Asked again: a thread may have begun in between.
        if not (version_when_stuck() and all_begun() and (found_at := version_when_stuck())):
            return RECHECK_SECONDS
        raise_in_main_code(list(self.schedulers), found_at)
        return 0 if self.scheduler.count_runnable() else None

    def end(self) -> None:
        """Note that the sleep is over."""
        unmark_stuck(self.scheduler.thread_ident)

    def could_be_stuck(self) -> bool:
        """Return whether nothing of the scheduler's own could wake a waiter, unless one is parked on an fd."""
        scheduler = self.scheduler
        return bool(
            not scheduler.count_runnable()
            and scheduler.selector is not None
            and scheduler.selector.only_own_fds()
            and not scheduler.outside_calls
        )

    def awaits_open_future(self) -> bool:
        """Return whether a waiter or a Task of the scheduler's loop waits for a Future that others may end. O(n).

        What a Task waits for is known only by its private attribute; a Task of another kind may wait for anything.
        """
        scheduler = self.scheduler
        return (
            any(is_open(waiter.waits_on) for waiter in list(scheduler.live))
            or (scheduler.main_waiter is not None and is_open(scheduler.main_waiter.waits_on))
            or any(is_open(getattr(task, "_fut_waiter", task)) for task in asyncio.all_tasks(scheduler.loop))
        )


def mark_own(future: Any) -> None:
    """Note that only Dhaga ends a Future: a wait for it is a wait for what Dhaga waits for."""
    future.ended_by_dhaga = True


def is_open(target: object) -> bool:
    """Return whether the target of a wait is a Future that others than Dhaga may end. A Task waits itself."""
    return asyncio.isfuture(target) and not (isinstance(target, asyncio.Task) or hasattr(target, "ended_by_dhaga"))


def raise_in_main_code(schedulers: Collection[Scheduler], found_at: int) -> None:
    """Raise a Deadlock at the park of the main code, if that is parked and has not received one yet.

    Two schedulers that fall asleep together may both find it, and the later one when main code has gone on since, and
    waits for something else: then ``version`` has grown.
    """
    with raising:
        victim = parked_main_code()
        if (
            victim is None
            or version != found_at
            or not victim.parked
            or any(isinstance(error, Deadlock) for error in victim.pending_errors)
        ):
            return
        error = Deadlock(describe(victim, schedulers))
        victim.cancel_with(error)
        # The main code must get what it waits for (a lock after Condition.wait), but never will: only a log line is
        # possible.
        if error in victim.pending_errors:
            logger.error("%s", error)


def mark_blocked(thread: OSThread) -> None:
    """Mark a plain thread that blocks without a timeout, and make stuck schedulers look again."""
    bump_version()
    blocked[thread.ident] = thread
    for scheduler in list(stuck.values()):
        scheduler.wake_loop()


def unmark_blocked(thread: OSThread) -> None:
    """Remove the mark of a plain thread that goes on."""
    blocked.pop(thread.ident, None)
    bump_version()


def mark_stuck(ident: int, scheduler: Scheduler) -> None:
    """Mark a scheduler that has nothing of its own to wake it."""
    bump_version()
    stuck[ident] = scheduler


def unmark_stuck(ident: int) -> None:
    """Remove the mark of a scheduler that is woken, or whose sleep is over."""
    if stuck.pop(ident, None) is not None:
        bump_version()


def mark_idle(ident: int) -> None:
    """Mark a helper thread that waits for work. The code that gives it work discards it from ``idle`` first."""
    bump_version()
    idle.add(ident)


def version_when_stuck() -> int:
    """Return the version at which the whole process is stuck; 0 if it is not. From: a thread that has set its mark."""
    former = -1
    # Meanwhile a thread may have woken another that was found stuck, and then become stuck itself.
    while former != version:
        former = version
        if not all_listed() or not all(map(is_stuck, frames_of_threads())) or signal_could_wake():
            return 0
    return former


def all_begun() -> bool:
    """Return whether each OS thread has begun in Python, or has had ``RECHECK_SECONDS`` for it: it is one of C's then.

    Python does not count a thread that was just made. Elsewhere than on Linux, such a thread is not seen.
    """
    global unbegun, unbegun_since
    try:
        count = len(os.listdir("/proc/self/task")) - 1 - originals.thread_count()
    except OSError:
        return True
    now = originals.monotonic()
    if count > unbegun:
        unbegun_since = now
    unbegun = count
    return count <= 0 or now - unbegun_since >= RECHECK_SECONDS


def all_listed() -> bool:
    """Return whether the number of marks is the number of threads.

    Asked first, because it costs next to nothing, while ``sys._current_frames`` makes frame objects of all running
    code.
    """
    return len(stuck) + len(blocked) + len(idle) > originals.thread_count()


def frames_of_threads() -> dict[int, FrameType]:
    """Return the current frame of each OS thread, by its ident.

    On Python 3.11 a new frame object may start a collection, and that lets other threads run: a program of three busy
    schedulers then ended by a segmentation fault, or hung, within seconds. Without collections it did not.
    """
    if sys.version_info >= (3, 12):
        return sys._current_frames()
    enabled = gc.isenabled()
    gc.disable()
    try:
        return sys._current_frames()
    finally:
        if enabled:
            gc.enable()


def is_stuck(ident: int) -> bool:
    """Return whether a thread is stuck, with no wake or work on its way to it."""
    scheduler, thread = stuck.get(ident), blocked.get(ident)
    if scheduler is not None:
        return scheduler.selector is not None and not scheduler.selector.would_return()
    return bool(thread.parked) if thread is not None else ident in idle


def clear_marks() -> None:
    """Remove all marks, in a forked child, which has one thread."""
    global raising
    raising = originals.RLock()
    stuck.clear()
    blocked.clear()
    idle.clear()


def signal_could_wake() -> bool:
    """Return whether the program has a Python signal handler, which may wake a waiter."""
    ours = (signal.default_int_handler, signal.SIG_DFL, signal.SIG_IGN, None)
    for number in signal.valid_signals():
        handler = signal.getsignal(number)
        if handler not in ours and not getattr(handler, "of_dhaga", False):
            return True
    return False


def parked_main_code() -> Waiter | None:
    """Return the parked main code of the process, which gets the Deadlock."""
    ident = originals.main_thread().ident or 0
    scheduler = stuck.get(ident)
    return scheduler.main_waiter if scheduler is not None else blocked.get(ident)


def describe(victim: Waiter, schedulers: Iterable[Scheduler]) -> str:
    """Describe each waiter: its reason, its object, and that object's holder (a lock's repr names its owner)."""
    others: list[Waiter] = list(blocked.values())
    for scheduler in sorted(schedulers, key=lambda scheduler: scheduler.name):
        others += [] if scheduler.main_waiter is None else [scheduler.main_waiter]
        others += scheduler.in_order()
    others = [waiter for waiter in dict.fromkeys(others) if waiter is not victim]
    lines = ["every dhaga waits, and nothing in this process could wake one:"]
    lines += describe_waiter("main code", victim)
    for waiter in others[:MAX_DESCRIBED]:
        lines += describe_waiter(waiter.name, waiter)
    if len(others) > MAX_DESCRIBED:
        lines.append(f"  ... and {len(others) - MAX_DESCRIBED} more")
    lines += [f"  in a circle: {cycle}" for cycle in cycle_texts([victim, *others])]
    return "\n".join(lines)


def describe_waiter(name: str, waiter: Waiter) -> Iterable[str]:
    """Yield a line with a waiter's reason, and one with its place in the code. All are parked."""
    yield f"  {name}: {wait_text(waiter)}"
    position = place_of(waiter)
    if position:
        yield f"    at {position}"


def wait_text(waiter: Waiter) -> str:
    """Return a waiter's reason, and the object that it waits on."""
    reason = waiter.park_reason if waiter.parked else "not parked"
    target = waiter.waits_on
    return f"waits for {reason}" + (f" on {shortened(target)}" if target is not None else "")


def shortened(thing: object) -> str:
    """Return the repr of an object, cut to ``MAX_DESCRIBED`` characters; if repr() fails, the text names its error."""
    try:
        text = repr(thing)
    except Exception as error:
        text = f"<{type(thing).__name__}, whose repr fails: {type(error).__name__}>"
    return text if len(text) <= MAX_DESCRIBED else f"{text[:MAX_DESCRIBED]}..."
