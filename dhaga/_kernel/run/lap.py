"""The lap: the period in which a scheduler runs its dhagas, between two turns of its event loop.

The loop calls ``_lap``, which polls the fds, fires due timers and runs the runnable dhagas. (The part that switches,
``_run_lap``, is in ``scheduler.py``.)
A lap is bounded, so that fds, timers and the loop's other callbacks get their turn. A lap consists of *stretches*: each
switch decrements ``_switches_left``, and at 0 the stretch is over. The clock is then read (``_lap_is_over``). The fds
are polled every ``POLL_INTERVAL``, and the lap ends after ``LAP_SECONDS`` or at a due timer. If the dhagas compute, a
stretch is a single switch (``_adapt_clock_checks``).
At its end a lap arms the loop's timer, sets ``asleep`` and checks the run queues again. A waker first appends to a run
queue and then checks ``asleep``. So either the lap sees the new entry, or the waker sees the flag. If ``asleep`` is
set, the waker calls ``wake_loop`` from its own thread. If the lap finds a runnable entry, it schedules another lap with
``call_soon``.
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

# The number of switches between two reads of the clock. A read takes 45 ns, and the code around it takes about as long.
# Together they add 3 ns to each switch.
SWITCHES_PER_CLOCK_CHECK = 32

# If the time from switch to switch is longer than this on average, the clock is read after each switch.
SLOW_SWITCH_SECONDS = 0.000_02

# The time after which a lap ends. A turn of the asyncio loop costs about 15 µs, which is 1.5 % of a lap that takes this
# long.
LAP_SECONDS = 0.001

# Seconds between two polls in a lap. A poll takes 1 µs. If a timer is due at the time of a poll, the lap ends instead.
POLL_INTERVAL = 0.000_25

# A lap ends after this many stretches even if the clock stands still, as it does in tests.
CLOCK_CHECKS_PER_LAP = 128


class Lap(SchedulerState):
    """The part of a scheduler that begins, bounds and ends its laps."""

    __slots__ = ()

    def _init_lap(self) -> None:
        self._switches_left = self._uncounted_from = self._check_every = SWITCHES_PER_CLOCK_CHECK
        self._checks_left = CLOCK_CHECKS_PER_LAP
        # Infinite until the scheduler is attached to a thread.
        self._next_poll_at = self._lap_ends_at = math.inf
        self._checks_at_poll = 0
        # True while no lap runs.
        self._lap_over = True
        self._full_laps = 0
        # The number of switches before the current stretch.
        self._counted_switches = 0
        self.laps: int = 0
        self._lap_began = 0.0
        # The end of the scheduler's last idle moment: the beginning of the first lap after a lap that left nothing
        # runnable. Infinite between these two laps.
        self._busy_since = math.inf
        self.busy_seconds: float = 0.0
        # Whether a trace function was set when this lap began. If so, the compiled functions are not used: coverage's
        # trace function detects a switch only from calls and returns of Python functions.
        self._traced = False

    # ---- from the loop and back to it

    def _lap(self, *_: object) -> None:
        """Poll, run the runnable dhagas, and return to the loop. From: the loop, on the hub."""
        self.asleep: bool = False
        try:
            self._poll()
            self._run()
        except BaseException:
            # A signal handler or an excepthook has raised here. The error has ended the lap early: without another
            # lap the scheduler would stay awake, so that no wake would call wake_loop.
            pause = self.mode.pause_after_failure()
            if pause:
                self.loop.call_later(pause, self._retry_lap, context=Context())
            else:
                self._post_lap()
            raise

    def _retry_lap(self) -> None:
        """Run the lap after a failed one, unless the scheduler has been detached meanwhile."""
        if self.thread_ident:
            self._lap()

    def _poll(self) -> None:
        try:
            self.poller.poll()
        except OSError as error:
            if error.errno not in (errno.EBADF, errno.EINVAL):
                raise
            # The program has closed the poller's fd by its number, which may refer to another file now.
            self.mode.end_failed_program(error)

    def _run(self) -> None:
        """Run the runnable dhagas, for one lap."""
        # In guest mode, the host may run its loop in another greenlet than at the last lap.
        self.hub: Any = getcurrent()
        # The hook is read only once, because the listener may unset it in another OS thread.
        on_lap = hooks.on_lap
        if on_lap is not None:
            on_lap()
        now = self.clock()
        if self.timers.fire(now):
            # A full batch of timers may take as long as a lap. Without a new ``now``, each lap would end right after
            # its batch, and the woken dhagas would run only after the last batch.
            now = self.clock()
        # LOW and NORMAL dhagas are moved only once in two full laps. A single turn of a moved dhaga may fill a lap: if
        # each lap moved one, the HIGH dhagas would starve.
        if self._full_laps == 2:
            self._prevent_starvation()
        if self._preempted:
            self._preempted.promote_starved()
        self._next_poll_at = now + POLL_INTERVAL
        self._lap_ends_at = now + LAP_SECONDS
        self._lap_began = now
        if self._busy_since == math.inf:
            self._busy_since = now
        self._traced = gettrace() is not None
        self._switches_left = self._uncounted_from = self._check_every
        self._checks_left = self._checks_at_poll = CLOCK_CHECKS_PER_LAP
        self._run_lap(self.run_queue)
        self._end_lap()

    def _prevent_starvation(self) -> None:
        """Move one NORMAL and one LOW dhaga to the head of the run queue."""
        self._full_laps = 0
        if self._high.waiters:
            self._high.promote_one_other()
        if self._low:
            self.run_queue.appendleft(self._low.popleft())

    def _run_lap(self, ready: deque[Any]) -> None:
        """Run the dhagas until the lap is over. ``Scheduler`` implements this, because only its module switches."""
        raise NotImplementedError

    def _end_lap(self) -> None:
        """End the lap, and schedule the next one: at once if an entry is runnable, else at the next deadline."""
        self._counted_switches += self._uncounted_from - self._switches_left
        self._uncounted_from = self._switches_left
        self.laps += 1
        self.busy_seconds += self.clock() - self._lap_began
        self._loop_timer.arm()
        self.asleep = True
        # Check the queues after setting the flag: this check sees earlier appends, and later wakers see the flag.
        if FREE_THREADED:
            self.fence_queues()
        if self.count_runnable():
            self.asleep = False
            self.loop.call_soon(self._continue_lap, self.laps)
        else:
            self._busy_since = math.inf
        if self.mode.is_over():
            self.loop.stop()
        # This method is called last, because in GuestMode it may raise.
        self.mode.on_lap_end()

    def fence_queues(self) -> None:
        """Order the write of ``asleep`` before the following reads of the queues that other threads append to."""
        for queue in (self.run_queue, self._new_work, self._low):
            fence(queue)

    def _continue_lap(self, laps: int) -> None:
        """Run the lap that the last lap scheduled. No-op if another lap has run since and has scheduled the next one.

        Events of fds, timers and awaited Tasks also start laps. In a version where each of these laps scheduled another
        lap, a turn of the loop contained 90 laps after 3 busy seconds, and coroutines starved.
        """
        if laps == self.laps:
            self._lap()

    # ---- the stretches of a lap, and the decision that it is over

    def _lap_is_over(self) -> bool:
        """Read the clock after a stretch, and poll the fds if a poll is due. Returns: True if the lap must end."""
        now = self.clock()
        self._checks_left -= 1
        self._counted_switches += self._uncounted_from - self._switches_left
        self._uncounted_from = self._switches_left
        if now >= self._next_poll_at or self._checks_left <= 0:
            self._adapt_clock_checks(now)
            if now >= self._lap_ends_at or self._checks_left <= 0:
                # Only laps that reach their limit are counted: after two of them, _prevent_starvation is called.
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
        """Adapt the length of stretches to the rate of switches since the last poll, and set the next poll's time."""
        switches = (self._checks_at_poll - self._checks_left) * self._check_every
        self._check_every = (
            1 if now - self._next_poll_at + POLL_INTERVAL > switches * SLOW_SWITCH_SECONDS else SWITCHES_PER_CLOCK_CHECK
        )
        self._checks_at_poll = self._checks_left
        self._next_poll_at = now + POLL_INTERVAL

    def count_switches(self) -> int:
        """Return the number of switches so far. From another thread, the last few switches may be missing."""
        return self._counted_switches + self._uncounted_from - self._switches_left

    def heartbeat(self) -> object:
        """Return a value that changes with each switch. From: any thread.

        Returns: None while neither dhagas nor main code run.
        """
        if self.asleep or not self.thread_ident:
            return None
        return self.laps, self.count_switches()

    # ---- asking the loop for a lap

    def wake_loop(self) -> None:
        """Wake a sleeping loop, so that it calls ``_lap``. From: any thread, a signal handler."""
        # The scheduler has ended, or its loop was closed without notice: there is nothing to wake.
        if not self.thread_ident or self.loop.is_closed():
            return
        # Clear the flag before the call, so that only one of many wakes writes to the pipe.
        self.asleep = False
        try:
            deadlock.unmark_stuck(self.thread_ident)
            self._post_lap()
        except BaseException:
            # A signal handler has raised here, perhaps before the lap was scheduled. Without a lap the loop would sleep
            # on: the flag is cleared, so no later wake would call this method. An extra lap is harmless.
            self._post_lap()
            raise

    def _post_lap(self) -> None:
        """Schedule a call of ``_lap`` by the loop. From: any thread."""
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
        """Wake a waiter of this scheduler and run a lap at once. From: a callback of the loop, but not a Task's step.

        The immediate lap saves a turn of the loop. On a host's loop it also saves a write to the loop's wake-up pipe.
        """
        if not self.asleep or not self.thread_ident:
            waiter.wake_parked()
        else:
            # The flag is cleared first, so that the wake does not schedule another lap.
            self.asleep = False
            waiter.wake_parked()
            try:
                self._run()
            except BaseException:  # as in _lap
                self._post_lap()
                raise

    def _selecting(self) -> bool:
        """Return whether the loop may be inside its ``select``, or about to enter it. In this state, only a write wakes
        the loop.

        The caller may be a signal handler, or a finalizer in any thread.
        """
        # A host's loop does not report this.
        return self.selector is None or self.selector.selecting
