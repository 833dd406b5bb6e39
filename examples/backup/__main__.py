"""The command line: python -m examples.backup serve|backup|list|restore|verify.

Exit status: 0 done; 1 not done; 2 the command line is wrong; 3 done, but for the files that were reported; 130 Ctrl-C.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import re
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from . import client
from .jobs import AUTO, Plan, Summary, raise_descriptor_limit
from .report import show_snapshots, show_summary
from .rpc import Address, Client
from .server import serving
from .wire import BackupError
from .workers import DEFAULT_DHAGAS, DEFAULT_THREADS, UNITS

PORT: Final = 7411
REPORTED: Final = 3
INTERRUPTED: Final = 130
TOKEN_VARIABLE: Final = "BACKUP_TOKEN"
_UNITS_OF_SIZE: Final = {"": 1, "K": 1e3, "M": 1e6, "G": 1e9, "KI": 2**10, "MI": 2**20, "GI": 2**30}


# ---- values ----


def size(text: str) -> float:
    """Read a number of bytes, such as 500000, 2.5M or 1Mi."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMG]?I?)B?(?:/S)?", text.strip().upper())
    value = float(match[1]) * _UNITS_OF_SIZE.get(match[2], 0) if match else 0.0
    if not value:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a number of bytes per second: write one like 500K, 2.5M or 1Mi"
        )
    return value


def at_least_one(text: str) -> int:
    """Read a positive whole number."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 on")
    return int(text)


def seconds(text: str) -> float:
    """Read a number of seconds."""
    if not re.fullmatch(r"\d+(\.\d+)?", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds: write one like 30 or 0.5")
    return float(text)


def dhagas(text: str) -> int:
    """Read how many dhagas a thread gets."""
    return AUTO if text == "auto" else at_least_one(text)


def port(text: str) -> int:
    """Read a port; 0 is any free one."""
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is no port: write a number from 0 to 65535")
    return int(text)


def place(text: str) -> tuple[str, int]:
    """Read HOST:PORT; an IPv6 address stands in brackets."""
    match = re.fullmatch(r"(?:\[([^\]]+)\]|([^:]+))(?::(\d+))?", text)
    if not match:
        raise argparse.ArgumentTypeError(f"{text!r} is no server: write HOST:PORT, or [ADDRESS]:PORT for IPv6")
    return match[1] or match[2], port(match[3] or str(PORT))


# ---- the commands ----


def parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    top = argparse.ArgumentParser(prog="python -m examples.backup", description="Back directories up to a server.")
    commands = top.add_subparsers(required=True, metavar="COMMAND")
    _add_serve(commands.add_parser("serve", help="keep a store and serve it"))
    saving = _add_client(commands.add_parser("backup", help="save a directory"), "--to", run_backup)
    saving.add_argument("source", metavar="SRC")
    saving.add_argument(
        "--exclude", metavar="PATTERN", action="append", default=[], help="a name or path, with * and ?"
    )
    _add_client(commands.add_parser("list", help="list the snapshots"), "--from", run_list)
    restoring = _add_client(commands.add_parser("restore", help="write a snapshot's tree"), "--from", run_restore)
    restoring.add_argument("snapshot", metavar="SNAPSHOT", help="its name, how it begins, or `latest`")
    restoring.add_argument("destination", metavar="DEST")
    restoring.add_argument("--overwrite", action="store_true", help="DEST may hold files; those restored are replaced")
    restoring.add_argument(
        "--no-owners", action="store_true", help="all belongs to you, for a store that others may have written"
    )
    verifying = _add_client(
        commands.add_parser("verify", help="have a snapshot's chunks checked"), "--from", run_verify
    )
    verifying.add_argument("snapshot", metavar="SNAPSHOT")
    return top


def _add_serve(command: argparse.ArgumentParser) -> None:
    command.set_defaults(run=run_serve)
    command.add_argument("--store", metavar="DIR", type=Path, required=True)
    command.add_argument("--host", default="127.0.0.1")
    command.add_argument("--port", type=port, default=PORT)
    _add_common(command)


def _add_client(
    command: argparse.ArgumentParser, server: str, run: Callable[[argparse.Namespace], int]
) -> argparse.ArgumentParser:
    command.set_defaults(run=run)
    command.add_argument(server, dest="server", metavar="HOST:PORT", type=place, required=True)
    _add_common(command)
    command.add_argument("--dhagas", metavar="N", type=dhagas, help="per thread; `auto`: as many as help")
    command.add_argument("--bandwidth", metavar="RATE", type=size, default=0.0, help="bytes a second, such as 2.5M")
    command.add_argument(
        "--patience", metavar="SECONDS", type=seconds, default=60.0, help="how long to try to get through"
    )
    command.add_argument("--json", action="store_true", help="print the summary as JSON")
    return command


def _add_common(command: argparse.ArgumentParser) -> None:
    command.add_argument("--workers", choices=sorted(UNITS), default="dhagas", help="what the work is done in")
    command.add_argument("--threads", metavar="T", type=at_least_one, help="OS threads")
    command.add_argument("--token", default=os.environ.get(TOKEN_VARIABLE, ""), help=f"or in {TOKEN_VARIABLE}")


def run_serve(options: argparse.Namespace) -> int:
    """Serve until a signal comes."""
    if not options.token and options.host not in ("127.0.0.1", "::1", "localhost"):
        raise BackupError(f"serving {options.host} to all: set --token or {TOKEN_VARIABLE}")
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    raise_descriptor_limit()
    unit = UNITS[options.workers]()
    address = (options.host, options.port)
    with serving(unit, options.store, address, options.token, options.threads or 1) as (host, number):
        print(f"listening on {host}:{number}", flush=True)
        _wait_for_signal()
    return 0


def _wait_for_signal() -> None:
    def end(*_: object) -> None:
        raise KeyboardInterrupt  # not event.set(), because the main thread may hold the event's lock

    signal.signal(signal.SIGTERM, end)
    try:
        while True:
            signal.pause()
    except KeyboardInterrupt:
        pass


def run_backup(options: argparse.Namespace) -> int:
    """Save a directory."""
    return _finish(client.backup(_plan(options), options.source, tuple(options.exclude)), options)


def run_restore(options: argparse.Namespace) -> int:
    """Write a snapshot's tree."""
    plan = _plan(options)
    how = {"overwrite": options.overwrite, "owners": not options.no_owners}
    return _finish(client.restore(plan, options.snapshot, options.destination, **how), options)


