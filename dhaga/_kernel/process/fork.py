"""Handlers of forks. A forked child has one thread, in which at most one dhaga continues. All other dhagas count as
ended.

The code that forks is the main code of a thread, a dhaga, or a plain thread. In the child, main code and plain threads
get a new scheduler when they next need a scheduler. Main code in a block of a Timeout, a scope or a shield gets its new
scheduler at once. A dhaga cannot leave its greenlet. So a dhaga that has forked becomes the main code of a new
scheduler (``ForkedMode``), and the child process ends with this dhaga.
No line of another dhaga runs in the child, not even in a ``finally``. ``ended_schedulers`` keeps the greenlets of these
dhagas, because greenlet throws GreenletExit into a greenlet without references.
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
from ..run.handed_over import take_back_hand_overs
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
from .process_exit import end_daemons, end_process, ended_schedulers, join_dhagas, parkable_scheduler
from .signals import listen_for_signals, undelivered_interrupts

# The schedulers on which a caller is forking now, each with its former ``around_park`` hook and the PID of the parent.
diverted: dict[Scheduler, tuple[Any, int]] = {}


def watch_parks() -> None:
    """Keep the child from running the parent's dhagas until ``after_fork_in_child`` has run.

    From: a hook before a fork. Child hooks that were registered before the import of this package run before
    ``after_fork_in_child``, and might park.
    """
    scheduler = parkable_scheduler()
    if scheduler is not None and scheduler not in diverted:
        diverted[scheduler] = scheduler.around_park, originals.getpid()
        scheduler.around_park = park_in_fork_hook


def park_in_fork_hook(me: Any, switch_away: Callable[[], None]) -> None:
    """Switch away in the parent process. Raises: ParkError in the child."""
    former, pid = diverted[me.scheduler]
    if originals.getpid() == pid:
        switch_away() if former is None else former(me, switch_away)
        return
    ticket = me.parked
    # Main code undoes its own park.
    if not isinstance(me, Main) and ticket and me.undo_park():
        claim(ticket)
    raise ParkError(
        "a hook of the forked child cannot park before Dhaga has left the parent's dhagas behind:\n"
        "import dhaga before the module that calls os.register_at_fork()"
    )


def unwatch_parks() -> None:
    """Allow the parent's dhagas to run again. From: a hook in the parent after a fork."""
    scheduler = parkable_scheduler()
    if scheduler in diverted:
        scheduler.around_park, _ = diverted.pop(scheduler)


def after_fork_in_child() -> None:
    """Discard the parent's dhagas without running any of their code. The caller becomes the main code of the child."""
    survivor, main = getcurrent(), this_thread.main
    diverted.clear()
    # The parent's fds have no use in the child, so the child may close them.
    own_fds.clear()
    former = survivor.scheduler if isinstance(survivor, Dhaga) else None if main is None else main.scheduler
    # If a dhaga has forked, the main code never runs in the child.
    take_back_hand_overs((survivor, None if isinstance(survivor, Dhaga) else main, this_thread.thread))
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
    """In the child, mark a scheduler of the parent as ended: its dhagas never run again."""
    ended_schedulers.append(scheduler)
    scheduler.poller.abandon()
    scheduler.mode.mark_left_in_parent()
    if scheduler.selector is not None and scheduler.selector.wakeup_pipe is not None:
        scheduler.selector.wakeup_pipe.uninstall()
    scheduler.name = f"{scheduler.name}, left in the parent process,"
    if scheduler.main_waiter is not None:
        scheduler.main_waiter.parked.clear()
    for dhaga in scheduler.live - {survivor}:
        # The dhaga is now neither parked nor alive: a finalizer's wake does nothing, and a join raises LeftBehind.
        dhaga.parked.clear()
        dhaga._joiners.clear()
        dhaga._value = None
        dhaga._error = LeftBehind(f"{dhaga.name} stayed in the parent process: wait for it there")
        dhaga.has_ended = True


def continue_as_main(survivor: Dhaga) -> None:
    """Make a new scheduler for the dhaga that has forked. The process will end with this dhaga."""
    former = survivor.scheduler
    ForkedMode(Scheduler(f"child {os.getpid()}"), survivor)
    transfer_blocks(former, survivor, survivor)
    survivor._joiners[:] = [[ForkedMain(survivor)]]
    listen_for_signals(survivor.scheduler)


def has_open_blocks(caller: Any, scheduler: Scheduler) -> bool:
    """Return whether a caller is in a block of a Timeout, a scope or a shield."""
    pending = caller.pending_errors
    if isinstance(pending, PendingErrors) and (pending.scopes or pending.shields):
        return True
    return any(getattr(expiring, "_waiter", None) is caller for _, _, expiring in scheduler.timers.heap)


def transfer_blocks(former: Scheduler, caller: Any, successor: Any) -> None:
    """Copy the caller's Timeouts, scopes and shields to its successor."""
    timers = successor.scheduler.timers
    # Blocks that are entered from now on need higher numbers, so the sequence must continue.
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
    """A joiner of the dhaga that has become the main code of a forked child. At the end of the dhaga, the joiner is
    woken and ends the process.
    """

    __slots__ = ("survivor",)

    def __init__(self, survivor: Dhaga) -> None:
        self.survivor = survivor

    def deliver_wake(self, value: object = None, error: BaseException | None = None) -> None:
        # A new dhaga ends the process, because the survivor's greenlet is about to end.
        self.survivor.scheduler.spawn(end_child, self.survivor._error, name="end of the child", daemon=True)


def end_child(failure: BaseException | None) -> None:
    """End a forked child whose main code was a dhaga. First join the other dhagas, as at interpreter exit."""
    me: Any = getcurrent()
    mode = me.scheduler.mode
    mode.main = me
    # A SystemExit of the survivor does not interrupt the exit: the other dhagas are still joined.
    if isinstance(failure, SystemExit):
        mode.interrupted = None
    main_end.set()
    interruption = join_dhagas()
    with contextlib.suppress(BaseException):
        threading._shutdown()  # type: ignore[attr-defined]
        end_daemons()
    end_process(interruption if isinstance(interruption, SystemExit) else failure)


def call_child_hooks() -> None:
    """Call all hooks of a forked child. If a hook raises an error, log the error."""
    for hook in hooks.in_forked_child:
        try:
            hook()
        except Exception:
            logger.exception("in a forked child: %r", hook)


system.register_at_fork(before=watch_parks, after_in_parent=unwatch_parks, after_in_child=after_fork_in_child)
system.register_at_fork(after_in_child=call_child_hooks)
