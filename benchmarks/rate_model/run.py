"""One run, the same for all proxies: what is asked for, what each request came to, and when the run is over."""

from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from time import monotonic

from benchmarks.rate_model.arrivals import Arrivals

SETTLED = 0.1  # seconds after the last answer should be there: only then is it looked for, which costs time
STEP = 0.05  # seconds between two looks


@dataclass(frozen=True)
class Plan:
    """What a run is asked to do. Request n goes to upstream n modulo their number."""

    rate: float  # arrivals per second
    count: int
    latencies: Sequence[float]  # of each upstream, in seconds
    threads: int = 50  # where a pool of them is the proxy
    tail: float = 1.0  # seconds after the last arrival in which answers still count
    ports: Sequence[int] = ()  # of upstreams that are processes; none: an upstream is a sleep

    def latency(self, number: int) -> float:
        """Return how long the upstream of a request takes, in seconds."""
        return self.latencies[number % len(self.latencies)]


class Run:
    """A plan under way. A request leaves one number behind, and nothing else: the moment of its answer."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.done = array("d", bytes(8 * plan.count))  # 0.0: no answer so far
        self.failed: dict[int, str] = {}
        self.arrivals = Arrivals(plan.rate, plan.count)

    @property
    def end(self) -> float:
        """Return when the run is over at the latest."""
        return self.arrivals.due(self.plan.count - 1) + self.plan.tail

    def ideal(self, number: int) -> float:
        """Return when a request would be answered if it cost no time but its upstream's."""
        return self.arrivals.due(number) + self.plan.latency(number)

    def hung(self, number: int) -> bool:
        """Return whether the upstream of a request does not answer before the run is over."""
        return self.ideal(number) >= self.end

    def last_answer(self) -> float:
        """Return when the last answer should be there. Quick: a look at all requests would delay the last ones."""
        count, upstreams = self.plan.count, len(self.plan.latencies)
        latest = range(max(0, count - upstreams), count)  # at each upstream
        answers = [self.ideal(number) for number in latest if not self.hung(number % upstreams)]
        return min(self.end, max(answers, default=0.0))

    def overdue(self) -> bool:
        """Return whether a request has no answer, though its upstream must have given it by now."""
        now = min(monotonic(), self.end)
        return any(
            not self.done[number] and self.ideal(number) <= now and number not in self.failed
            for number in range(self.plan.count)
        )

    def pauses(self) -> Iterator[float]:
        """Yield the seconds to sleep, again and again, until all answers are there that can be, or the run is over."""
        yield max(0.0, self.last_answer() + SETTLED - monotonic())
        while monotonic() < self.end and self.overdue():
            yield STEP


def drive(run: Run, sleep: Callable[[float], object], start: Callable[[int], object]) -> None:
    """Start each request when it is due, and see the run to its end."""
    arrivals = run.arrivals
    arrivals.begin()
    while arrivals.left():
        sleep(arrivals.pause())
        for number in arrivals.take():
            start(number)
    for seconds in run.pauses():
        sleep(seconds)


def recorded(run: Run, call: Callable[[int], object]) -> Callable[[int], None]:
    """Return what makes a request: it calls the upstream, and records what came of it."""
    done, failed = run.done, run.failed

    def request(number: int) -> None:
        try:
            call(number)
        except OSError as error:
            failed[number] = str(error)
        else:
            done[number] = monotonic()

    return request


def sleeping(plan: Plan, sleep: Callable[[float], object]) -> Callable[[int], None]:
    """Return a call whose upstreams are sleeps."""
    latencies, upstreams = plan.latencies, len(plan.latencies)

    def call(number: int) -> None:
        sleep(latencies[number % upstreams])

    return call
