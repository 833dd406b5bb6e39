"""The output of ``python -m dhaga top``: the table, printed once or shown live in a terminal."""

from __future__ import annotations

import argparse
import io
import json
import signal
import sys
import time
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

from rich.console import Console
from rich.live import Live

from .._kernel.platform.system import system
from ..debug._on_demand import KEEP_SECONDS
from ..debug._remote.client import InspectorClient
from ..debug._remote.not_answered import NotAnswered, ProcessEnded
from . import top_table
from .top_screen import Screen

if TYPE_CHECKING:
    from .keyboard import KeyReader

SAMPLE_SECONDS = 0.5
"""Number of seconds between the two queries of ``--once``. CPU shares are measured over this time."""


def show(options: argparse.Namespace) -> None:
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # not every terminal can show ▾ and ×
    with InspectorClient(options.pid) as client:
        terminal = system.READS_KEYS and sys.stdin.isatty() and sys.stdout.isatty() and not Console().is_dumb_terminal
        if options.once or options.json or not terminal:
            show_once(client, options)
        else:
            watch(client, options)


def show_once(client: InspectorClient, options: argparse.Namespace) -> None:
    """Print one table as JSON or text. A text is as wide as the terminal; in a pipe, it has ``PIPE_COLUMNS``."""
    grouped = options.grouped and not options.json
    question = {"filter": options.filter, "sort": options.sort, "most": options.rows, "grouped": grouped}
    client.ask("table", **question)
    time.sleep(SAMPLE_SECONDS)
    answer = client.ask("table", **question)
    if options.json:
        print(json.dumps(answer))
        return
    console = Console() if sys.stdout.isatty() else Console(width=PIPE_COLUMNS)
    table = top_table.table_of(answer, answer["rows"], options.sort, console.width)
    console.print(*top_table.summary(answer, options.filter), table, *top_table.hidden(answer), sep="\n")


PIPE_COLUMNS = 160
"""Width in columns of a table that is printed to a pipe or a file."""

PAUSE_PER_LOOK = 9
"""The pause after a query, as a multiple of the query's duration. Queries take at most 10 % of the process's time.

A query takes 40 ms with 10,000 dhagas, and 0.5 s with 100,000 dhagas.
"""


MEASURE_SECONDS = KEEP_SECONDS / 2
"""Maximum number of seconds between two queries. After ``KEEP_SECONDS``, the process would stop its measurement."""


def watch(client: InspectorClient, options: argparse.Namespace) -> None:
    """Show the table until the user quits or the process ends."""
    from .keyboard import cbreak_keys  # the module is not available on every platform

    previous = signal.signal(signal.SIGTERM, exit_on_sigterm)
    try:
        screen = Screen(client, options.filter, options.sort, options.grouped)
        screen.refresh()
        with cbreak_keys(sys.stdin.fileno()) as pressed, Live(screen=True, auto_refresh=False) as live:
            run(screen, pressed, live, options.interval)
    except ProcessEnded as error:
        print(error)  # the normal end of a watched process, not an error
    except EOFError:
        pass
    finally:
        signal.signal(signal.SIGTERM, previous)


def exit_on_sigterm(number: int, frame: FrameType | None) -> NoReturn:
    """Raise SystemExit at SIGTERM, so that the terminal is restored."""
    raise SystemExit(128 + number)


def run(screen: Screen, pressed: KeyReader, live: Live, interval: float) -> None:
    due = time.monotonic() + interval
    while not screen.finished:
        screen.width, screen.height = live.console.size
        live.update(screen.draw(), refresh=True)
        pause = due - time.monotonic()
        key = pressed.wait(min(pause, MEASURE_SECONDS))
        try:
            if key is not None:
                screen.press(key)
            elif pause > MEASURE_SECONDS:
                screen.client.ask("measure")
            else:
                began = time.monotonic()
                screen.refresh()
                due = time.monotonic() + max(interval, (time.monotonic() - began) * PAUSE_PER_LOOK)
        except ProcessEnded:
            raise
        except NotAnswered as error:
            screen.message = str(error)
