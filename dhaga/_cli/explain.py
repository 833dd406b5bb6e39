"""``python -m dhaga explain``: prints causes and cures of an exception or a message. The command needs no network."""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import textwrap
from collections.abc import Iterator

from . import errors_index
from .arguments import CommandLine, did_you_mean
from .errors_index import Entry

PROGRAM = "python -m dhaga explain"
MOST = 12
"""Maximum number of entries to print if the user gives only a few words of a message."""

WIDEST = 100
"""Maximum width of the text in columns."""

LINK = re.compile(r"\[([^]]+)\]\(([^)#]+)(#[^)]+)?\)")


def main(arguments: list[str]) -> int:
    """Print the entries that the words describe. Returns: the exit status, 1 if no entry was found."""
    words = command_line().parse_args(arguments).words
    if not words:
        print("\n".join(errors_index.headings()))
        return 0
    message = sys.stdin.read() if words == ["-"] else " ".join(words)
    found = find(message)
    if not found:
        return refuse(message)
    print("\n\n".join("\n".join(lines) for lines in map(formatted, found)))
    return 0


def find(message: str) -> list[Entry]:
    """Return the entries for an exception's name, a message, or a few words of a message."""
    name, _, rest = message.strip().partition(":")
    few = errors_index.with_words(message.split()) or (errors_index.of_heading(name) if rest else [])
    exact = errors_index.of_heading(message.strip()) or errors_index.of_message(message)
    return exact or few[:MOST]


def refuse(message: str) -> int:
    first = errors_index.in_one_line(message)[:60]
    hint = did_you_mean(first, errors_index.headings())
    print(
        f"{PROGRAM}: no message of Dhaga fits {first!r}{hint}\n"
        f"without words, {PROGRAM} lists the exceptions; see other packages' own pages for their messages",
        file=sys.stderr,
    )
    return 1


def formatted(entry: Entry) -> Iterator[str]:
    """Yield the lines of an entry for a terminal. A page's path in a checkout replaces each link to the page."""
    width = min(shutil.get_terminal_size().columns, WIDEST)
    for text in entry.texts:
        yield from textwrap.wrap(f"{entry.heading}: {text}", width, subsequent_indent="    ")
    for name, text in ("Cause", entry.cause), ("Cure", entry.cure):
        plain = LINK.sub(lambda link: f"{link[1]} ({path_of(link[2])})", text)
        yield from textwrap.wrap(f"{name}: {plain}", width, initial_indent="  ", subsequent_indent="    ")


def path_of(target: str) -> str:
    """Return a page's path in a checkout. ``target`` is the target of a link from the index to the page."""
    return f"docs/{target.removeprefix('../')}" if target.startswith("../") else f"docs/reference/{target}"


def command_line() -> argparse.ArgumentParser:
    parser = CommandLine(
        "explain",
        "[NAME | TEXT | -]",
        description="Print the causes and cures of an exception of Dhaga (Deadlock), or of a message: its text, or a "
        "few words of it. With -, read a traceback from standard input. Without words, list the exceptions. The texts "
        "are those of docs/reference/errors.md, and need no network.",
    )
    parser.add_argument("words", nargs="*", help=argparse.SUPPRESS)
    return parser
