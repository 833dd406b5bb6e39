"""``python -m dhaga dump PID``: prints the state and the stack of every dhaga of a running process."""

from __future__ import annotations

import argparse
import json

from ..debug._remote.client import InspectorClient, exit_status, printable
from .arguments import CommandLine, process_id

PROGRAM = "python -m dhaga dump"


def main(arguments: list[str]) -> int:
    """Print the dump of a process. Returns: the exit status."""
    options = command_line().parse_args(arguments)
    return exit_status(PROGRAM, lambda: dump(options))


def dump(options: argparse.Namespace) -> None:
    with InspectorClient(options.pid) as client:
        if options.json:
            print(json.dumps(client.ask("snapshot")))
        else:
            text = client.ask("dump", ident=options.ident)["text"]
            print("\n".join(map(printable, text.splitlines())))


def command_line() -> argparse.ArgumentParser:
    parser = CommandLine(
        "dump",
        "PID",
        description="For each dhaga of a live process, print its wait, the holder of the awaited object, and its stack."
        " Deadlocks come first. The process keeps running meanwhile. It must have an inspector: start it with "
        "DHAGA_DEBUG=1 in its environment, or call dhaga.debug.inspect() in it.",
    )
    add = parser.add_argument
    add("pid", metavar="PID", type=process_id, help=argparse.SUPPRESS)
    add("--ident", metavar="N", type=int, default=0, help="print only this dhaga; python -m dhaga top shows the idents")
    add("--json", action="store_true", help="print JSON: what dhaga.debug.snapshot() returns")
    return parser
