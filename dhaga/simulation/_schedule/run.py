"""A run: its members (dhagas and others) and its events. The run asks the chooser who runs next.

The run queue, which asks the run, is in ``simulated_queue``.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from typing import Any

from greenlet import getcurrent

from ..._kernel.errors import Deadlock
from ..._kernel.process.virtual_clock import VirtualClock
from ..._kernel.run.run_queues import LowQueue
from ..._kernel.run.scheduler import Scheduler
from .._base.errors import HostKilled, LimitReached, Stopped
from .._base.pause import pause
from .events import FD, Log, Shown
from .members import CLOCK, Member, Members, waiter_behind
from .source_line import SourceLine, last_line_of
from .strategies import Chooser
from .switches import Switch

YIELDS_BEFORE_JUMP = 1000
"""The number of consecutive yields, per runnable dhaga, after which the clock moves: the dhagas seem to poll."""

EVENTS_PER_COLLECTION = 20_000
"""The number of events between garbage collections. The interpreter itself would collect at varying moments."""


kept_for_good: list[Any] = []
"""The dhagas of killed hosts. They are kept because freeing a dhaga would run its ``finally`` blocks."""


class Failure:
    """The failure of a run: the error, and the member in which the error occurred."""

    def __init__(self, error: BaseException, member: Member) -> None:
        self.error = error
        self.member = member

    @property
    def kind(self) -> str:
        """The name of the error's class. Failures with the same name count as equal."""
        return type(self.error).__name__


