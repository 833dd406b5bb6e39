"""Fork: the child keeps one thread, with one dhaga at most; all others stay in the parent and count as ended here.

The code that forks is the main code of a thread, a dhaga, or a plain thread. Main code and plain threads meet a new
scheduler in the child when they next need one. A dhaga cannot leave its greenlet: it becomes the main code of a new
scheduler (``ForkedMode``), and its end is the end of the process.
No line of another dhaga runs in the child, not even a ``finally``: their greenlets are kept for ever
(``ended_schedulers``), because dropping one would throw GreenletExit into it.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable
from heapq import heappush
from typing import Any

from greenlet import getcurrent

from .. import hooks, originals
from ..errors import LeftBehind, ParkError
from ..own_fds import own_fds
from ..platform.system import system
from ..run.attachment import schedulers
from ..run.main_code import Main
from ..run.microthread import Dhaga
from ..run.run_modes import ForkedMode
from ..run.scheduler import Scheduler
from ..run.uncaught import logger
from ..wait import deadlock
from ..wait.cancellation import PendingErrors
from ..wait.current import this_thread
from ..wait.thread_waiter import os_threads
from ..wait.waiter import claim
from ..weak_sets import members
from . import wakeup_detour
from .current_scheduler import implicit_scheduler
from .main_end import main_end
from .shutdown import end_daemons, end_process, ended_schedulers, join_dhagas, parkable_scheduler
from .signals import listen_for_signals, undelivered_interrupts

# The schedulers whose callers fork just now: their listeners of parks, and their processes.
diverted: dict[Scheduler, tuple[Any, int]] = {}


def watch_parks() -> None:
    """Before a fork: keep the child from running the parent's dhagas until ``after_fork_in_child``.

    Hooks of the child that were registered before the import of this package are called before ours.
    """
    scheduler = parkable_scheduler()
    if scheduler is not None and scheduler not in diverted:
        diverted[scheduler] = scheduler.around_park, originals.getpid()
        scheduler.around_park = park_in_fork_hook


def park_in_fork_hook(me: Any, switch_away: Callable[[], None]) -> None:
    """Switch away in the parent. Raises: ParkError in the child."""
    former, pid = diverted[me.scheduler]
    if originals.getpid() == pid:
        switch_away() if former is None else former(me, switch_away)
        return
    ticket = me.parked
    # Main code undoes its park itself.
    if not isinstance(me, Main) and ticket and me.undo_park():
        claim(ticket)
    raise ParkError(
        "a hook of the forked child cannot park before Dhaga has left the parent's dhagas behind:\n"
        "import dhaga before the module that calls os.register_at_fork()"
    )


def unwatch_parks() -> None:
    """After a fork, in the parent."""
    scheduler = parkable_scheduler()
    if scheduler in diverted:
        scheduler.around_park, _ = diverted.pop(scheduler)


def after_fork_in_child() -> None:
    """Drop the parent's dhagas without running any of their code; the caller becomes the main code of the child."""
    survivor, main = getcurrent(), this_thread.main
    diverted.clear()
    # Those of the parent are left over here, and may be closed.
    own_fds.clear()
    former = survivor.scheduler if isinstance(survivor, Dhaga) else None if main is None else main.scheduler
    for scheduler in schedulers:
        leave_in_parent(scheduler, survivor)
    schedulers.clear()
    undelivered_interrupts.clear()
    wakeup_detour.leave_in_parent()
    deadlock.clear_marks()
    for thread in members(os_threads):
        thread.parked.clear()
    this_thread.main = this_thread.guest = this_thread.thread = this_thread.thread_end = None
    this_thread.guests = {}
    if isinstance(survivor, Dhaga):
        continue_as_main(survivor)
    elif former is not None and main is not None and has_open_blocks(main, former):
        implicit_scheduler()
        transfer_blocks(former, main, this_thread.main)


