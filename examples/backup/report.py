"""The final output of a command, as text and as JSON."""

from __future__ import annotations

import json
import sys
import time
from typing import Final

from .catalogue import Snapshot
from .jobs import Summary
from .wire import printable

COLUMNS: Final = ("files", "MB", "MB sent", "MB known", "s", "MB/s", "MB RSS", "CPU s")
SHOWN: Final = 20  # maximum number of problems, and of notes; the JSON contains all


def cells(summary: Summary) -> list[str]:
    """Give a summary's values in the order of COLUMNS."""
    return [
        f"{summary.files:,}",
        f"{summary.bytes / 1e6:,.1f}",
        f"{summary.sent / 1e6:,.1f}",
        f"{summary.deduplicated / 1e6:,.1f}",
        f"{summary.seconds:.2f}",
        f"{summary.rate / 1e6:.1f}",
        f"{summary.peak_rss / 1e6:.0f}",
        f"{summary.cpu_seconds:.2f}",
    ]


def table(headings: list[str], rows: list[list[str]]) -> str:
    """Return a table whose first column is left-aligned, and whose other columns are right-aligned."""
    widths = [max(map(len, column)) for column in zip(headings, *rows, strict=True)]
    lines = [headings, ["-" * width for width in widths], *rows]
    return "\n".join(
        "  ".join([line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])]).rstrip() for line in lines
    )


def show_summary(summary: Summary, *, as_json: bool) -> None:
    """Print a summary, and print the messages about single files on standard error."""
    for title, lines in (("problem", summary.problems), ("note", summary.notes)):
        for line in lines[:SHOWN]:
            print(f"{title}: {line}", file=sys.stderr)
        if len(lines) > SHOWN:
            print(f"{title}: and {len(lines) - SHOWN} more (--json gives all)", file=sys.stderr)
    if as_json:
        print(json.dumps(summary.to_json()))
    else:
        print(f"snapshot {printable(summary.snapshot)}")
        print(table(list(COLUMNS), [cells(summary)]))


def show_snapshots(snapshots: list[Snapshot]) -> None:
    """Print what a server holds."""
    rows = [
        [printable(one.name), f"{one.files:,}", f"{one.bytes:,}", time.strftime("%F %T", time.localtime(one.committed))]
        + [printable(f"{one.host}:{one.source}")]
        for one in snapshots
    ]
    print(table(["snapshot", "files", "bytes", "committed", "source"], rows))
