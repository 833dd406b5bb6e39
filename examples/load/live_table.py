"""What is shown while a test goes on: a progress bar and a live table in a terminal, plain lines elsewhere.

Both are drawn on standard error, where a terminal is; standard output then holds the summary alone.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, Protocol

import dhaga
from dhaga.metrics import RateMeter
from examples._late import Late

from .load import Load
from .quantities import percent, told
from .statistics import Statistics, Tally

console: Any = Late("rich.console")
live: Any = Late("rich.live")
bar: Any = Late("rich.progress_bar")
rich_table: Any = Late("rich.table")
text: Any = Late("rich.text")

TURN = 1.0
"""Seconds between two looks: to draw the table takes 3 to 8 ms, for which a request may have to wait."""

PLAIN = 5.0  # seconds between two lines
ROWS = 15  # of the table: the busiest names
BAR = 40  # characters of the progress bar
COLUMNS = ("requests", "count", "failed", "p50", "p99", "max")


class Display(Protocol):
    """How it is shown."""

    turn: float

    def show(self, title: str, load: Load) -> None:
        """Show how things stand."""

    def say(self, line: str) -> None:
        """Print a line that stays."""


class LiveTable:
    """A progress bar and a table that are drawn anew, in a terminal."""

    turn = TURN

    def __init__(self, live: Any) -> None:
        self.live = live

    def show(self, title: str, load: Load) -> None:
        """Draw how much of the test is over, the table, and under it the commonest failures."""
        book = load.book
        table = rich_table.Table(*COLUMNS, caption=failures(book), caption_justify="left")
        for column in table.columns[1:]:
            column.justify = "right"
        busiest = sorted(book.tallies.items(), key=lambda pair: -pair[1].done.total)
        for name, tally in busiest[:ROWS]:
            table.add_row(name, *cells(tally))
            dhaga.sleep(0)  # percentiles take 2 ms a row
        self.live.update(console.Group(progress(load), text.Text(title), table), refresh=True)

    def say(self, line: str) -> None:
        """Print a line above the table."""
        self.live.console.print(line, highlight=False, markup=False)


class PlainLines:
    """Plain lines."""

    turn = PLAIN

    def show(self, title: str, load: Load) -> None:
        """Print how things stand."""
        print(title, flush=True)

    def say(self, line: str) -> None:
        """Print a line."""
        print(line, flush=True)


class NoDisplay:
    """Nothing."""

    turn = PLAIN

    def show(self, title: str, load: Load) -> None:
        """Show nothing."""

    def say(self, line: str) -> None:
        """Say nothing."""


def progress(load: Load) -> Any:
    """Return a bar of the time, and what is left of it; then what is still awaited."""
    left = load.lasting * (1 - load.share)
    words = f"{load.share:.0%} of {load.lasting:,.6g} s, {left:,.0f} s left" if left else "awaits what is under way"
    line = rich_table.Table.grid(padding=(0, 1))
    line.add_row(bar.ProgressBar(total=1.0, completed=load.share, width=BAR), words)
    return line


def cells(tally: Tally) -> list[str]:
    """Return what the table tells of the requests of one name."""
    latencies = [told(tally.latencies.value(what)) for what in ("p50", "p99", "max")]
    return [f"{tally.done.total:,}", f"{tally.failed.total:,}", *latencies]


def failures(book: Statistics) -> str:
    """Name the commonest failures of runs."""
    return "\n".join(f"{count:,} x {what}" for what, count in book.failures.most_common(3))


@contextlib.contextmanager
def shown(load: Load, quiet: bool = False) -> Iterator[Display]:
    """Show how a test goes on while the block runs."""
    screen = console.Console(stderr=True)
    with contextlib.ExitStack() as stack:
        face: Display = NoDisplay() if quiet else PlainLines()
        if screen.is_terminal and not quiet:
            face = LiveTable(stack.enter_context(live.Live(console=screen, auto_refresh=False, transient=True)))
        if not quiet:
            watcher = dhaga.spawn(follow, face, load, name="screen", daemon=True, priority=dhaga.LOW)
            stack.callback(watcher.join)
            stack.callback(watcher.cancel)
        yield face


def follow(face: Display, load: Load) -> None:
    """Show how things stand, again and again. Parks: `sleep`."""
    began, book = load.clock(), load.book
    meter = RateMeter(book.ended.counter, load.clock)
    while True:
        dhaga.sleep(face.turn)
        if book is not load.book:
            book = load.book
            meter = RateMeter(book.ended.counter, load.clock)
            continue
        face.show(title(load.clock() - began, meter.read().rate, book), load)


def title(seconds: float, rate: float, book: Statistics) -> str:
    """Return the line that tells how things stand."""
    ended = book.passed.total + book.failed.total
    bad = book.failed.total + book.dropped.total
    failed = percent(bad / (ended + book.dropped.total)) if ended else "–"
    return f"{seconds:4.0f} s  {rate:8,.0f} runs/s  {book.under_way:6,} under way  {failed} failed"
