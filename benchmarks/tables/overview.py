"""An overview: how many times as fast or as small Dhaga is as threads, gevent, asyncio, uvloop and granian."""

import json
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.kernel.rows import ROWS, Row
from benchmarks.kernel.runner import Results
from benchmarks.service.samples import Results as ServiceResults
from benchmarks.service.servers import ASYNCPG, GEVENT, GRANIAN, GTHREAD, SERVE
from benchmarks.tables.number_format import printed, with_unit

RIVALS = ("threads", "gevent", "asyncio", "uvloop", "granian")
HEAD = ("work", *RIVALS)
KERNEL = (
    *("yield-100", "spawn-join", "lock-100", "queue-100", "queue-ping-pong", "sleepers"),
    *("socketpair", "echo-100", "echo-1000", "echo-5000", "memory"),
)
"""The kernel's rows that are shown: one of each kind, with missed and with reached targets."""

SERVICES = {"dhaga": SERVE, "threads": GTHREAD, "gevent": GEVENT, "uvloop": ASYNCPG, "granian": GRANIAN}
"""For each rival, the server that represents it in the rows of the services."""

RATES = ("answers a second (p99)", *SERVICES.values())
"""The head of the table of ``rates``."""

SHOWN = {
    "Flask, SQLAlchemy, redis-py: 100 clients": ("flask 100", "rate"),
    "Flask, SQLAlchemy, redis-py: 300 clients": ("flask 300", "rate"),
    "Flask, SQLAlchemy, redis-py: 300 clients, p99": ("flask 300", "p99"),
    "Flask, SQLAlchemy, redis-py: 1,000 clients": ("flask 1000", "rate"),
    "Django, ORM: 300 clients": ("django 300", "rate"),
    "Flask, 20 ms of waiting: 1,000 clients": ("wait 1000", "rate"),
    'WSGI "hello": 100 clients': ("hello 100", "rate"),
}
"""The services' rows that are shown: answers per second, or the 99th percentile of the latency."""

Samples = Mapping[str, Sequence[float]]
"""For each rival, one sample per round."""


@dataclass(frozen=True)
class Work:
    """A work, and how many times as fast or as small Dhaga is as each rival that was measured at it."""

    title: str
    times: Mapping[str, float]


def _times(ours: Sequence[float], theirs: Sequence[float], more_is_better: bool) -> float | None:
    ratios = [mine / other if more_is_better else other / mine for mine, other in zip(ours, theirs, strict=False)]
    return statistics.median(ratios) if ratios else None


def _work(title: str, samples: Samples, more_is_better: bool) -> Work:
    found = {rival: _times(samples["dhaga"], samples.get(rival, ()), more_is_better) for rival in RIVALS}
    return Work(title, {rival: times for rival, times in found.items() if times is not None})


def _of_kernel(results: Results, row: Row) -> Samples:
    """Return the samples of each rival's first form."""
    return {column: results.of(row, row.forms(column)[0]) for column in ("dhaga", *RIVALS) if row.forms(column)}


def _services(results: ServiceResults) -> Iterator[Work]:
    for title, (row, key) in SHOWN.items():
        if row in results.samples:
            samples = {rival: results.of(row, server, key) for rival, server in SERVICES.items()}
            yield _work(title, samples, key == "rate")


def _of(rivals: Mapping[str, Sequence[Mapping[str, float]]], key: str) -> Samples:
    return {rival: [sample[key] for sample in samples] for rival, samples in rivals.items()}


def _read(folder: Path, name: str) -> Any:
    path = folder / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else None


def works(folder: Path) -> Iterator[Work]:
    """Yield the works whose results are in the folder."""
    if found := _read(folder, "service"):
        yield from _services(ServiceResults(**found))
    if found := _read(folder, "kernel"):
        results = Results(**found)
        for row in ROWS:
            if row.name in KERNEL and row.name in results.samples:
                yield _work(row.title, _of_kernel(results, row), row.unit.rate)
    if found := _read(folder, "tls"):
        yield _work("TLS echo, by CPU time", _of(found["samples"]["echo"], "each CPU second"), True)
    if found := _read(folder, "http_client"):
        yield _work("HTTP requests, 32 in flight, by CPU time", _of(found["samples"]["32 in flight"], "by CPU"), True)
    if found := _read(folder, "notifications"):
        yield _work("a broadcast to 10,000 clients, p99", _of(found["samples"], "p99"), False)
        yield _work("memory a client of 10,000 that wait", _of(found["samples"], "bytes_per_client"), False)


def lines(folder: Path) -> Iterator[list[str]]:
    """Yield the cells of a table's lines; a dash for a rival that was not measured at a work."""
    for work in works(folder):
        yield [work.title, *(told(work.times[rival]) if rival in work.times else "–" for rival in RIVALS)]


def rates(folder: Path) -> Iterator[list[str]]:
    """Yield, for each service shown, the answers per second of each server, with the 99th percentile in brackets."""
    if not (found := _read(folder, "service")):
        return
    results = ServiceResults(**found)
    for title, (row, key) in SHOWN.items():
        if key == "rate" and row in results.samples:
            yield [title, *(_rate(results, row, server) for server in SERVICES.values())]


def _rate(results: ServiceResults, row: str, server: str) -> str:
    if not results.of(row, server, "rate"):
        return "–"
    rate, p99 = (results.median(row, server, key) for key in ("rate", "p99"))
    return f"{rate:,.0f} ({printed(p99)}\N{NO-BREAK SPACE}ms)"


def told(times: float) -> str:
    """Return a ratio as text."""
    return with_unit(printed(times), "x")
