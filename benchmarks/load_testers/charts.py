"""The charts of the load testers."""

from typing import Any

from matplotlib.axes import Axes

from benchmarks.load_testers.report import ALIKE, FLAT_OUT, Rows, median, row_of, sizes
from benchmarks.load_testers.samples import RIVALS
from benchmarks.tables.charts import COLOURS, OURS, THEIRS, Chart, drawn


def _look(rival: str) -> dict[str, Any]:
    """Return the style of a rival; the lighter clients are paler."""
    light = rival == "dhaga light" or rival == ALIKE["dhaga light"]
    return {"color": COLOURS["dhaga" if rival in ALIKE else "gevent"], "alpha": 0.5 if light else 1.0}


def _bars(axes: Axes, values: dict[str, float], unit: str) -> None:
    for place, (rival, value) in enumerate(values.items()):
        axes.bar(place, value, **_look(rival))
        axes.annotate(f"{value:,.0f}", (place, value), ha="center", va="bottom")
    axes.set_xticks(range(len(values)), list(values))
    axes.set_ylabel(unit)


def _memory(axes: Axes, rows: Rows) -> None:
    for rival in RIVALS:
        found = [users for users in sizes(rows) if rival in rows[row_of(users)]]
        if found:
            values = [users * median(rows[row_of(users)][rival], "memory") / 1e6 for users in found]
            axes.plot(found, values, "o-", label=rival, linewidth=OURS if rival in ALIKE else THEIRS, **_look(rival))
    axes.set(xlabel="users", ylabel="MB", ylim=(0, None), xlim=(0, None))
    axes.legend()


def charts(rows: Rows) -> list[Chart]:
    """Draw rates, CPU time per request, and memory."""
    rates = {rival: median(samples, "rate") for rival, samples in rows[FLAT_OUT].items()}
    costs = {rival: 1e6 / median(samples, "rate_by_cpu") for rival, samples in rows[FLAT_OUT].items()}
    return [
        drawn("Requests a second of users without a pause", lambda axes: _bars(axes, rates, "requests/s")),
        drawn("The tester's CPU time for a request of theirs", lambda axes: _bars(axes, costs, "µs")),
        drawn("Memory that users add to the tester", lambda axes: _memory(axes, rows)),
    ]
