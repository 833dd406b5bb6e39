"""What is shown while a test goes on: a live table in a terminal, plain lines elsewhere."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Protocol

from rich.console import Console
from rich.live import Live
from rich.table import Table

import dhaga
from dhaga.metrics import RateMeter

from .books import Book, Tally
from .load import Load
from .quantities import percent, told

TURN = 1.0
"""Seconds between two looks: to draw the table takes 3 to 8 ms, for which a request may have to wait."""

PLAIN = 5.0  # seconds between two lines
ROWS = 15  # of the table: the busiest names
COLUMNS = ("requests", "count", "failed", "p50", "p99", "max")


class Face(Protocol):
    """How it is shown."""

    turn: float

    def show(self, title: str, book: Book) -> None:
        """Show how things stand."""

    def say(self, line: str) -> None:
        """Print a line that stays."""


class Screen:
    """A table that is drawn anew, in a terminal."""

    turn = TURN

    def __init__(self, live: Live) -> None:
        self.live = live

    def show(self, title: str, book: Book) -> None:
        """Draw the table, and under it the commonest failures."""
        table = Table(*COLUMNS, title=title, title_justify="left", caption=failures(book), caption_justify="left")
        for column in table.columns[1:]:
            column.justify = "right"
        busiest = sorted(book.tallies.items(), key=lambda pair: -pair[1].done.total)
        for name, tally in busiest[:ROWS]:
            table.add_row(name, *cells(tally))
            dhaga.sleep(0)  # percentiles take 2 ms a row
        self.live.update(table, refresh=True)

    def say(self, line: str) -> None:
        """Print a line above the table."""
        self.live.console.print(line, highlight=False, markup=False)


class Lines:
    """Plain lines."""

    turn = PLAIN

    def show(self, title: str, book: Book) -> None:
        """Print how things stand."""
        print(title, flush=True)

    def say(self, line: str) -> None:
        """Print a line."""
        print(line, flush=True)


class Quiet:
    """Nothing."""

    turn = PLAIN

    def show(self, title: str, book: Book) -> None:
        """Show nothing."""

    def say(self, line: str) -> None:
        """Say nothing."""


def cells(tally: Tally) -> list[str]:
    """Return what the table tells of the requests of one name."""
    latencies = [told(tally.latencies.value(what)) for what in ("p50", "p99", "max")]
    return [f"{tally.done.total:,}", f"{tally.failed.total:,}", *latencies]


def failures(book: Book) -> str:
    """Name the commonest failures of runs."""
    return "\n".join(f"{count:,} x {what}" for what, count in book.failures.most_common(3))


@contextlib.contextmanager
def shown(load: Load, quiet: bool = False) -> Iterator[Face]:
    """Show how a test goes on while the block runs."""
    console = Console()
    with contextlib.ExitStack() as stack:
        face: Face = Quiet() if quiet else Lines()
        if console.is_terminal and not quiet:
            face = Screen(stack.enter_context(Live(console=console, auto_refresh=False, transient=True)))
        if not quiet:
            watcher = dhaga.spawn(follow, face, load, name="screen", daemon=True, priority=dhaga.LOW)
            stack.callback(watcher.join)
            stack.callback(watcher.cancel)
        yield face


def follow(face: Face, load: Load) -> None:
    """Show how things stand, again and again. Parks: `sleep`."""
    began, book = load.clock(), load.book
    meter = RateMeter(book.ended.counter, load.clock)
    while True:
        dhaga.sleep(face.turn)
        if book is not load.book:
            book = load.book
            meter = RateMeter(book.ended.counter, load.clock)
            continue
        face.show(title(load.clock() - began, meter.read().rate, book), book)


def title(seconds: float, rate: float, book: Book) -> str:
    """Return the line that tells how things stand."""
    ended = book.passed.total + book.failed.total
    bad = book.failed.total + book.dropped.total
    failed = percent(bad / (ended + book.dropped.total)) if ended else "–"
    return f"{seconds:4.0f} s  {rate:8,.0f} runs/s  {book.under_way:6,} under way  {failed} failed"