def leave_in_parent(scheduler: Scheduler, survivor: Any) -> None:
    """Turn the parent's scheduler, in the child, into one that has ended: its parked dhagas are never woken."""
    ended_schedulers.append(scheduler)
    scheduler.poller.abandon()
    scheduler.mode.mark_left_in_parent()
    if scheduler.selector is not None and scheduler.selector.wakeup_pipe is not None:
        scheduler.selector.wakeup_pipe.uninstall()
    scheduler.name = f"{scheduler.name}, left in the parent process,"
    if scheduler.main_waiter is not None:
        scheduler.main_waiter.parked.clear()
    for dhaga in scheduler.live - {survivor}:
        # Now neither parked nor alive: a wake by a finalizer is a no-op, and a join raises LeftBehind.
        dhaga.parked.clear()
        dhaga._joiners.clear()
        dhaga._value = None
        dhaga._error = LeftBehind(f"{dhaga.name} stayed in the parent process: wait for it there")
        dhaga.has_ended = True


def continue_as_main(survivor: Dhaga) -> None:
    """Give the dhaga that forked a scheduler of its own; the process ends with it."""
    former = survivor.scheduler
    ForkedMode(Scheduler(f"child {os.getpid()}"), survivor)
    transfer_blocks(former, survivor, survivor)
    survivor._joiners[:] = [[ForkedMain(survivor)]]
    listen_for_signals(survivor.scheduler)


def has_open_blocks(caller: Any, scheduler: Scheduler) -> bool:
    """Return whether a caller is within Timeouts, scopes or shields."""
    pending = caller.pending_errors
    if isinstance(pending, PendingErrors) and (pending.scopes or pending.shields):
        return True
    return any(getattr(expiring, "_waiter", None) is caller for _, _, expiring in scheduler.timers.heap)


def transfer_blocks(former: Scheduler, caller: Any, successor: Any) -> None:
    """Copy the caller's Timeouts, scopes and shields to its successor."""
    timers = successor.scheduler.timers
    # The numbers tell which block was entered first, so the sequence must continue.
    timers.sequence = former.timers.sequence
    for entry in former.timers.heap:
        if getattr(entry[2], "_waiter", None) is caller:
            entry[2]._waiter = successor
            heappush(timers.heap, entry)
    if isinstance(caller.pending_errors, PendingErrors):
        successor.pending_errors = caller.pending_errors
        for scope in successor.pending_errors.scopes:
            scope._waiter = successor


class ForkedMain:
    """Joiner of a dhaga that has become the main code of a forked child. When that dhaga ends, the joiner is woken and
    ends the process.
    """

    __slots__ = ("survivor",)

    def __init__(self, survivor: Dhaga) -> None:
        self.survivor = survivor

    def deliver_wake(self, value: object = None, error: BaseException | None = None) -> None:
        # In a new dhaga, because the survivor's own greenlet is about to end.
        self.survivor.scheduler.spawn(end_child, self.survivor._error, name="end of the child", daemon=True)


def end_child(failure: BaseException | None) -> None:
    """End a forked child whose code went on in a dhaga. The exit waits for its other dhagas, as at interpreter exit."""
    me: Any = getcurrent()
    mode = me.scheduler.mode
    mode.main = me
    # A SystemExit that ended the survivor does not interrupt the exit: the others are still joined.
    if isinstance(failure, SystemExit):
        mode.interrupted = None
    main_end.set()
    interruption = join_dhagas()
    with contextlib.suppress(BaseException):
        threading._shutdown()  # type: ignore[attr-defined]
        end_daemons()
    end_process(interruption if isinstance(interruption, SystemExit) else failure)


def call_child_hooks() -> None:
    """Call the hooks of a forked child; an error of one is logged, and the next is called."""
    for hook in hooks.in_forked_child:
        try:
            hook()
        except Exception:
            logger.exception("in a forked child: %r", hook)


system.register_at_fork(before=watch_parks, after_in_parent=unwatch_parks, after_in_child=after_fork_in_child)
system.register_at_fork(after_in_child=call_child_hooks)
