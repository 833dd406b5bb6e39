"""Paused and slow hosts: their runnable threads are held outside the run queue until the pause or the delay ends.

A *point* is a place between two lines or instructions of the program where the simulation can stop a thread.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any, NamedTuple

from ..._kernel.run.run_queues import HighQueue, LowQueue
from ..._kernel.run.scheduler import NewQueue
from .._base.pause import pause_caller
from .._base.ranges import Range
from .._schedule.members import remove_all, waiter_behind

if TYPE_CHECKING:
    from ..._kernel.run.scheduler import Scheduler
    from .._schedule.run import Run
    from .._schedule.simulated_queue import SimulatedQueue
    from ._hosts import Host
    from ._network import Network

LONGEST = 6
"""The largest exponent in the draw of ``2 ** exponent``, the number of points before a pause begins."""


class Held(NamedTuple):
    """A runnable thread that is held outside its run queue. ``entry``: the thread's entry in the queue.

    ``low``: the queue of threads with LOW priority if the thread was taken from it; otherwise None.
    """

    entry: Any
    waiter: Any
    host: Host
    low: HoldingLowQueue | None


class Strike:
    """A pause that begins after the threads of its host have reached some more points."""

    def __init__(self, host: Host, seconds: float, points: int) -> None:
        self.host = host
        self.seconds = seconds
        self.points = points

    def is_due(self, waiter: Any) -> bool:
        """Count a point, if the thread that has reached it is on the host. Returns: whether the pause begins now."""
        if self.host.network.hosts.of_waiter(waiter) is self.host:
            self.points -= 1
        return self.points <= 0

    def happen(self) -> None:
        """Pause the host, which also stops the calling thread. No-op if the host was killed meanwhile."""
        if self.host.is_up:
            self.host.pause(self.seconds)


class HoldingLowQueue(LowQueue):
    """The queue of runnable threads with LOW priority, except held threads."""

    __slots__ = ("run",)

    def __init__(self, scheduler: Scheduler, run: Run) -> None:
        super().__init__(scheduler)
        self.run = run
        run.low = self

    def append(self, entry: Any) -> None:
        is_held = self.run.pauses is not None and self.run.pauses.holds(entry, self)
        # The base class also makes the scheduler check all queues, if the thread yields. So held threads are appended
        # and then removed again.
        super().append(entry)
        if is_held:
            self.pop()

    def add(self, entry: Any) -> None:
        """Append an entry, even if the thread's host is paused."""
        super().append(entry)


class Pauses:
    """The paused and slow hosts of a network, and the held threads of these hosts."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.until: dict[Host, float] = {}
        self.delays: dict[Host, Range] = {}
        self.held: list[Held] = []

    def __repr__(self) -> str:
        return f"<Pauses of {len(self.until)} hosts, {len(self.held)} threads held>"

    @property
    def queue(self) -> SimulatedQueue:
        return self.network.run.scheduler.run_queue  # type: ignore[return-value]

    # ---- calls of the run queue

    def holds(self, entry: Any, low: HoldingLowQueue | None = None) -> bool:
        """Hold the thread of a new entry if its host is paused or slow. Returns: whether the thread is held.

        ``low``: as in ``Held``.
        """
        run = self.network.run
        if not (self.until or self.delays) or run.over or run.failure is not None:
            return False
        waiter = waiter_behind(entry, -1)
        host = self.network.hosts.of_waiter(waiter)
        # A thread that yields pops the next entry without a check of the queue. So its own entry must be in the queue.
        if host is None or (host not in self.until and host not in self.delays) or run.yields_now(waiter):
            return False
        held = Held(entry, waiter, host, low)
        take_out(held)
        self.held.append(held)
        if host not in self.until:
            self.network.at(self.network.clock.now + self.network.draw.uniform(*self.delays[host]), self.go_on, held)
        return True

    def hold_queued(self, host: Host) -> None:
        """Hold the runnable threads of a host."""

        def is_on_host(waiter: Any) -> bool:
            return self.network.hosts.of_waiter(waiter) is host

        low = self.network.run.low
        self.held += [Held(*found, host, None) for found in self.queue.remove_all(is_on_host)]
        self.held += [Held(*found, host, low) for found in remove_all(low, is_on_host)]

    def go_on(self, held: Held) -> None:
        """Resume a thread of a slow host, unless the host is paused now."""
        if held in self.held and held.host not in self.until:
            self.release([held])

    # ---- pauses

    def begin(self, host: Host, seconds: float) -> None:
        """Stop the threads of a host. If the caller is one of these threads, the caller waits."""
        until = self.network.clock.now + seconds
        self.until[host] = max(until, self.until.get(host, until))
        self.hold_queued(host)
        self.network.at(self.until[host], self.end, host)
        if self.network.hosts.of_caller() is host:
            pause_caller(self.network.run.scheduler, 0, f"the end of the pause of {host.name}")

    def end(self, host: Host) -> None:
        """Resume the threads of a host, unless another pause ends later."""
        if host in self.until and self.until[host] <= self.network.clock.now:
            del self.until[host]
            self.network.run.tell("the simulation", f"lets {host.name} go on")
            self.release([held for held in self.held if held.host is host])

    def strike(self, host: Host, seconds: float, draw: random.Random) -> None:
        """Pause a host at a drawn point of its threads, or immediately.

        In a run without points, all pauses begin immediately. In other runs, a quarter of the pauses do.
        """
        points = int(2 ** draw.uniform(0, LONGEST)) if draw.random() < 3 / 4 else 0
        if points and self.network.run.has_points:
            self.network.run.strikes.append(Strike(host, seconds, points))
        else:
            host.pause(seconds)

    def forget(self, host: Host) -> None:
        """Discard the pause and the held threads of a killed host."""
        self.until.pop(host, None)
        self.held = [held for held in self.held if held.host is not host]

    def release_all(self) -> None:
        """Resume all held threads, because the run is over."""
        self.until.clear()
        self.release([*self.held])

    def release(self, threads: list[Held]) -> None:
        """Put held threads back into their queues, in the order of their wakes."""
        for held in threads:
            self.held.remove(held)
            put_back(held)
            if held.low is not None:
                held.low.add(held.entry)
            elif type(held.entry) is HighQueue:
                self.queue.prepend(held.entry)
            else:
                self.queue.add(held.entry)
        scheduler = self.network.run.scheduler
        if threads and scheduler.asleep:
            scheduler.wake_loop()


def take_out(held: Held) -> None:
    """Remove a held thread from its ``NewQueue`` or ``HighQueue``. The thread is the queue's last entry."""
    if type(held.entry) is NewQueue:
        held.entry.not_started.pop()
    elif type(held.entry) is HighQueue:
        held.entry.waiters.pop()


def put_back(held: Held) -> None:
    if type(held.entry) is NewQueue:
        held.entry.not_started.append(held.waiter)
    elif type(held.entry) is HighQueue:
        held.entry.waiters.append(held.waiter)
