"""The output of ``python -m dhaga top``: the table, once or live in a terminal."""

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
from ..debug._remote.client import InspectorClient
from ..debug._remote.not_answered import NotAnswered, ProcessEnded
from . import top_table
from .top_screen import Screen

if TYPE_CHECKING:
    from .keyboard import KeyReader

SAMPLE_SECONDS = 0.5
"""Seconds between the two queries of ``--once``, over which CPU shares are measured."""


def show(options: argparse.Namespace) -> None:
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # not every terminal has ▾ and ×
    with InspectorClient(options.pid) as client:
        terminal = system.READS_KEYS and sys.stdin.isatty() and sys.stdout.isatty() and not Console().is_dumb_terminal
        if options.once or options.json or not terminal:
            show_once(client, options)
        else:
            watch(client, options)


def show_once(client: InspectorClient, options: argparse.Namespace) -> None:
    """Print one table: as JSON, as wide as the terminal, or ``PIPE_COLUMNS`` wide into a pipe."""
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
"""Width of a table that is printed to a pipe or a file."""

PAUSE_PER_LOOK = 9
"""The pause after a query, as a multiple of its duration: the process spends at most a tenth of its time on queries.

A query takes 40 ms with 10,000 dhagas, 0.5 s with 100,000.
"""


def watch(client: InspectorClient, options: argparse.Namespace) -> None:
    """Show the table until the user quits or the process ends."""
    from .keyboard import cbreak_keys  # not on every platform

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
    """Signal handler: exit by an exception, so that the terminal is restored."""
    raise SystemExit(128 + number)


def run(screen: Screen, pressed: KeyReader, live: Live, interval: float) -> None:
    due = time.monotonic() + interval
    while not screen.finished:
        screen.width, screen.height = live.console.size
        live.update(screen.draw(), refresh=True)
        key = pressed.wait(due - time.monotonic())
        try:
            if key is not None:
                screen.press(key)
            else:
                began = time.monotonic()
                screen.refresh()
                due = time.monotonic() + max(interval, (time.monotonic() - began) * PAUSE_PER_LOOK)
        except ProcessEnded:
            raise
        except NotAnswered as error:
            screen.message = str(error)
