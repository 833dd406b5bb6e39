"""The works of the OS threads: each work starts dhagas on a scheduler. The dhagas never end and count their operations.

A count is a list with one number. Each dhaga has its own count, so two OS threads never add to the same count.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field

import dhaga
from dhaga.queue import Queue
from dhaga.socket import socketpair
from dhaga.threading import Lock

DHAGAS = 32
"""Number of dhagas on each scheduler, except in works whose name states another number."""

YIELDING = 100
"""Dhagas that do nothing but yield, as in `benchmarks.kernel`."""

STEPS = 500
"""Steps of a computation between two yields; they take about 20 µs."""

ROOM = 100
"""Maximum number of items in a queue between two schedulers."""

ORDER = {
    "id": 4711,
    "customer": "A. Reader",
    "lines": [{"article": f"book {number}", "count": number, "price": 9.5 * number} for number in range(1, 9)],
}
"""A request, 400 bytes as JSON."""

Count = list[int]


@dataclass
class World:
    """The state that the works of all schedulers share."""

    schedulers: list[dhaga.Scheduler]
    counts: list[Count] = field(default_factory=list)
    lock: Lock = field(default_factory=Lock)
    queues: list[Queue[int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.queues = [Queue(ROOM) for _ in self.schedulers]

    def neighbour(self, number: int) -> int:
        """Return the number of the next scheduler in the ring; a single scheduler is its own neighbour."""
        return (number + 1) % len(self.schedulers)

    def start(self, loop: Callable[..., None], *arguments: object) -> None:
        """Start a dhaga that counts."""
        count = [0]
        self.counts.append(count)
        dhaga.spawn(loop, count, *arguments)

    def done(self) -> int:
        """Return the number of operations so far."""
        return sum(count[0] for count in list(self.counts))


Work = Callable[[World, int], None]
"""A function that starts dhagas on the caller's scheduler. Arguments: the world, and the scheduler's number."""


# ---- each scheduler by itself


def compute(world: World, number: int) -> None:
    """Compute in pure Python, with a yield after each piece."""
    for _ in range(DHAGAS):
        world.start(_computing)


def _computing(count: Count) -> None:
    while True:
        total = 0
        for step in range(STEPS):
            total += step * step
        count[0] += 1
        dhaga.sleep(0)


def json_sockets(world: World, number: int) -> None:
    """Send orders as JSON over socket pairs, and answer them with their totals."""
    for _ in range(DHAGAS // 2):
        client, server = socketpair()
        dhaga.spawn(_answering, server)
        world.start(_asking, client)


def _asking(count: Count, sock: dhaga.socket.socket) -> None:
    while True:
        sock.sendall(json.dumps(ORDER).encode())
        assert json.loads(sock.recv(4096))["id"] == ORDER["id"]
        count[0] += 1


def _answering(sock: dhaga.socket.socket) -> None:
    while True:
        order = json.loads(sock.recv(4096))
        total = sum(line["count"] * line["price"] for line in order["lines"])
        sock.sendall(json.dumps({**order, "total": total}).encode())


def spawn_join(world: World, number: int) -> None:
    """Spawn empty dhagas and join them."""
    world.start(_spawning)


def _spawning(count: Count) -> None:
    while True:
        dhaga.spawn(int).join()
        count[0] += 1


def yields(world: World, number: int) -> None:
    """Let a hundred dhagas yield."""
    for _ in range(YIELDING):
        world.start(_yielding)


def _yielding(count: Count) -> None:
    while True:
        dhaga.sleep(0)
        count[0] += 1


def queues(world: World, number: int) -> None:
    """Pass items through queues of this scheduler."""
    for _ in range(DHAGAS // 2):
        queue: Queue[int] = Queue(1)
        dhaga.spawn(_putting, queue)
        world.start(_getting, queue)


def _putting(queue: Queue[int]) -> None:
    while True:
        queue.put(1)


def _getting(count: Count, queue: Queue[int]) -> None:
    while True:
        count[0] += queue.get()


# ---- across schedulers


def queues_across(world: World, number: int) -> None:
    """Pass items to the next scheduler."""
    for _ in range(DHAGAS // 2):
        dhaga.spawn(_putting, world.queues[world.neighbour(number)])
        world.start(_getting, world.queues[number])


def lock_across(world: World, number: int) -> None:
    """Acquire one lock that all schedulers share, again and again, and yield after each release."""
    for _ in range(DHAGAS):
        world.start(_locking, world.lock)


def _locking(count: Count, lock: Lock) -> None:
    while True:
        with lock:
            count[0] += 1
        dhaga.sleep(0)


def cancels_across(world: World, number: int) -> None:
    """Spawn dhagas on the next scheduler, cancel them, and wait for their end."""
    for _ in range(DHAGAS):
        world.start(_cancelling, world.schedulers[world.neighbour(number)])


def _cancelling(count: Count, scheduler: dhaga.Scheduler) -> None:
    while True:
        other = scheduler.spawn(dhaga.sleep, 1000)
        other.cancel()
        other.join()
        count[0] += 1


WORKS: dict[str, Work] = {
    "compute": compute,
    "json": json_sockets,
    "spawn": spawn_join,
    "yield": yields,
    "queue": queues,
    "queue-across": queues_across,
    "lock-across": lock_across,
    "cancel-across": cancels_across,
}
