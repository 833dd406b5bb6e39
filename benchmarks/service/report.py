"""The targets of `benchmarks.service`, and its tables."""

from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

from benchmarks.markdown import table
from benchmarks.service.samples import Results
from benchmarks.service.servers import GEVENT, GRANIAN, GTHREAD, SERVE, SERVICES
from benchmarks.tables.number_format import printed
from benchmarks.tables.outcome import Claim

FASTER = {
    "flask": {GTHREAD: 1.2, GEVENT: 1.2, GRANIAN: 1.05},
    "django": {GTHREAD: 1.2, GEVENT: 1.2},
    "wait": {GTHREAD: 2.0, GEVENT: 2.0, GRANIAN: 2.0},
}
"""The targets: how many times as many answers as another server `dhaga serve` gives."""

RATES = {"rate": "answers/s", "by_cpu": "answers a CPU second"}

FAIR = ("flask", "django")
"""Services for which `dhaga serve` must also be as fair as a queue."""


class Bound(NamedTuple):
    """A bound on one figure, divided by another."""

    what: str
    key: str
    by: str
    bound: float
    at_least: bool = False


BOUNDS = (
    Bound("p99 beside p50", "p99", "p50", 1.5),
    Bound("slowest first answer beside p50", "first", "p50", 2.5),
    Bound("least answers of a client beside the most", "least", "most", 0.7, True),
)

HEAD = (
    *("service", "clients", "server", "answers/s", "a CPU second", "slowest first, ms"),
    *("p50 / p90 / p99 / max, ms", "least–most", "failed", "MB"),
)


def _ratios(ours: list[float], theirs: list[float]) -> list[float]:
    return [mine / other if other else float("inf") for mine, other in zip(ours, theirs, strict=False)]


def claims(results: Results) -> Iterator[Claim]:
    """Yield the claims about `dhaga serve`, for each row that was measured."""
    for row in results.samples:
        name, _, clients = row.rpartition(" ")
        title, crowd = SERVICES[name].title, f"{int(clients):,} clients"
        for (rival, bound), (key, words) in product(FASTER.get(name, {}).items(), RATES.items()):
            if samples := _ratios(results.of(row, SERVE, key), results.of(row, rival, key)):
                yield Claim(f"{title}, {words} beside {rival}: {crowd}", bound, True, samples)
        if name in FAIR and results.of(row, SERVE, "rate"):
            for each in BOUNDS:
                samples = _ratios(results.of(row, SERVE, each.key), results.of(row, SERVE, each.by))
                yield Claim(f"{title}, {each.what}: {crowd}", each.bound, each.at_least, samples)
            yield Claim(f"{title}, failed requests: {crowd}", 0, False, results.of(row, SERVE, "failed"), "")


def lines(results: Results) -> Iterator[list[str]]:
    """Yield the cells of a line for each row and server; the figures are medians."""
    for row, servers in results.samples.items():
        name, _, clients = row.rpartition(" ")
        for server in servers:
            found = {key: printed(results.median(row, server, key)) for key in servers[server][0]}
            least, most = (f"{results.median(row, server, key):,.0f}" for key in ("least", "most"))
            yield [
                *(SERVICES[name].title, f"{int(clients):,}", server, found["rate"], found["by_cpu"], found["first"]),
                " / ".join(found[key] for key in ("p50", "p90", "p99", "max")),
                *(f"{least}–{most}", found["failed"], found["memory"]),
            ]


def markdown(results: Results) -> str:
    """Return the whole report."""
    parts = [table(HEAD, lines(results))]
    if asked := list(claims(results)):
        cells = ([claim.what, *claim.cells[2:]] for claim in asked)
        parts.append(table(("claim", "target", "ours (rounds)", "reached"), cells))
    failures = [f"- {row}, {server}: {why}" for row, each in results.failures.items() for server, why in each.items()]
    return "\n\n".join([*parts, *(["Failed:\n\n" + "\n".join(failures)] if failures else [])])
