"""The lap: how long the dhagas of a scheduler run before its event loop gets a turn, and the work before and after.

A *lap* is what the scheduler does between two turns of the loop. ``_lap``, a callback of the loop, polls for fds, fires
due timers and lets the dhagas run (``_run_lap`` of ``scheduler.py``, because that switches).
A lap is bounded, so that fds, timers and the loop's other callbacks get their turn. A switch counts ``_switches_left``
down; at 0 the *stretch* is over and the clock is read (``_lap_is_over``): every ``POLL_INTERVAL`` fds are polled, and
after ``LAP_SECONDS``, or at a due timer, the lap ends. If dhagas compute, a stretch is one switch
(``_adapt_clock_checks``).
At its end a lap arms the loop's timer, sets ``asleep`` and looks at the run queue again. A waker appends first and then
looks at the flag, so that one of the two sees the other; it calls ``wake_loop`` from its own thread.
Dhagas that are runnable then get another lap by ``call_soon``.
"""

from __future__ import annotations

import errno
import math
from collections import deque
from contextvars import Context
from sys import gettrace
from typing import TYPE_CHECKING, Any

from greenlet import getcurrent

from .. import hooks, originals
from ..interpreter.guards import fence
from ..interpreter.requirements import FREE_THREADED
from ..wait import deadlock
from .scheduler_state import SchedulerState

if TYPE_CHECKING:
    from ..wait.waiter import Waiter

# The number of switches between two reads of the clock. A read takes 45 ns, and the code around it about as long: 3 ns
# a switch.
SWITCHES_PER_CLOCK_CHECK = 32

# If switches take longer than this on average, dhagas compute, and the clock is read after each.
SLOW_SWITCH_SECONDS = 0.000_02

# A lap ends once it has taken this long. A turn of the asyncio loop costs about 15 µs, so at most 1.5 % goes there.
LAP_SECONDS = 0.001

# Seconds between two polls in a lap, each of 1 µs. A deadline that has passed by then ends the lap.
POLL_INTERVAL = 0.000_25

# A lap ends after this many stretches even if the clock stands still, as it does in tests.
CLOCK_CHECKS_PER_LAP = 128


