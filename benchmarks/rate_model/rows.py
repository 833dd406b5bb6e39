"""The rows of `benchmarks.rate_model`, and their measurement: the rivals of a row take turns, round by round."""

from contextlib import ExitStack
from dataclasses import dataclass
from importlib.util import find_spec

from benchmarks.machine import raise_file_limit
from benchmarks.rate_model.latency_spec import in_words, latencies
from benchmarks.rate_model.run import Plan
from benchmarks.rate_model.runner import WAYS, Figures, at_once, in_turn, upstreams_of
from benchmarks.tables.outcome import Tell

Samples = dict[str, dict[str, list[Figures]]]
"""For each row and way, the figures of each round."""


@dataclass(frozen=True)
class Effort:
    """The extent of the measurement."""

    rounds: int
    seconds: float  # of arrivals, in rows that claims use
    fewer: float  # of arrivals in the other rows, which are measured only in the first round
    window: float  # seconds over which a rate is taken
    tail: float


FULL = Effort(rounds=3, seconds=3.0, fewer=2.0, window=1.0, tail=1.0)
QUICK = Effort(rounds=1, seconds=0.1, fewer=0.1, window=0.05, tail=0.1)


@dataclass(frozen=True)
class Row:
    """Arrivals per second, upstreams, and whether they are processes. Rows that claims use run in every round."""

    rate: int
    latency: str
    real: bool = False
    claimed: bool = False

    @property
    def name(self) -> str:
        """Return the row's name in tables and in the samples."""
        return f"{self.rate:,}/s, {self.latency}{', real' if self.real else ''}"

    @property
    def words(self) -> str:
        """Return the row's description for readers."""
        return in_words(self.rate, latencies(self.latency), self.real)

    def plan(self, effort: Effort) -> Plan:
        """Return the plan of a run of this row."""
        seconds = effort.seconds if self.claimed else effort.fewer
        return Plan(self.rate, round(self.rate * seconds), latencies(self.latency), tail=effort.tail)


STEADY, SLOW, HANGS = "20ms*10", "60ms*10", "20ms*9,30s"
CALM = Row(1_000, STEADY, claimed=True)
FAILING = Row(1_000, HANGS, claimed=True)
BUSY = Row(10_000, STEADY, claimed=True)
LATE = Row(1_000, SLOW)
CROWDED = Row(10_000, HANGS, real=True)
ROWS = (
    *(CALM, FAILING, BUSY, LATE, Row(2_000, STEADY), Row(2_000, SLOW), Row(2_000, HANGS)),
    *(Row(10_000, SLOW), Row(10_000, HANGS), Row(1_000, HANGS, real=True), CROWDED),
)
DRAWN = (CALM, LATE, FAILING, BUSY, CROWDED)
"""Rows whose curves differ; their first round is drawn in charts."""


def installed() -> list[str]:
    """Return the ways whose packages are installed."""
    return [way for way in WAYS if way != "gevent" or find_spec("gevent")]


def measured(effort: Effort, tell: Tell) -> Samples:
    """Measure all rows, round by round. The rivals of a row take turns."""
    raise_file_limit()
    samples: Samples = {}
    for number in range(1, effort.rounds + 1):
        for row in (row for row in ROWS if row.claimed or number == 1):
            tell(f"{row.name}, round {number} of {effort.rounds if row.claimed else 1}")
            with upstreams_of(row.plan(effort), row.real) as plan:
                for way, figures in in_turn(installed(), plan, effort.window).items():
                    if number > 1 or row not in DRAWN:
                        del figures["line"]  # half of all data, and not shown
                    samples.setdefault(row.name, {}).setdefault(way, []).append(figures)
    return samples


def glanced(effort: Effort, tell: Tell) -> Samples:
    """Run all rows once, with all rivals at the same time. The results have the right form, but no meaning."""
    raise_file_limit()
    tell(f"{len(ROWS)} rows in {len(installed())} ways at once")
    with ExitStack() as stack:
        plans = [stack.enter_context(upstreams_of(row.plan(effort), row.real)) for row in ROWS]
        found = at_once(installed(), plans, effort.window)
    return {row.name: {way: [each[number]] for way, each in found.items()} for number, row in enumerate(ROWS)}
