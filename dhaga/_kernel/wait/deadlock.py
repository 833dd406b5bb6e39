"""Deadlock detection: checks whether any event in this process could still wake a waiter, and reports a deadlock.

A scheduler that runs its own loop checks for a deadlock before it sleeps without a deadline. The scheduler is stuck for
good when all of these conditions hold:

- no dhaga is runnable, and no timer is armed in the scheduler's heap or in the loop;
- no waiter is parked on a file descriptor, and the program has added no handler of its own to the loop;
- no waiter and no Task of the loop waits for a Future that code outside Dhaga may end (``mark_own``);
- no call is under way in an offload thread, and the program has no Python signal handler that could wake a waiter;
- every other OS thread is also stuck. A thread is stuck if its scheduler is stuck and its loop has no new callback, if
  the thread is blocked without a timeout on one of Dhaga's objects, or if it is an idle helper thread. Any other live
  thread could still wake a waiter, because Dhaga does not know which objects the thread can reach. The same applies to
  a thread that was created but has not begun to run. Dhaga then reports nothing, and checks again every
  ``RECHECK_SECONDS``, because a thread may end without notice.

A guest scheduler never reports a deadlock, because its host may always have more work. A plain OS thread never reports
a deadlock either. Dhaga does not detect a thread of C code that has not called Python yet. Although such a thread could
wake a waiter, Dhaga raises a Deadlock, unless a waiter waits for a Future.
Each thread sets its own mark (``stuck``, ``blocked``, ``idle``) before it sleeps. The thread, or the code that wakes
the thread, removes the mark. No lock is used: ``version`` grows with each change that matters. A scheduler reads the
marks one by one. If ``version`` has grown meanwhile, the marks may not have been set at the same moment, and the
scheduler starts again.
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

# Seconds between two checks while another thread lives. A check takes 0.1 to 0.2 ms, mostly for the signal handlers.
RECHECK_SECONDS = 1.0

# The waits of more dhagas than this are not checked before each sleep, because a check takes 0.1 µs for each dhaga.
MAX_CHEAP_LOOK = 1000

# The maximum number of dhagas in a report, and the maximum length of an object's repr in the report.
MAX_DESCRIBED = 100

# Plain OS threads that Dhaga has blocked without a timeout, by thread ident.
blocked: dict[int, OSThread] = {}

# Sleeping schedulers that only other threads could still wake, by thread ident.
stuck: dict[int, Scheduler] = {}

# Idents of Dhaga's helper threads that wait for work.
idle: set[int] = set()

# The lock held while a Deadlock is raised. The lock is re-entrant, because a repr in the text may run a finalizer that
# waits.
raising = originals.RLock()

next_version = itertools.count(1).__next__
# The version grows before every entry into ``stuck``, ``blocked`` and ``idle``, and after every removal from ``stuck``
# and ``blocked``. A thread that wakes another thread, or gives work to another thread, does so before it sets its own
# mark. A check that sees the new mark together with an older state of the other thread is repeated.
version = 0


# The number of OS threads that had not begun in Python at the last check, and the time when this number last grew.
unbegun = 0
unbegun_since = 0.0


def bump_version() -> None:
    """Increment the version. From: the functions that change marks."""
    global version
    version = next_version()


class DeadlockWatch:
    """The deadlock check of one scheduler, made whenever its loop is about to sleep without a deadline."""

    def __init__(self, scheduler: Scheduler, schedulers: Collection[Scheduler]) -> None:
        self.scheduler = scheduler
        self.schedulers = schedulers
        # The earliest time of the next check of the fds and Futures, if that check is costly.
        self.next_costly_look: float = 0.0

    def begin(self) -> float | None:
        """Check for a deadlock before the sleep.

        Returns: the seconds until the next check; 0 if the main code has just got a Deadlock; None to sleep without a
        limit.
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
        # Without dhagas and main code, a scheduler only sets its mark, and other threads make the check.
        if not self.scheduler.live and self.scheduler.main_waiter is None:
            return None
        # The version is read a second time, because a thread may have begun in between.
        if not (version_when_stuck() and all_begun() and (found_at := version_when_stuck())):
            return RECHECK_SECONDS
        raise_in_main_code(list(self.schedulers), found_at)
        return 0 if self.scheduler.count_runnable() else None

    def end(self) -> None:
        """Remove the scheduler's mark after the sleep."""
        unmark_stuck(self.scheduler.thread_ident)

    def could_be_stuck(self) -> bool:
        """Return whether the scheduler has no runnable dhaga, no handler of the program, and no call in another thread.

        Waiters parked on fds are not checked.
        """
        scheduler = self.scheduler
        return bool(
            not scheduler.count_runnable()
            and scheduler.selector is not None
            and scheduler.selector.only_own_fds()
            and not scheduler.outside_calls
        )

    def awaits_open_future(self) -> bool:
        """Return whether a waiter or a Task of the loop waits for a Future that code outside Dhaga may end. O(n).

        A private attribute of asyncio's Task names the awaited Future. A Task of another class, without this attribute,
        counts as waiting for such a Future.
        """
        scheduler = self.scheduler
        return (
            any(is_open(waiter.waits_on) for waiter in list(scheduler.live))
            or (scheduler.main_waiter is not None and is_open(scheduler.main_waiter.waits_on))
            or any(is_open(getattr(task, "_fut_waiter", task)) for task in asyncio.all_tasks(scheduler.loop))
        )


