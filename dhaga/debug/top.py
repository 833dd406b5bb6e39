"""``python -m dhaga top PID``: the dhagas of a live process in a table that is drawn anew every second."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from types import FrameType
from typing import NoReturn

from rich.console import Console
from rich.live import Live

from . import tables
from .asked import Ended, Line, NotAnswered, process, status_of
from .crowds import SHOWN, SORTS
from .keys import Keys, keys
from .screens import Screen

PROGRAM = "python -m dhaga top"
INTERVAL = 1.0
SAMPLE_SECONDS = 0.5
"""Between the two looks of ``--once``, in which the shares are taken."""


def main(arguments: list[str]) -> int:
    """Show the table, live or once. Returns: an exit status."""
    options = command_line().parse_args(arguments)
    return status_of(PROGRAM, lambda: show(options))


def show(options: argparse.Namespace) -> None:
    with Line(options.pid) as line:
        if options.once or options.json or not (sys.stdin.isatty() and sys.stdout.isatty()):
            show_once(line, options)
        else:
            watch(line, options)


def show_once(line: Line, options: argparse.Namespace) -> None:
    """Print one table: as JSON, as wide as the terminal, or as wide as it comes where that goes into a pipe."""
    question = {"filter": options.filter, "sort": options.sort, "most": options.rows}
    line.ask("table", **question)
    time.sleep(SAMPLE_SECONDS)
    answer = line.ask("table", **question)
    if options.json:
        print(json.dumps(answer))
        return
    console = Console() if sys.stdout.isatty() else Console(width=WIDE)
    console.print(tables.summary(answer, options.filter, options.sort))
    console.print(tables.table_of(answer["rows"], answer["measured"]))


WIDE = 160
"""Columns of a table that goes to no terminal."""

SPARING = 9
"""A look is followed by so many times what it took, so that at most a tenth of a process's time goes there: one takes
40 ms where there are 10,000 dhagas, 0.5 s where there are 100,000.
"""


def watch(line: Line, options: argparse.Namespace) -> None:
    """Show the table until somebody quits, or the process ends."""
    former = signal.signal(signal.SIGTERM, end)
    try:
        screen = Screen(line, options.filter, options.sort)
        screen.refresh()
        with keys(sys.stdin.fileno()) as pressed, Live(screen=True, auto_refresh=False) as live:
            run(screen, pressed, live, options.interval)
    except Ended as error:
        print(error)  # as happens to processes
    except EOFError:
        pass
    finally:
        signal.signal(signal.SIGTERM, former)


def end(number: int, frame: FrameType | None) -> NoReturn:
    """Leave by the way on which the terminal is put in order."""
    raise SystemExit(128 + number)


def run(screen: Screen, pressed: Keys, live: Live, interval: float) -> None:
    due = time.monotonic() + interval
    while not screen.over:
        screen.height = live.console.height
        live.update(screen.draw(), refresh=True)
        key = pressed.wait(due - time.monotonic())
        try:
            if key is not None:
                screen.press(key)
            else:
                began = time.monotonic()
                screen.refresh()
                due = time.monotonic() + max(interval, (time.monotonic() - began) * SPARING)
        except Ended:
            raise
        except NotAnswered as error:
            screen.message = str(error)


def command_line() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        description="Show the dhagas of a live process: state, reason, and the share of the time in which each one ran "
        "(measured while this is shown, by some 0.6 µs a switch). The process must have an inspector: start it with "
        "DHAGA_DEBUG=1 in its environment, or have it call dhaga.debug.inspect().",
        epilog="Keys: q quit; / filter; s next sort; up and down choose; enter dump of one; x, y cancel it.",
    )
    add = parser.add_argument
    add("pid", metavar="PID", type=process, help="of the process")
    add("--filter", metavar="TEXT", default="", help="only those with this in name, state, reason or scheduler")
    add("--sort", choices=SORTS, default="share", help="(share)")
    add("--interval", metavar="SECONDS", type=seconds, default=INTERVAL, help=f"between two looks ({INTERVAL:g})")
    add("--once", action="store_true", help="print the table and end; so it is, too, where there is no terminal")
    add("--rows", metavar="N", type=int, default=SHOWN, help=f"at most, where it is printed once ({SHOWN})")
    add("--json", action="store_true", help="print once, as JSON")
    return parser


def seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0.05 <= value <= 3600:
        raise argparse.ArgumentTypeError(f"{text!r} is not between 0.05 and 3600 seconds")
    return value