class Run:
    """One run of a seed. ``running``: the member that runs, or, between two turns, the member that ran last."""

    scheduler: Scheduler

    def __init__(
        self, chooser: Chooser, clock: VirtualClock, log: Log, max_events: int, max_seconds: float, stalls: float = 0.0
    ) -> None:
        self.chooser = chooser
        self.clock = clock
        self.log = log
        self.next_collection = EVENTS_PER_COLLECTION  # as a number of events
        self.max_events = max_events
        self.max_seconds = max_seconds
        self.began_at = clock.now
        self.ends_at = clock.now + max_seconds
        self.stall_seconds_left = stalls
        self.members = Members()
        chooser.clock = self.members.clock
        self.switches: list[Switch] = []
        # If lines are kept: for each switch, the number of lines before the switch, and the line before which a member
        # is preempted.
        self.marks: list[tuple[int, str, int]] = []
        self.lines: Sequence[Any] | None = None
        self.point = SourceLine("", 0)
        # The running task of each thread whose asyncio loop runs tasks in drawn order.
        self.tasks: dict[Member, Member] = {}
        self.faults: list[Any] = []
        self.invariants: list[Callable[[], object]] = []
        self.failure: Failure | None = None
        self.over = False
        self.yields = 0
        self.points_before = 0
        self.has_yielded = False
        self.forced: Member | None = None
        self.dead: set[Any] = set()
        # The offload pool of each dhaga that simulates a thread of a pool.
        self.pool_of: dict[Any, Any] = {}
        self.threads: list[Any] = []
        # Why the running member stops at a point, and the line before which it stops.
        self.stop: tuple[str, SourceLine] | None = None
        self.waiter: Any = None
        # The ticket (a list that identifies a park) of the waiter's last park before its turn.
        self.ticket: Any = None
        # A function that returns the time of the next event on the network.
        self.next_moment: Callable[[], float | None] = lambda: None
        # A function that returns the addresses of the socket that has an fd, for the report.
        self.name_of_fd: Callable[[int], str] = lambda fd: ""
        # The paused hosts, the queue of dhagas with LOW priority, and the pauses that will begin at a point.
        self.pauses: Any = None
        self.low: Any = None
        self.strikes: list[Any] = []
        self.has_points = False

    def begin(self, scheduler: Scheduler) -> None:
        """Bind the run to its scheduler. The main code becomes the first member, and is running."""
        self.scheduler = scheduler
        self.waiter = scheduler.main_waiter
        self.running = self.members.of(self.waiter)
        self.running.ran_at = self.clock.now

    # ---- calls of the run queue

    def note_ready(self, entry: Any) -> Member:
        """Note that an entry was put into the run queue. Returns: the member that the entry makes ready."""
        waiter = waiter_behind(entry, -1)
        member = self.members.of(waiter)
        if self.yields_now(waiter):
            self.has_yielded = True
            self.chooser.has_yielded(member)
        self.chooser.became_ready(member)
        return member

    def yields_now(self, waiter: Any) -> bool:
        """Return whether a waiter that becomes ready is running now, which means that it yields."""
        return waiter is self.waiter and getcurrent() is getattr(waiter, "own_greenlet", waiter)

    def next_index(self, ready: list[Member]) -> int:
        """Return the index of the ready member that runs next."""
        forced, self.forced = self.forced, None
        if forced is not None and forced in ready:
            return ready.index(forced)
        return self.choose(self.running, ready)

    def choose(self, parked: Member, ready: list[Member]) -> int:
        """Return the index of the ready member that runs after ``parked`` has parked."""
        parked.parks += 1
        index = self.chooser.next_of(parked, ready) if len(ready) > 1 else 0
        if index:
            self.add_switch(Switch(parked.number, False, parked.parks, ready[index].number))
        return index

    def note_task(self, last: Member, why: str, following: Member) -> None:
        """Note that a task of the running thread's asyncio loop begins to run."""
        self.log.add(self.clock.now, last.number, why, following.number)
        self.tasks[self.running] = following
        if self.log.count >= self.max_events:
            self.fail_limit(f"{self.max_events:,} events")

    def shown(self) -> Member:
        """Return the member that reports show beside a line: the running member, or the task that its loop runs."""
        return self.tasks.get(self.running, self.running)

    def add_switch(self, switch: Switch) -> None:
        """Record a switch, which is a decision that differs from FIFO."""
        self.switches.append(switch)
        if self.lines is not None:
            self.marks.append((len(self.lines), *(self.point if switch.preempts else ("", 0))))

    def note_switch(self, member: Member, waiter: Any) -> None:
        """Note that a member begins to run."""
        what, shown = self.reason()
        if self.failure is None and not self.over:
            self.log.add(self.clock.now, self.running.number, what, member.number, shown, self.running.ran_at)
        self.running, self.waiter = member, waiter
        self.ticket = getattr(waiter, "parked", None)
        self.points_before = member.points
        if self.lines and getattr(waiter, "wait_timed_out", False):
            waited = f"has timed out after {self.clock.now - member.ran_at:g} s"
            self.log.remark(self.clock.now, member.number, self.with_line(waited))
        member.ran_at = self.clock.now
        if self.log.count >= self.max_events:
            self.fail_limit(f"{self.max_events:,} events")
        if self.log.count >= self.next_collection:
            self.next_collection = self.log.count + EVENTS_PER_COLLECTION
            gc.collect()
        for invariant in self.invariants:
            self.check(invariant)

    def with_line(self, shown: Shown) -> Shown:
        """Return a text about the running member, with the member's last line appended if that line is known."""
        line = last_line_of(self.shown(), self.lines) if self.lines else None
        return shown if line is None else (*((shown,) if isinstance(shown, str) else shown), ": ", line)

    def tell(self, name: str, what: str, shown: Shown | None = None) -> None:
        """Add an event of a part of the simulation, such as ``the network``. ``shown``: the event's text in reports."""
        member = self.members.of_name(name)
        if self.failure is None and not self.over:
            self.log.add(self.clock.now, member.number, what, shown=shown)

    def remark(self, name: str, shown: Shown) -> None:
        """Add a text about a part of the simulation. Only reports show this text."""
        if self.failure is None and not self.over:
            self.log.remark(self.clock.now, self.members.of_name(name).number, shown)

    def reason(self) -> tuple[str, Shown]:
        """Return two texts about why the running member stops: one for the event, and one for reports."""
        stop, self.stop = self.stop, None
        yielded, self.has_yielded = self.has_yielded, False
        if stop is not None:
            what = f"{stop[0]}{stop[1].where}"
            return what, stop if self.lines else what
        if yielded:
            self.count_yield()
            return "yields", "yields"
        self.yields = 0
        waiter = self.waiter
        if getattr(waiter, "has_ended", False):
            return "ends", "ends"
        if not hasattr(waiter, "park_reason"):
            return "is called", "is called"
        # Some yields are not parks. After such a yield, the ticket and the reason are still those of an earlier park.
        what = f"waits for {waiter.park_reason if waiter.parked is not self.ticket else 'sleep'}"
        if not self.lines:
            return what, what
        fd = FD.search(what)
        name = self.name_of_fd(int(fd[1])) if fd else ""
        return what, self.with_line(f"{what} ({name})" if name else what)

    def count_yield(self) -> None:
        """Count a yield. If all runnable dhagas seem to poll for a deadline, move the clock to the next deadline."""
        self.yields += 1
        if self.yields > YIELDS_BEFORE_JUMP * (1 + len(self.scheduler.run_queue)):
            self.yields = 0
            self.clock.now = max(self.clock.now, self.next_deadline() or self.clock.now)

    def next_deadline(self) -> float | None:
        """Return the time of the next timer or network event, or None if there is neither."""
        moments = [self.scheduler.timers.next_deadline(), self.next_moment()]
        return min((moment for moment in moments if moment is not None), default=None)

    # ---- points

    def choices(self, ready: list[Member]) -> list[Member]:
        """Return ``ready``, with the clock added if the remaining stall time lasts until the next deadline."""
        if not self.chooser.stalls:
            return ready
        deadline = self.next_deadline()
        if deadline is None or not 0 < deadline - self.clock.now <= self.stall_seconds_left:
            return ready
        return [*ready, self.members.clock]

    def stall(self, me: Any, place: SourceLine) -> None:
        """Delay the caller at a point until the next deadline, while other members run."""
        deadline = self.next_deadline()
        assert deadline is not None
        seconds = deadline - self.clock.now
        self.stall_seconds_left -= seconds
        self.add_switch(Switch(self.running.number, True, self.running.points, CLOCK))
        self.stop = f"stands still for {seconds:g} s before ", place
        pause(self.scheduler, me, seconds, "the clock")

    def preempt(self, me: Any, ready: list[Member], index: int, place: SourceLine) -> None:
        """Switch from the caller to another member, at a point."""
        self.add_switch(Switch(self.running.number, True, self.running.points, ready[index].number))
        self.forced = ready[index]
        self.stop = "is preempted before ", place
        # The caller does not count as parked here: cancels and timeouts stay pending.
        me.wake_queue.append_preempted(me, self.running)
        me.park_within(None)

    # ---- kills

    def kill(self, dhagas: Sequence[Any], error: HostKilled) -> None:
        """End dhagas where they are: none of their lines runs again. A caller that is one of them must then call
        ``end_caller``.
        """
        if not dhagas:
            return
        self.dead.update(dhagas)
        kept_for_good.extend(dhagas)
        for dhaga in dhagas:
            self.scheduler.end_where_it_is(dhaga, error)
            if isinstance(dhaga.wake_queue, LowQueue) and dhaga in dhaga.wake_queue:
                dhaga.wake_queue.remove(dhaga)
        queue: Any = self.scheduler.run_queue  # a SimulatedQueue
        queue.remove_all(self.dead.__contains__)
        for thread in [thread for thread in self.threads if thread.dhaga in self.dead]:
            thread.leave()

    def end_caller(self) -> None:
        """If the caller was killed, switch away from it for good."""
        me: Any = getcurrent()
        if me in self.dead:
            me.prepare_uncancellable("nothing: its host was killed")
            me.park_within(None)

    def stretch(self) -> int:
        """Return the number of points that the running member has passed in its turn."""
        return self.running.points - self.points_before

    def fail_spinning(self, place: str) -> None:
        """Fail the run, because the running member loops without an event. Raises: Stopped, which ends the loop."""
        self.fail_limit(f"{self.max_events:,} points without an event, the last before {place}")
        raise Stopped("the simulation has failed")

    def wait_for_deadline(self, me: Any) -> None:
        """Wait for the next deadline, because the caller polls and all other members wait. No-op without a deadline."""
        deadline = self.next_deadline()
        if deadline is not None:
            pause(self.scheduler, me, max(0.0, deadline - self.clock.now), "the clock, as it polls")

    def strike(self, me: Any, place: SourceLine) -> bool:
        """Begin a host's pause if a pause is due here. Returns: whether a pause was due."""
        due = next((strike for strike in self.strikes if strike.is_due(me)), None)
        if due is None:
            return False
        self.strikes.remove(due)
        self.stop = "is paused before ", place
        due.happen()
        self.stop = None
        return True

    def release_paused(self) -> None:
        """Resume the threads of paused hosts, because the run is over."""
        if self.pauses is not None:
            self.pauses.release_all()

    # ---- failures

    def fail(self, error: BaseException) -> None:
        """Keep an error as the run's failure, and end the main code. No-op if the run has failed or is over."""
        if self.failure is None and not self.over:
            member = self.members.all[0] if isinstance(error, Deadlock) else self.running
            self.failure = Failure(error, member)
            self.release_paused()
            self.log.add(self.clock.now, member.number, f"fails: {type(error).__name__}")
            main = self.scheduler.main_waiter
            if main is not None:
                main.cancel_with(Stopped("the simulation has failed"))

    def fail_limit(self, what: str) -> None:
        if self.failure is None:
            self.fail(
                LimitReached(
                    f"the run has not ended after {what}, and may never end: max_events and max_seconds are its limits"
                )
            )

    def check(self, invariant: Callable[[], object]) -> None:
        try:
            holds = invariant()
        except Exception as error:
            self.fail(error)
            return
        if holds is False:
            name = getattr(invariant, "__qualname__", repr(invariant))
            self.fail(AssertionError(f"the invariant {name} does not hold"))
