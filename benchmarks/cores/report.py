"""The targets of `benchmarks.cores`, and its table."""

import statistics
from collections.abc import Iterator

from benchmarks.cores.samples import LOCKED, ONE, PROCESSES, THREADS, WAYS
from benchmarks.markdown import table
from benchmarks.samples import Results
from benchmarks.tables.number_format import printed
from benchmarks.tables.outcome import Claim

TITLES = {
    "compute": "CPU-bound dhagas",
    "json": "JSON over socket pairs",
    "spawn": "spawn + join",
    "yield": "yield, 100 dhagas",
    "queue": "queues, each within a thread",
    "queue-across": "queues across threads",
    "lock-across": "one lock across threads",
    "cancel-across": "spawn, cancel and join across threads",
    "hello": "WSGI hello",
    "flask-pg8000": "Flask, SQLAlchemy, pg8000, redis-py",
    "flask-psycopg2": "Flask, SQLAlchemy, psycopg2, redis-py",
}

SCALES = {"compute": 0.9, "json": 0.8, "spawn": 0.9, "yield": 0.85}
"""The targets of the works: the rate of N threads, as a fraction of N times the rate of one thread."""

SERVICES = "flask-pg8000", "flask-psycopg2"
BESIDE_PROCESSES, MEMORY = 0.95, 0.6
"""The targets of a service: rate (at least) and memory (at most) with N threads, divided by those with N processes."""

WORDS = {
    "lock, 1 thread": "lock, 1 thread",
    "lock, N threads": "lock, {} threads",
    "free, 1 thread": "no lock, 1 thread",
    "free, N threads": "no lock, {} threads",
    "free, N processes": "no lock, {} processes",
}

HEAD = ("work", "way", "a second", "CPU µs each", "cores used", "MB")


def _ratios(ours: list[float], theirs: list[float]) -> list[float]:
    return [mine / other for mine, other in zip(ours, theirs, strict=False)]


def _threads(results: Results) -> int:
    number: int = results.where["effort"]["threads"]
    return number


def scale(results: Results, row: str) -> list[float]:
    """Return the rate of N threads divided by the rate of one thread, without the interpreter lock."""
    return _ratios(results.of(row, THREADS, "rate"), results.of(row, ONE, "rate"))


def scale_by_cpu(results: Results, row: str) -> list[float]:
    """Return the same ratio, as it would follow from the CPU times if each thread had a core."""
    spent = _ratios(results.of(row, ONE, "cpu"), results.of(row, THREADS, "cpu"))
    return [_threads(results) * ratio for ratio in spent]


def claims(results: Results) -> Iterator[Claim]:
    """Yield the claims about several OS threads, for each row that was measured."""
    number = _threads(results)
    for row, part in SCALES.items():
        if row in results.samples:
            beside = f"{TITLES[row]}, {number} threads beside 1"
            yield Claim(f"{beside}, rate", part * number, True, scale(results, row))
            yield Claim(f"{beside}, by CPU", part * number, True, scale_by_cpu(results, row))
    for row in SERVICES:
        for key, bound in (("rate", BESIDE_PROCESSES), ("memory", MEMORY)):
            if samples := _ratios(results.of(row, THREADS, key), results.of(row, PROCESSES, key)):
                what = f"{TITLES[row]}, {number} threads beside {number} processes, {key}"
                yield Claim(what, bound, key == "rate", samples)


def _words(way: str, results: Results) -> str:
    return WORDS[way].format(_threads(results))


def lines(results: Results) -> Iterator[list[str]]:
    """Yield the cells of a line for each row and way; the figures are medians."""
    for row, ways in results.samples.items():
        for way in (way for way in WAYS if way in ways):
            figures = [printed(results.median(row, way, key)) for key in ("rate", "cpu", "cores")]
            memory = printed(results.median(row, way, "memory")) if "memory" in ways[way][0] else "–"
            yield [TITLES[row], _words(way, results), *figures, memory]


def _cell(results: Results, row: str, way: str) -> str:
    if not results.of(row, way, "rate"):
        return "–"
    rate, cpu = (printed(results.median(row, way, key)) for key in ("rate", "cpu"))
    return f"{rate} ({cpu})"


def _printed_median(samples: list[float]) -> str:
    return f"{printed(statistics.median(samples))}x" if samples else "–"


def summary(results: Results) -> str:
    """Return a table with a line for each row: operations a second (µs of CPU each), and how they scale."""
    number, shown = _threads(results), (LOCKED, ONE, THREADS, PROCESSES)
    head = ("work", *(_words(way, results) for way in shown), f"{number} threads beside 1, no lock", "by CPU")
    found = (
        [
            TITLES[row],
            *(_cell(results, row, way) for way in shown),
            *(_printed_median(samples) for samples in (scale(results, row), scale_by_cpu(results, row))),
        ]
        for row in results.samples
    )
    return table(head, found)


def markdown(results: Results) -> str:
    """Return the whole report."""
    asked = ([claim.what, *claim.cells[2:]] for claim in claims(results))
    parts = [table(HEAD, lines(results)), summary(results)]
    parts.append(table(("claim", "target", "ours (rounds)", "reached"), asked))
    failed = [f"- {row}, {way}: {why}" for row, each in results.failures.items() for way, why in each.items()]
    return "\n\n".join([*parts, *(["Failed:\n\n" + "\n".join(failed)] if failed else [])])
