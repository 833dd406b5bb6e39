"""One run, the same for all proxies: its plan, the answer time of each request, and the end of the run."""

from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from time import monotonic

from benchmarks.rate_model.arrivals import Arrivals

SETTLED = 0.1  # seconds after the last answer is expected; earlier checks of all requests would cost time
STEP = 0.05  # seconds between two checks


@dataclass(frozen=True)
class Plan:
    """The plan of a run. Request n goes to upstream n modulo the number of upstreams."""

    rate: float  # arrivals per second
    count: int
    latencies: Sequence[float]  # of each upstream, in seconds
    threads: int = 50  # if the proxy is a pool of threads
    tail: float = 1.0  # seconds after the last arrival in which answers still count
    ports: Sequence[int] = ()  # of upstreams that are processes; if empty, an upstream is a sleep

    def latency(self, number: int) -> float:
        """Return the latency of a request's upstream in seconds."""
        return self.latencies[number % len(self.latencies)]


class Run:
    """A plan in progress. For each request, only the time of its answer is stored."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.done = array("d", bytes(8 * plan.count))  # 0.0: no answer so far
        self.failed: dict[int, str] = {}
        self.arrivals = Arrivals(plan.rate, plan.count)

    @property
    def end(self) -> float:
        """Return the latest time at which the run ends."""
        return self.arrivals.due(self.plan.count - 1) + self.plan.tail

    def ideal(self, number: int) -> float:
        """Return the time of a request's answer if only the upstream took time."""
        return self.arrivals.due(number) + self.plan.latency(number)

    def hung(self, number: int) -> bool:
        """Return whether the upstream of a request does not answer before the run is over."""
        return self.ideal(number) >= self.end

    def last_answer(self) -> float:
        """Return the expected time of the last answer. Read few requests: a long check would delay the last answers."""
        count, upstreams = self.plan.count, len(self.plan.latencies)
        latest = range(max(0, count - upstreams), count)  # at each upstream
        answers = [self.ideal(number) for number in latest if not self.hung(number % upstreams)]
        return min(self.end, max(answers, default=0.0))

    def overdue(self) -> bool:
        """Return whether a request has no answer although its upstream must have answered by now."""
        now = min(monotonic(), self.end)
        return any(
            not self.done[number] and self.ideal(number) <= now and number not in self.failed
            for number in range(self.plan.count)
        )

    def pauses(self) -> Iterator[float]:
        """Yield seconds to sleep, until all possible answers have come or the run is over."""
        yield max(0.0, self.last_answer() + SETTLED - monotonic())
        while monotonic() < self.end and self.overdue():
            yield STEP


def drive(run: Run, sleep: Callable[[float], object], start: Callable[[int], object]) -> None:
    """Start each request when it is due, and wait for the end of the run."""
    arrivals = run.arrivals
    arrivals.begin()
    while arrivals.left():
        sleep(arrivals.pause())
        for number in arrivals.take():
            start(number)
    for seconds in run.pauses():
        sleep(seconds)


def recorded(run: Run, call: Callable[[int], object]) -> Callable[[int], None]:
    """Return a function that makes a request: it calls the upstream, and records the answer or the failure."""
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
    """Return a function that calls the upstream of a request; the upstreams are sleeps."""
    latencies, upstreams = plan.latencies, len(plan.latencies)

    def call(number: int) -> None:
        sleep(latencies[number % upstreams])

    return call
