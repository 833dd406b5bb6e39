"""``python -m dhaga dump PID``: print the state and stack of every dhaga of a live process."""

from __future__ import annotations

import argparse
import json

from ..debug._remote.client import InspectorClient, exit_status, printable
from .arguments import process_id

PROGRAM = "python -m dhaga dump"


def main(arguments: list[str]) -> int:
    """Print the dump of a process. Returns: an exit status."""
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
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        description="Print who waits for what in a live process, since when, who holds that, and where each is in "
        "its code; circles of waits are named first. The process goes on meanwhile. It must have an inspector: start "
        "it with DHAGA_DEBUG=1 in its environment, or have it call dhaga.debug.inspect().",
    )
    add = parser.add_argument
    add("pid", metavar="PID", type=process_id, help="of the process")
    add("--ident", metavar="N", type=int, default=0, help="only this dhaga; python -m dhaga top tells the numbers")
    add("--json", action="store_true", help="all of it as JSON: what dhaga.debug.snapshot() gives")
    return parser
