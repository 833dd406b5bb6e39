"""The command line of ``python -m dhaga top PID``. ``top_terminal`` prints the command's output."""

from __future__ import annotations

import argparse

from ..debug._dhaga_table import DEFAULT_ROWS, SORTS
from ..debug._remote.client import exit_status
from .arguments import CommandLine, extra, process_id, seconds_between

PROGRAM = "python -m dhaga top"
INTERVAL = 1.0


def main(arguments: list[str]) -> int:
    """Show the table, live or once. Returns: the exit status."""
    options = command_line().parse_args(arguments)
    with extra("top"):
        from .top_terminal import show
    return exit_status(PROGRAM, lambda: show(options))


def command_line() -> argparse.ArgumentParser:
    parser = CommandLine(
        "top",
        "PID",
        description="Show the dhagas of a live process; meanwhile each switch costs it 1 µs more. Held: the "
        "share of the time in which a dhaga had its OS thread; cpu: the share in which it computed. The process must "
        "have an inspector: start it with DHAGA_DEBUG=1 in its environment, or call dhaga.debug.inspect() in it.",
        epilog="Keys: q quit; / filter; s change the order; g group or not; up and down choose a row; enter dump a "
        "dhaga, unfold a group; x, then y: cancel a dhaga.",
    )
    add = parser.add_argument
    add("pid", metavar="PID", type=process_id, help=argparse.SUPPRESS)
    add(
        "--filter",
        metavar="TEXT",
        default="",
        help="only dhagas with TEXT in name, state, reason or scheduler",
    )
    add(
        "--sort",
        metavar="COLUMN",
        choices=SORTS,
        default="held",
        help=f"order of the rows (default: held; share: of the CPU): {', '.join(SORTS)}",
    )
    add(
        "--interval",
        metavar="SECONDS",
        type=seconds_between(0.05, 3600),
        default=INTERVAL,
        help=f"time between two updates (default: {INTERVAL:g})",
    )
    add(
        "--once",
        action="store_true",
        help="print the table; the default without a terminal",
    )
    add(
        "--rows",
        metavar="N",
        type=int,
        default=DEFAULT_ROWS,
        help=f"most rows with --once (default: {DEFAULT_ROWS})",
    )
    add(
        "--ungrouped",
        dest="grouped",
        action="store_false",
        help="a row for each dhaga, without groups",
    )
    add("--json", action="store_true", help="print the table once, as JSON")
    return parser