class Lap(SchedulerState):
    """The part of a scheduler that begins, bounds and ends its laps."""

    __slots__ = ()

    def _init_lap(self) -> None:
        self._switches_left = self._uncounted_from = self._check_every = SWITCHES_PER_CLOCK_CHECK
        self._checks_left = CLOCK_CHECKS_PER_LAP
        # Infinite until main code or a lap begins.
        self._next_poll_at = self._lap_ends_at = math.inf
        self._checks_at_poll = 0
        # False while a lap is under way.
        self._lap_over = True
        self._full_laps = 0
        # The number of switches before the current stretch.
        self._counted_switches = 0
        self.laps: int = 0
        self._lap_began = 0.0
        self.busy_seconds: float = 0.0
        # A trace function was set when this lap began. The fast paths are not used then: coverage's trace function
        # notices a switch only by calls and returns of Python functions.
        self._traced = False

    # ---- from the loop and back to it

    def _lap(self, *_: object) -> None:
        """Poll, run the runnable dhagas, and return to the loop. From: the loop, on the hub."""
        self.asleep: bool = False
        try:
            self.poller.poll()
        except OSError as error:
            if error.errno not in (errno.EBADF, errno.EINVAL):
                raise
            # The program has closed it by its number, which another file may have by now.
            self.mode.end_failed_program(error)
        self._run()

    def _run(self) -> None:
        """Run the runnable dhagas, for one lap."""
        # A guest's host may run its loop in another greenlet than last time.
        self.hub: Any = getcurrent()
        # Read once: its listener takes itself off in another OS thread.
        on_lap = hooks.on_lap
        if on_lap is not None:
            on_lap()
        now = self.clock()
        if self.timers.fire(now):
            # A full batch may take as long as a lap, in which the woken dhagas would not run before the last batch.
            now = self.clock()
        # Not in each lap: if one turn fills a lap, the HIGH dhagas would starve.
        if self._full_laps == 2:
            self._prevent_starvation()
        if self._preempted:
            self._preempted.promote_starved()
        self._next_poll_at = now + POLL_INTERVAL
        self._lap_ends_at = now + LAP_SECONDS
        self._lap_began = now
        self._traced = gettrace() is not None
        self._switches_left = self._uncounted_from = self._check_every
        self._checks_left = self._checks_at_poll = CLOCK_CHECKS_PER_LAP
        self._run_lap(self.run_queue)
        self._end_lap()

    def _prevent_starvation(self) -> None:
        """Put one NORMAL and one LOW dhaga first in this lap."""
        self._full_laps = 0
        if self._high.waiters:
            self._high.promote_one_other()
        if self._low:
            self.run_queue.appendleft(self._low.popleft())

    def _run_lap(self, ready: deque[Any]) -> None:
        """Run the dhagas until the lap is over. The scheduler implements it, because it switches."""
        raise NotImplementedError

    def _end_lap(self) -> None:
        """End the lap: ask the loop for another one if something is runnable, else for one at the next deadline."""
        self._counted_switches += self._uncounted_from - self._switches_left
        self._uncounted_from = self._switches_left
        self.laps += 1
        self.busy_seconds += self.clock() - self._lap_began
        self._loop_timer.arm()
        self.asleep = True
        # Checked after setting the flag: earlier appends are seen here, later wakers see the flag.
        if FREE_THREADED:
            self.fence_queues()
        if self.count_runnable():
            self.asleep = False
            self.loop.call_soon(self._continue_lap, self.laps)
        if self.mode.is_over():
            self.loop.stop()
        # Last, as a guest's raises.
        self.mode.on_lap_end()

    def fence_queues(self) -> None:
        """Order the flag ``asleep`` before the look at the queues that other threads append to."""
        for queue in (self.run_queue, self._new_work, self._low):
            fence(queue)

    def _continue_lap(self, laps: int) -> None:
        """Run the lap that the last one asked for, unless another has run since, which has asked again.

        Events of fds, timers and awaited Tasks also run laps. When each of them led to one more lap in every turn of
        the loop, a turn took 90 laps after 3 busy seconds, and coroutines starved.
        """
        if laps == self.laps:
            self._lap()

    # ---- the stretches of a lap, and the decision that it is over

    def _lap_is_over(self) -> bool:
        """Read the clock after a stretch; if it is time, poll. Returns: True if the lap must end."""
        now = self.clock()
        self._checks_left -= 1
        self._counted_switches += self._uncounted_from - self._switches_left
        self._uncounted_from = self._switches_left
        if now >= self._next_poll_at or self._checks_left <= 0:
            self._adapt_clock_checks(now)
            if now >= self._lap_ends_at or self._checks_left <= 0:
                # Only laps that were cut short count: after two of them _prevent_starvation acts.
                self._full_laps += 1
                if self._new_work:
                    self._new_work.promote_starved()
                return True
            # Timers fire only at the start of a lap, on the hub.
            if self.timers.due(now):
                return True
            self.poller.poll()
        self._switches_left = self._uncounted_from = self._check_every
        return False

    def _end_stretch(self) -> None:
        """Make the next switch read the clock."""
        self._uncounted_from -= self._switches_left - 1
        self._switches_left = 1

    def _adapt_clock_checks(self, now: float) -> None:
        """Adapt the length of stretches to the pace since the last poll, and set the time of the next poll."""
        switches = (self._checks_at_poll - self._checks_left) * self._check_every
        self._check_every = (
            1 if now - self._next_poll_at + POLL_INTERVAL > switches * SLOW_SWITCH_SECONDS else SWITCHES_PER_CLOCK_CHECK
        )
        self._checks_at_poll = self._checks_left
        self._next_poll_at = now + POLL_INTERVAL

    def count_switches(self) -> int:
        """Return the number of switches to dhagas so far; seen from another thread a few may be missing."""
        return self._counted_switches + self._uncounted_from - self._switches_left

    def heartbeat(self) -> object:
        """Return a value that changes with each switch; None while no dhaga or main code runs. From: any thread."""
        if self.asleep or not self.thread_ident:
            return None
        return self.laps, self.count_switches()

    # ---- asking the loop for a lap

    def wake_loop(self) -> None:
        """Make a sleeping loop call ``_lap``. From: any thread, and signal handlers."""
        # It has ended, or its loop was closed without notice: there is nothing to wake.
        if not self.thread_ident or self.loop.is_closed():
            return
        # Before the call: of many wakes one writes to the pipe.
        self.asleep = False
        try:
            deadlock.unmark_stuck(self.thread_ident)
            self._post_lap()
        except BaseException:
            # A handler of a signal has raised here. Without a lap the loop would sleep on, and no later wake would call
            # this method; an extra lap is harmless.
            self._post_lap()
            raise

    def _post_lap(self) -> None:
        """Make the loop call ``_lap``. From: any thread."""
        try:
            if originals.get_ident() == self.thread_ident and not self._selecting():
                self.loop.call_soon(self._lap, context=Context())
            else:
                self.loop.call_soon_threadsafe(self._lap, context=Context())
        except RuntimeError:
            # The loop was closed in its thread after the check in wake_loop: there is nothing to wake.
            if not self.loop.is_closed():
                raise

    def wake_in_callback(self, waiter: Waiter) -> None:
        """Wake a waiter of this scheduler and run a lap here. From: a callback of its loop, but no Task's step.

        This saves a turn of the loop, and in a guest of the main thread also the write to its wake-up pipe.
        """
        if not self.asleep or not self.thread_ident:
            waiter.wake_parked()
        else:
            # Set first, so that the wake does not ask the loop for this lap.
            self.asleep = False
            waiter.wake_parked()
            self._run()

    def _selecting(self) -> bool:
        """Return whether the loop may be inside its select, or about to be: only a write ends that.

        A signal handler may run there, and a finalizer in any thread.
        """
        # A host's loop does not say.
        return self.selector is None or self.selector.selecting
