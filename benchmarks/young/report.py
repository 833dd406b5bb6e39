"""The tables of `docs/explained/why.md`, from results/young.json."""

from __future__ import annotations

import re
from statistics import median
from typing import Any

from benchmarks.markdown import table
from benchmarks.tables.number_format import printed

WORKS = {
    "spawn_join": ("spawn and join", 1e6, "µs"),
    "yield_ring": ("yield, 100 microthreads", 1e9, "ns"),
    "ping_pong": ("ping-pong over two queues", 1e6, "µs"),
    "await_coroutine": ("await a coroutine in a microthread", 1e6, "µs"),
    "sleepers seconds": ("10,000 sleep at once: CPU time of each", 1e6, "µs"),
    "sleepers bytes": ("10,000 sleep at once: memory of each", 1e-3, "KB"),
}
"""The works in the order of the table: title, factor and unit."""

SEARCHES = {
    "wrong_order_of_coroutines": "runs until a wrong order of two coroutines is found",
    "wrong_order_of_threads": "runs until a wrong order of two threads is found",
}


def name_of(release: str, own: str) -> str:
    """Return a framework's name and version, as a head of the table."""
    return re.sub(r"(\[\w+\])?==", " ", release) or own.title()


def frameworks(results: dict[str, Any]) -> str:
    """Return the table of the works of each framework; the least figure of each row is bold."""
    releases: dict[str, str] = results["releases"]
    lines = []
    for work, (title, factor, unit) in WORKS.items():
        found: dict[str, float] = results["works"][work]
        least = min(found.values())
        texts = {each: f"{printed(value * factor)} {unit}" for each, value in found.items()}
        cells = [f"**{texts[each]}**" if found.get(each) == least else texts.get(each, "–") for each in releases]
        lines.append([title, *cells])
    return table(["work", *(name_of(release, each) for each, release in releases.items())], lines)


def simulations(results: dict[str, Any]) -> str:
    """Return the table of what each simulation tool finds, and of the time of a run."""
    releases: dict[str, str] = results["simulation releases"]
    found: dict[str, dict[str, Any]] = results["simulations"]
    lines = [
        [title, *(tries_of(found[each].get(model), results["most"]) for each in releases)]
        for model, title in SEARCHES.items()
    ]
    times = [f"{printed(found[each]['coroutines_without_a_fault']['cpu'] * 1e3)} ms" for each in releases]
    lines.append(["CPU time of a run of two coroutines", *times])
    return table(["", *(name_of(release, each) for each, release in releases.items())], lines)


def tries_of(search: dict[str, Any] | None, most: int) -> str:
    """Return the median of the searches, or a text if nothing was found or tried."""
    if search is None:
        return "coroutines only"
    if None in search["tries"]:
        return f"not in {most}"
    return f"{median(search['tries']):g}"
