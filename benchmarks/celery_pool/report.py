"""Claims, with ratios within a round, and tables, all computed from the samples."""

import statistics
from collections.abc import Callable, Iterator, Sequence

from benchmarks.celery_pool.samples import Sample
from benchmarks.tables.number_format import printed, spread
from benchmarks.tables.outcome import Claim, Table

Rows = dict[str, list[Sample]]
"""For each pool, one sample per round."""

OVER_GEVENT, OVER_THREADS, OF_IDEAL, MEMORY = 1.0, 1.3, 95.0, 0.5
KINDS = {"empty": "no result", "kept": "results kept"}


def _ratios(rows: Rows, rival: str, figure: Callable[[Sample], float]) -> list[float]:
    return [figure(mine) / figure(other) for mine, other in zip(rows["dhaga"], rows[rival], strict=True)]


def added(one: Sample) -> float:
    """Return the bytes that waiting tasks have added to a worker."""
    return one.busy - one.idle


def claims(rows: Rows) -> list[Claim]:
    """Return the claims about the pools that were measured."""
    return [*_of_empty_tasks(rows), *_of_waiting_tasks(rows)]


def _of_empty_tasks(rows: Rows) -> Iterator[Claim]:
    for rival, bound in (("gevent", OVER_GEVENT), ("threads", OVER_THREADS)):
        for kind, words in KINDS.items():
            if rival in rows:
                ratios = _ratios(rows, rival, lambda one, kind=kind: float(getattr(one, kind)))  # type: ignore[misc]
                yield Claim(f"empty tasks a second, {words}: over {rival}", bound, True, ratios)


def _of_waiting_tasks(rows: Rows) -> Iterator[Claim]:
    at_once = rows["dhaga"][0].in_flight
    shares = [100 * one.of_ideal for one in rows["dhaga"]]
    yield Claim(f"tasks that wait, {at_once:,} at once: of the ideal rate", OF_IDEAL, True, shares, "%")
    if "threads" in rows:
        words = f"{at_once:,} tasks that wait: memory"
        yield Claim(f"{words} that they add, over threads", MEMORY, False, _ratios(rows, "threads", added))
        whole = _ratios(rows, "threads", lambda one: one.busy)
        yield Claim(f"{words} of the whole worker, over threads", MEMORY, False, whole)


# ---- tables


def over_rounds(values: Sequence[float]) -> str:
    """Return the median over the rounds and their range, as text."""
    moved = spread(values)
    return printed(statistics.median(values)) + (f" ({moved})" if moved else "")


def _cells(samples: Sequence[Sample], *figures: Callable[[Sample], float]) -> list[str]:
    return [over_rounds([figure(one) for one in samples]) for figure in figures]


def tables(rows: Rows) -> list[Table]:
    """Return all tables."""
    return [_table_of_empty_tasks(rows), _table_of_waiting_tasks(rows)]


def _table_of_empty_tasks(rows: Rows) -> Table:
    head = ("pool", "tasks at once", "no result, tasks/s", "CPU µs each", "result kept, tasks/s", "CPU µs each ")
    lines = [
        [
            pool,
            f"{samples[0].in_flight:,}",
            *_cells(
                samples,
                lambda one: one.empty,
                lambda one: 1e6 * one.empty_cpu,
                lambda one: one.kept,
                lambda one: 1e6 * one.kept_cpu,
            ),
        ]
        for pool, samples in rows.items()
    ]
    return Table("Empty tasks", head, lines)


def _table_of_waiting_tasks(rows: Rows) -> Table:
    seconds = next(iter(rows.values()))[0].seconds
    lines = [
        [
            pool,
            f"{samples[0].in_flight:,}",
            *_cells(
                samples,
                lambda one: one.waiting,
                lambda one: 100 * one.of_ideal,
                lambda one: 1e6 * one.waiting_cpu,
                lambda one: one.idle / 1e6,
                lambda one: one.busy / 1e6,
                lambda one: added(one) / one.in_flight / 1e3,
            ),
        ]
        for pool, samples in rows.items()
    ]
    head = (
        *("pool", "tasks at once", "tasks/s", "of the ideal, %", "CPU µs each"),
        *("worker idle, MB", "all waiting, MB", "KB a task"),
    )
    return Table(f"Tasks that wait {seconds:g} s", head, lines)
