"""The rows of the table: the works, their rivals, and Dhaga's targets. This module neither measures nor prints.

The targets apply to Dhaga with its accelerator. In pure Python, only the row with the queue of 100 may be slower than
gevent.

A rival is written `column` or `column:form`. A form is one of several ways to write the same work, such as asyncio's
streams and protocols; its function is named `work_form`. Targets compare with the first form of a rival.
"""

from dataclasses import dataclass

MICROTHREADS = ("dhaga", "gevent", "asyncio", "uvloop")
WITH_THREADS = (*MICROTHREADS, "threads")
WITH_RAW = (*MICROTHREADS, "raw")
ALL_RIVALS = (*WITH_THREADS, "raw")
SOCKETS = (
    "dhaga",
    "gevent",
    "asyncio:streams",
    "asyncio:sock",
    "uvloop:streams",
    "uvloop:sock",
    "threads",
    "raw",
)
SERVERS = (
    "dhaga",
    "gevent",
    "asyncio:streams",
    "asyncio:protocol",
    "uvloop:streams",
    "uvloop:protocol",
    "threads",
    "raw",
)
COLUMNS = ("dhaga", "gevent", "asyncio", "uvloop", "threads", "raw")


@dataclass(frozen=True)
class Unit:
    """The unit in which a sample is printed. `rate`: whether more is better."""

    name: str
    factor: float
    digits: int
    rate: bool = False


NS = Unit("ns", 1e9, 0)
US = Unit("µs", 1e6, 2)
KB = Unit("KB", 1e-3, 2)
GB = Unit("GB", 1e-9, 2)
K_MESSAGES = Unit("k msg/s", 1e-3, 1, rate=True)


@dataclass(frozen=True)
class Target:
    """A lower bound on Dhaga's rate or an upper bound on its cost, divided by `than`'s; without `than`, on the cost."""

    bound: float
    than: str | None
    of_rate: bool

    def reached(self, ratio: float) -> bool:
        """Compare the number as the table prints it, so that no reader sees 1.10 miss a target of 1.1."""
        return round(ratio, 2) >= self.bound if self.of_rate else round(ratio, 2) <= self.bound


def rate(bound: float, than: str) -> Target:
    """Require at least `bound` times the rate of `than`."""
    return Target(bound, than, of_rate=True)


def cost(bound: float, than: str | None = None) -> Target:
    """Require at most `bound` times the cost of `than`."""
    return Target(bound, than, of_rate=False)


def column_of(rival: str) -> str:
    """Return the rival without its form."""
    return rival.partition(":")[0]


@dataclass(frozen=True)
class Row:
    """One line of the table.

    `sizes`: arguments of the work after its count. `step`: the count is a multiple of this number. With `count`, the
    work is called once with this count, and returns its sample. Without `count`, the count grows until the loop takes
    long enough, and the sample is the seconds per operation. `fewer`: lower counts of some rivals.
    """

    name: str
    title: str
    work: str
    rivals: tuple[str, ...]
    unit: Unit
    targets: tuple[Target, ...] = ()
    sizes: tuple[int, ...] = ()
    step: int = 1
    count: int | None = None
    fewer: tuple[tuple[str, int], ...] = ()

    def forms(self, column: str) -> list[str]:
        """Return the rivals of one column."""
        return [rival for rival in self.rivals if column_of(rival) == column]

    def count_of(self, rival: str) -> int | None:
        """Return the fixed count of one rival."""
        return dict(self.fewer).get(rival, self.count)


def _yield(microthreads: int, bound: float, *more: Target) -> Row:
    title = f"yield, {microthreads:,} microthreads"
    targets = (rate(bound, "gevent"), *more)
    return Row(
        f"yield-{microthreads}", title, "yield_ring", WITH_RAW, NS, targets, sizes=(microthreads,), step=microthreads
    )


def _echo(connections: int, *more: Target) -> Row:
    title = f"TCP echo 256 B, {connections:,} connections"
    targets = (rate(2.2, "gevent"), *more)
    return Row(f"echo-{connections}", title, "echo", SERVERS, K_MESSAGES, targets, sizes=(connections, 256))


def _queue(maxsize: int, bound: float) -> Row:
    title = f"Queue 1:1, maxsize {maxsize}"
    return Row(f"queue-{maxsize}", title, "queue_stream", WITH_THREADS, US, (rate(bound, "gevent"),), (maxsize,))


def _ping_pong(name: str, bound: float) -> Row:
    return Row(
        f"{name}-ping-pong",
        f"{name.title()} ping-pong, round trip",
        f"{name}_ping_pong",
        WITH_THREADS,
        US,
        (rate(bound, "gevent"),),
    )


ROWS = (
    _yield(2, 3.5),
    _yield(100, 3.5, cost(1.6, "raw"), rate(1.5, "uvloop")),
    _yield(10_000, 2.4),
    Row(
        "spawn-join",
        "spawn + join",
        "spawn_join",
        ("dhaga", "gevent", "gevent:untracked", "asyncio", "uvloop", "threads", "raw"),
        US,
        (rate(3.0, "gevent"), cost(0.6, "raw"), rate(1.0, "asyncio")),
    ),
    Row("lock", "Lock, uncontended", "lock_alone", WITH_THREADS, NS, (cost(0.6, "gevent"),)),
    Row("lock-100", "Lock, contended by 100", "lock_contended", WITH_THREADS, US, (rate(2.8, "gevent"),), (100,), 100),
    _queue(1, 4.5),
    _queue(100, 1.8),
    _ping_pong("queue", 4.5),
    _ping_pong("event", 3.8),
    _ping_pong("condition", 3.5),
    Row(
        "sleepers",
        "100,000 sleeping, CPU each",
        "sleepers",
        MICROTHREADS,
        US,
        (rate(1.5, "gevent"),),
        count=100_000,
    ),
    Row(
        "socketpair",
        "socketpair, round trip of 256 B",
        "socketpair",
        SOCKETS,
        US,
        (rate(3.0, "gevent"), rate(1.0, "uvloop")),
        sizes=(256,),
    ),
    _echo(100, rate(0.85, "raw")),
    _echo(1000),
    _echo(5000),
    Row(
        "memory",
        "memory of a parked one, 100,000",
        "parked_memory",
        ALL_RIVALS,
        KB,
        (cost(1.0, "gevent"),),
        count=100_000,
        fewer=(("threads", 10_000),),
    ),
    Row("million", "1,000,000 parked at once, RSS", "parked_total", ("dhaga",), GB, (cost(8.0),), count=1_000_000),
)