def run_verify(options: argparse.Namespace) -> int:
    """Check a snapshot."""
    return _finish(client.verify(_plan(options), options.snapshot), options)


def run_list(options: argparse.Namespace) -> int:
    """List the snapshots."""
    plan = _plan(options)
    asking = Client(plan.unit, plan.address, plan.unit.threading.Event())
    try:
        found = client.snapshots(asking)
    finally:
        asking.close()
    if options.json:
        print(json.dumps([asdict(snapshot) for snapshot in found]))
    else:
        show_snapshots(found)
    return 0


def _plan(options: argparse.Namespace) -> Plan:
    if options.workers == "threads" and options.dhagas is not None:
        raise BackupError("--dhagas goes with --workers dhagas: with threads, say --threads alone")
    host, number = options.server
    return Plan(
        UNITS[options.workers](),
        Address(host, number, options.token, options.patience),
        options.threads or DEFAULT_THREADS[options.workers],
        _dhagas_per_thread(options),
        options.bandwidth,
        bar=sys.stderr.isatty(),
    )


def _dhagas_per_thread(options: argparse.Namespace) -> int:
    if options.workers == "threads":
        return 1
    return DEFAULT_DHAGAS if options.dhagas is None else int(options.dhagas)


def _finish(summary: Summary, options: argparse.Namespace) -> int:
    show_summary(summary, as_json=options.json)
    return REPORTED if summary.problems else 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; give its exit status."""
    options: Any = parser().parse_args(arguments)
    try:
        return int(options.run(options))
    except BackupError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted: start the same command again, what has arrived will not be sent twice", file=sys.stderr)
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
