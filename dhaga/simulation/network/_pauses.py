"""Hosts that stand still, and slow ones: their threads are kept off the run queue until it is time."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any, NamedTuple

from ..._kernel.run.run_queues import HighQueue
from ..._kernel.run.scheduler import NewQueue
from .._base.pause import pause_caller
from .._base.ranges import Range
from .._schedule.members import waiter_behind

if TYPE_CHECKING:
    from .._schedule.run import SimulatedQueue
    from ._hosts import Host
    from ._network import Network

LONGEST = 6
"""The last point at which a pause begins, as a power of 2: each of these powers is as likely."""


class Held(NamedTuple):
    """A runnable thread that waits outside the run queue. ``entry``: the one that would stand for it there."""

    entry: Any
    waiter: Any
    host: Host


class Strike:
    """A pause that begins once the threads of its host have run some more points of the program."""

    def __init__(self, host: Host, seconds: float, points: int) -> None:
        self.host = host
        self.seconds = seconds
        self.points = points

    def is_due(self, waiter: Any) -> bool:
        """Count a point that a thread has reached. Returns: whether its host stops there."""
        if self.host.network.hosts.of_waiter(waiter) is self.host:
            self.points -= 1
        return self.points <= 0

    def happen(self) -> None:
        """Pause the host, and so the caller. No-op if it was killed meanwhile."""
        if self.host.is_up:
            self.host.pause(self.seconds)


class Pauses:
    """The paused and the slow hosts of a network, and their threads that are held."""

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

    # ---- from the run queue

    def holds(self, entry: Any) -> bool:
        """Hold the thread behind a new entry of the run queue, if its host stands still or is slow."""
        run = self.network.run
        if not (self.until or self.delays) or run.over or run.failure is not None:
            return False
        waiter = waiter_behind(entry, -1)
        host = self.network.hosts.of_waiter(waiter)
        # One that yields takes the next entry of the queue unseen: it must be there.
        if host is None or (host not in self.until and host not in self.delays) or run.yields_now(waiter):
            return False
        held = Held(entry, waiter, host)
        take_out(held)
        self.held.append(held)
        if host not in self.until:
            self.network.at(self.network.clock.now + self.network.draw.uniform(*self.delays[host]), self.go_on, held)
        return True

    def hold_queued(self, host: Host) -> None:
        """Hold the threads of a host that are in the run queue."""
        hosts = self.network.hosts
        for entry, waiter in self.queue.remove_all(lambda waiter: hosts.of_waiter(waiter) is host):
            self.held.append(Held(entry, waiter, host))

    def go_on(self, held: Held) -> None:
        """Resume a thread of a slow host, unless the host stands still now."""
        if held in self.held and held.host not in self.until:
            self.release([held])

    # ---- pauses

    def begin(self, host: Host, seconds: float) -> None:
        """Stop the threads of a host. The caller waits if it is one of them."""
        until = self.network.clock.now + seconds
        self.until[host] = max(until, self.until.get(host, until))
        self.hold_queued(host)
        self.network.at(self.until[host], self.end, host)
        if self.network.hosts.of_caller() is host:
            pause_caller(self.network.run.scheduler, 0, f"the end of the pause of {host.name}")

    def end(self, host: Host) -> None:
        """Resume the threads of a host, unless a later pause goes on."""
        if host in self.until and self.until[host] <= self.network.clock.now:
            del self.until[host]
            self.network.run.tell("the simulation", f"lets {host.name} go on")
            self.release([held for held in self.held if held.host is host])

    def strike(self, host: Host, seconds: float, draw: random.Random) -> None:
        """Pause a host at a drawn point of what its threads run next; a quarter of the times at once."""
        points = int(2 ** draw.uniform(0, LONGEST)) if draw.random() < 3 / 4 else 0
        if points and self.network.run.has_points:
            self.network.run.strikes.append(Strike(host, seconds, points))
        else:
            host.pause(seconds)

    def forget(self, host: Host) -> None:
        """Discard the pause of a killed host, and its threads."""
        self.until.pop(host, None)
        self.held = [held for held in self.held if held.host is not host]

    def release_all(self) -> None:
        """Resume all threads, as the run is over."""
        self.until.clear()
        self.release([*self.held])

    def release(self, threads: list[Held]) -> None:
        """Put threads into the run queue, in the order in which they were woken."""
        for held in threads:
            self.held.remove(held)
            put_back(held)
            if type(held.entry) is HighQueue:
                self.queue.prepend(held.entry)
            else:
                self.queue.add(held.entry)
        scheduler = self.network.run.scheduler
        if threads and scheduler.asleep:
            scheduler.wake_loop()


def take_out(held: Held) -> None:
    """Remove the last waiter from the queue that its entry stands for."""
    if type(held.entry) is NewQueue:
        held.entry.not_started.pop()
    elif type(held.entry) is HighQueue:
        held.entry.waiters.pop()


def put_back(held: Held) -> None:
    if type(held.entry) is NewQueue:
        held.entry.not_started.append(held.waiter)
    elif type(held.entry) is HighQueue:
        held.entry.waiters.append(held.waiter)
