"""Converts results to Markdown: the table, the figures of the load generator, and the conditions of the measurement."""

import statistics
from collections.abc import Iterable, Mapping, Sequence

from benchmarks.kernel.rows import COLUMNS, ROWS, Row, Target, Unit
from benchmarks.kernel.runner import Results
from benchmarks.markdown import table


def _value(sample: float, unit: Unit) -> str:
    return f"{sample * unit.factor:,.{unit.digits}f}"


def _cell(results: Results, row: Row, column: str) -> str:
    """Return the medians of a rival's forms, each with the form's name; a first form may have no name."""
    parts = []
    for rival in row.forms(column):
        form = rival.partition(":")[2]
        median = results.median(row, rival)
        if median is not None:
            parts.append(f"{_value(median, row.unit)} {form}".strip())
        elif rival in results.failures.get(row.name, {}):
            parts.append(f"failed {form}".strip())
    return ", ".join(parts) or "–"


def _bound(target: Target, unit: Unit) -> str:
    sign = "≥" if target.of_rate else "≤"
    if target.than is None:
        return f"{sign} {target.bound:g} {unit.name}"
    return f"{sign} {target.bound:g}x {target.than}"


def _line(results: Results, row: Row) -> list[str]:
    """Return the cells of one row."""
    ratios = [results.ratio(row, target) for target in row.targets]
    texts = ["–" if ratio is None else f"{ratio:.2f}" for ratio in ratios]
    verdicts = [
        "–" if ratio is None else ("yes" if target.reached(ratio) else "**no**")
        for ratio, target in zip(ratios, row.targets, strict=True)
    ]
    bounds = ", ".join(_bound(target, row.unit) for target in row.targets)
    medians = (_cell(results, row, column) for column in COLUMNS)
    return [f"{row.title}, {row.unit.name}", bounds, *medians, ", ".join(texts), ", ".join(verdicts)]


def _load_line(loads: Sequence[Mapping[str, float]]) -> list[str]:
    """Return rate, latencies and CPU shares, and the rate that the server would reach with a whole CPU."""
    medians = {key: statistics.median(load[key] for load in loads) for key in loads[0]}
    cells = [f"{medians['rate'] / 1e3:,.1f}", f"{medians['p50']:,.0f}", f"{medians['p99']:,.0f}"]
    cells.append(f"{100 * medians['cpu']:.0f} %")
    if "server_cpu" not in medians:
        return [*cells, "–", "–"]
    whole = statistics.median(load["rate"] / load["server_cpu"] for load in loads)
    return [*cells, f"{100 * medians['server_cpu']:.0f} %", f"{whole / 1e3:,.1f}"]


def _load_lines(results: Results) -> Iterable[list[str]]:
    for row in ROWS:
        for rival, loads in results.loads.get(row.name, {}).items():
            yield [row.name, rival, *_load_line(loads)]


def _where(results: Results) -> str:
    where, effort = results.where, results.where["effort"]
    versions = ", ".join(f"{name} {number}" for name, number in where["versions"].items())
    profile = "with" if where["python built with profile"] else "without"
    ran = f", dhaga {where['accelerator']}" if "accelerator" in where else ""
    pinned = "server and load on a CPU each" if where["pinned"] else "server and load not pinned"
    return (
        f"{where['python']} (built {profile} profile-guided optimization), {versions}{ran}; {where['system']}, "
        f"{where['cpus']} x {where['processor']}. Medians of {effort['rounds']} rounds, the rivals in turn, "
        f"each measurement in a process of its own; loops of at least {effort['loop']:g} s, {effort['load']:g} s "
        f"under load; echo load: {where['load']}, {pinned}."
    )


def markdown(results: Results) -> str:
    """Return the whole report."""
    measured = [row for row in ROWS if row.name in results.samples or row.name in results.failures]
    head = ["work, unit", "target", *COLUMNS, "ratio", "reached"]
    parts = [_where(results), table(head, (_line(results, row) for row in measured)), NOTES]
    if results.loads:
        head = ["row", "server", "k msg/s", "p50 µs", "p99 µs", "load CPU", "server CPU", "k msg per server CPU s"]
        parts.append(table(head, _load_lines(results)))
    failures = [f"- {row}, {rival}: {why}" for row, each in results.failures.items() for rival, why in each.items()]
    if failures:
        parts.append("\n".join(["Failed:", *failures]))
    return "\n\n".join(parts)


NOTES = """\
Ratios: "≥" compares rates, "≤" compares costs (time, memory), Dhaga's over the other's, as the median of the ratios
within a round; of several forms the first counts. raw: bare greenlets, a bare epoll loop. gevent untracked: spawn
without its record of who spawned whom. gevent's Condition is the standard one under monkey patching. Threads: no yield
(an offered GIL need not be taken), no 100,000 (memory is that of 10,000). Sleeping: CPU time from first spawn to last
wake, all 100,000 asleep at once."""