def mark_own(future: Any) -> None:
    """Mark an asyncio Future that only this package completes. A wait for such a Future does not prevent a Deadlock."""
    future.ended_by_dhaga = True


def is_open(target: object) -> bool:
    """Return whether the target of a wait is a Future that code outside Dhaga may end. Tasks are checked elsewhere."""
    return asyncio.isfuture(target) and not (isinstance(target, asyncio.Task) or hasattr(target, "ended_by_dhaga"))


def raise_in_main_code(schedulers: Collection[Scheduler], found_at: int) -> None:
    """Raise a Deadlock at the park of the main code, if the main code is parked and has not received one yet.

    Two schedulers that fall asleep at the same time may both find the deadlock. Before the second call of this
    function, the main code may have continued and parked again. In that case ``version`` has grown.
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
        # If the park cannot be undone (for a lock after Condition.wait), the main code waits forever: only a log line
        # is possible.
        if error in victim.pending_errors:
            logger.error("%s", error)


def mark_blocked(thread: OSThread) -> None:
    """Mark a plain thread that blocks without a timeout, and make stuck schedulers check again."""
    bump_version()
    blocked[thread.ident] = thread
    for scheduler in list(stuck.values()):
        scheduler.wake_loop()


def unmark_blocked(thread: OSThread) -> None:
    """Remove the mark of a plain thread that no longer blocks."""
    blocked.pop(thread.ident, None)
    bump_version()


def mark_stuck(ident: int, scheduler: Scheduler) -> None:
    """Mark a scheduler that only other threads could still wake."""
    bump_version()
    stuck[ident] = scheduler


def unmark_stuck(ident: int) -> None:
    """Remove a scheduler's mark, because its loop is woken or its sleep is over."""
    if stuck.pop(ident, None) is not None:
        bump_version()


def mark_idle(ident: int) -> None:
    """Mark a helper thread that waits for work. Code that gives the thread work first removes this mark."""
    bump_version()
    idle.add(ident)


def version_when_stuck() -> int:
    """Return the version at which the process is stuck; 0 if it is not stuck. From: a thread that has set its mark."""
    former = -1
    # During the check, a thread may wake another thread that was found stuck, and then become stuck itself.
    while former != version:
        former = version
        if not all_listed() or not all(map(is_stuck, frames_of_threads())) or signal_could_wake():
            return 0
    return former


def all_begun() -> bool:
    """Return whether each OS thread has begun in Python. After ``RECHECK_SECONDS``, a thread that has not begun counts
    as a thread of C code.

    Python does not count a thread that was just made. Such a thread is detected only on Linux.
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
    """Return whether there are at least as many marks as threads.

    This cheap check comes before ``frames_of_threads``, which makes frame objects of all running code.
    """
    return len(stuck) + len(blocked) + len(idle) > originals.thread_count()


def frames_of_threads() -> dict[int, FrameType]:
    """Return each OS thread's current frame, by the thread's ident.

    On Python 3.11 a new frame object may start a garbage collection, during which other threads run. As a result, a
    program with three busy schedulers crashed with a segmentation fault, or hung, within seconds. With collections
    switched off, the program ran.
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
    """Return whether a thread is stuck, and no wake or work is on the way to the thread."""
    scheduler, thread = stuck.get(ident), blocked.get(ident)
    if scheduler is not None:
        return scheduler.selector is not None and not scheduler.selector.would_return()
    return bool(thread.parked) if thread is not None else ident in idle


def clear_marks() -> None:
    """Remove all marks, and replace the lock. From: a forked child, which has only one thread."""
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
    """Return the main thread's waiter, which gets the Deadlock; None if the thread is not marked."""
    ident = originals.main_thread().ident or 0
    scheduler = stuck.get(ident)
    return scheduler.main_waiter if scheduler is not None else blocked.get(ident)


def describe(victim: Waiter, schedulers: Iterable[Scheduler]) -> str:
    """Return the text of a Deadlock: each waiter's reason and object. The object's repr names its holder."""
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
    """Yield a line with a waiter's reason, and a line with its place in the code."""
    yield f"  {name}: {wait_text(waiter)}"
    position = place_of(waiter)
    if position:
        yield f"    at {position}"


def wait_text(waiter: Waiter) -> str:
    """Return a waiter's reason and the awaited object, as text."""
    reason = waiter.park_reason if waiter.parked else "not parked"
    target = waiter.waits_on
    return f"waits for {reason}" + (f" on {shortened(target)}" if target is not None else "")


def shortened(thing: object) -> str:
    """Return the repr of an object, cut to ``MAX_DESCRIBED`` characters; if repr() fails, return the error's name."""
    try:
        text = repr(thing)
    except Exception as error:
        text = f"<{type(thing).__name__}, whose repr fails: {type(error).__name__}>"
    return text if len(text) <= MAX_DESCRIBED else f"{text[:MAX_DESCRIBED]}..."
