"""The command line: python -m examples.wal append|replay|verify DIR.

Exit status: 0 done; 1 not done, the log is damaged, or in use; 2 the command line is wrong; 130 Ctrl-C.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import dhaga
from dhaga.queue import Queue

from .log import SEGMENT_BYTES, WriteAheadLog
from .records import WalError
from .recovery import read_log, verify
from .segments import hold

DHAGAS: Final = 64
INTERRUPTED: Final = 130


def at_least_one(text: str) -> int:
    """Read a positive whole number."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 on")
    return int(text)


def sequence(text: str) -> int:
    """Read a sequence number."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no sequence number")
    return int(text)


def parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    top = argparse.ArgumentParser(prog="python -m examples.wal", description="Write and read a write-ahead log.")
    commands = top.add_subparsers(required=True, metavar="COMMAND")
    appending = commands.add_parser("append", help="append each line of the standard input; print what is durable")
    appending.set_defaults(run=run_append)
    appending.add_argument(
        "--dhagas", metavar="N", type=at_least_one, default=DHAGAS, help=f"lines on their way at once ({DHAGAS})"
    )
    appending.add_argument(
        "--segment-bytes", metavar="B", type=at_least_one, default=SEGMENT_BYTES, help=f"of one file ({SEGMENT_BYTES})"
    )
    replaying = commands.add_parser("replay", help="print the records, one a line; a torn end is left out")
    replaying.set_defaults(run=run_replay)
    replaying.add_argument("--after", metavar="SEQUENCE", type=sequence, default=0, help="only those after this one")
    verifying = commands.add_parser("verify", help="read all and say what there is; change nothing")
    verifying.set_defaults(run=run_verify)
    for command in (appending, replaying, verifying):
        command.add_argument("directory", metavar="DIR", type=Path)
    return top


def run_append(options: argparse.Namespace) -> None:
    """Append lines as they come; each number is printed once its record is durable."""
    lines: Queue[bytes | None] = Queue(options.dhagas)
    source = dhaga.open(sys.stdin.fileno(), "rb", closefd=False)  # sys.stdin would block all dhagas
    with source, WriteAheadLog(options.directory, options.segment_bytes) as log, dhaga.Scope() as scope:
        for _ in range(options.dhagas):
            scope.spawn(append_lines, log, lines)
        for line in source:
            lines.put(line.removesuffix(b"\n"))
        for _ in range(options.dhagas):
            lines.put(None)


def append_lines(log: WriteAheadLog, lines: Queue[bytes | None]) -> None:
    """Append what comes until there is no more."""
    while (line := lines.get()) is not None:
        print(log.append(line), flush=True)


def run_replay(options: argparse.Namespace) -> None:
    """Print number and payload of each record."""
    for contents in read_log(existing(options.directory)):
        for record in contents.records:
            if record.sequence > options.after:
                sys.stdout.buffer.write(b"%d\t%s\n" % (record.sequence, record.payload))
    sys.stdout.flush()


def run_verify(options: argparse.Namespace) -> None:
    """Print what a log holds."""
    print(verify(existing(options.directory)))


def existing(directory: Path) -> Path:
    """Return a directory that is a log's, held until the process ends. Raises: WalError."""
    if not directory.is_dir():
        raise WalError(f"there is no log in {directory}")
    hold(directory)
    return directory


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; give its exit status."""
    options = parser().parse_args(arguments)
    try:
        options.run(options)
    except (WalError, OSError) as error:
        return tell(error)
    except ExceptionGroup as group:  # of the dhagas of an append: a log that is broken is so for all of them
        failed, unforeseen = group.split((WalError, OSError))
        if unforeseen or not failed:
            raise
        return tell(leaf_of(failed))
    except KeyboardInterrupt:
        return INTERRUPTED
    return 0


def tell(error: BaseException) -> int:
    """Say on the standard error what is wrong."""
    print(f"error: {error}", file=sys.stderr)
    return 1


def leaf_of(group: BaseException) -> BaseException:
    """Return the first error of a group."""
    while isinstance(group, BaseExceptionGroup):
        group = group.exceptions[0]
    return group


if __name__ == "__main__":
    sys.exit(main())
