"""The chart of a night: ``python -m tests.soak.night.chart night.jsonl benchmarks/results/night.svg``."""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import groupby
from pathlib import Path

from matplotlib.axes import Axes

from benchmarks.tables.charts import COLOURS, Chart, stacked
from benchmarks.tables.svg import inline
from tests.soak.machine import MB
from tests.soak.night.record import Record, read

PANELS = {"memory": "resident memory, MB", "fds": "descriptors", "threads": "OS threads", "dhagas": "dhagas"}
ROLES = {"worker": COLOURS["dhaga"], "master": COLOURS["threads"]}
AWAY = {"redis away": COLOURS["asyncio"], "postgres away": COLOURS["gevent"]}
HOUR, MINUTE = 3600.0, 60.0


def chart(record: Record) -> Chart:
    """Draw what each process had over time, a line a process, with the troubles behind."""
    long = record.about["ran"]
    unit, name = (HOUR, "hours") if long > 2 * HOUR else (MINUTE, "minutes")

    def panel(quantity: str) -> Callable[[Axes], None]:
        def draw(axes: Axes) -> None:
            draw_troubles(axes, record, unit)
            draw_processes(axes, record, quantity, unit)
            axes.set_ylim(bottom=0)
            axes.set_ylabel(PANELS[quantity], fontsize="small")
            if quantity == "memory":
                axes.legend(loc="lower right", fontsize="x-small", ncols=len(ROLES) + len(AWAY) + 1)
            if quantity == list(PANELS)[-1]:
                axes.set_xlabel(name)

        return draw

    right, failures = record.about["right"], len(record.about["failures"])
    caption = f"`serve` with two workers for {long / unit:.0f} {name}: {right:,} right answers, {failures} failures"
    return stacked(caption, [panel(quantity) for quantity in PANELS], height=7.0)


def draw_troubles(axes: Axes, record: Record, unit: float) -> None:
    """Draw outages as bands, and reloads as dashed lines."""
    labelled = set()
    for moment, what, seconds in record.events:
        label = None if what in labelled else what
        labelled.add(what)
        begin = moment / unit
        if what in AWAY:
            width = max(seconds / unit, 0.002 * record.about["ran"] / unit)
            axes.axvspan(begin, begin + width, color=AWAY[what], alpha=0.35, linewidth=0, label=label)
        else:
            axes.axvline(begin, color=COLOURS["raw"], linestyle="--", linewidth=1, label=label)


def draw_processes(axes: Axes, record: Record, quantity: str, unit: float) -> None:
    """Draw a line for each process."""
    labelled = set()
    for (role, _), samples in groupby(
        sorted(record.samples, key=lambda each: each[1:3]), key=lambda each: (each.role, each.pid)
    ):
        if role == "master" and quantity == "dhagas":
            continue
        found = sorted(samples)
        scale = MB if quantity == "memory" else 1
        label = None if role in labelled else role
        labelled.add(role)
        moments = [each.moment / unit for each in found]
        axes.plot(
            moments, [getattr(each, quantity) / scale for each in found], color=ROLES[role], linewidth=1.2, label=label
        )


def main(record: str, picture: str) -> None:
    """Write the picture of a record."""
    drawn = chart(read(Path(record)))
    words = "memory, descriptors, OS threads and dhagas of each process over time"
    Path(picture).write_text(inline(drawn.svg, "night", drawn.caption, words) + "\n")
    print(drawn.caption)


if __name__ == "__main__":
    main(*sys.argv[1:])
