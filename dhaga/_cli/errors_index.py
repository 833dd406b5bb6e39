"""The errors index: the entries of ``docs/reference/errors.md``. A wheel has a copy of this page beside this module.

Readers of a checkout, Sphinx, and ``python -m dhaga explain`` all use this page. An entry consists of one or more
messages, each on its own line in backquotes, and of the paragraphs ``: *Cause.* …`` and ``  *Cure.* …``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import NamedTuple

IN_WHEEL = Path(__file__).with_name("errors.md")
IN_CHECKOUT = Path(__file__).parents[2] / "docs" / "reference" / "errors.md"

HEADING = re.compile(r"^## (.+)$", re.MULTILINE)
ENTRY = re.compile(
    r"^(?P<texts>(?:`[^\n]+`\n)+): \*Cause\.\* (?P<cause>.+?)\n\n  \*Cure\.\* (?P<cure>.+?)$(?=\n\n|\n?\Z)",
    re.MULTILINE | re.DOTALL,
)
INSERTED = "…"
"""Placeholder for a value in a message."""

MIN_LETTERS = 4
"""Minimum length of a message's longest piece between inserted values. Shorter pieces would match too many texts."""


class Entry(NamedTuple):
    """Messages with the same cause and cure. ``cause`` and ``cure`` are Markdown in one line, ``heading`` is the
    exception's name.
    """

    heading: str
    texts: tuple[str, ...]
    cause: str
    cure: str


@cache
def entries() -> tuple[Entry, ...]:
    """Return the entries of the page, in the page's order."""
    page = (IN_WHEEL if IN_WHEEL.exists() else IN_CHECKOUT).read_text(encoding="utf-8")
    _, *parts = HEADING.split(page)
    return tuple(
        Entry(heading, texts_of(found["texts"]), in_one_line(found["cause"]), in_one_line(found["cure"]))
        for heading, part in zip(parts[::2], parts[1::2], strict=True)
        for found in ENTRY.finditer(part)
    )


def texts_of(lines: str) -> tuple[str, ...]:
    """Return the messages of an entry, without their backquotes."""
    return tuple(line.strip("`").strip() for line in lines.splitlines())


def in_one_line(text: str) -> str:
    return " ".join(text.split())


def headings() -> list[str]:
    return list(dict.fromkeys(entry.heading for entry in entries()))


def of_heading(name: str) -> list[Entry]:
    """Return the entries of an exception with a name such as ``Deadlock``, ``dhaga.Deadlock`` or ``deadlock``."""
    wanted = name.rpartition(".")[2].casefold()
    return [entry for entry in entries() if entry.heading.casefold() == wanted]


def of_message(message: str) -> list[Entry]:
    """Return the entries with the longest text that occurs in a message or a traceback."""
    message = in_one_line(message)
    found = [(exactness(text), entry) for entry in entries() for text in entry.texts if fits(text, message)]
    best = max((letters for letters, _ in found), default=0)
    return [entry for letters, entry in found if letters == best]


def fits(text: str, message: str) -> bool:
    """Return whether a message contains the pieces of a text, in their order."""
    end = 0
    for piece in text.split(INSERTED):
        begin = message.find(piece, end)
        if begin < 0:
            return False
        end = begin + len(piece)
    return exactness(text) >= MIN_LETTERS


def exactness(text: str) -> int:
    """Return the number of characters outside inserted values; 0 if no piece has ``MIN_LETTERS`` characters."""
    pieces = text.split(INSERTED)
    return len("".join(pieces)) if max(map(len, pieces)) >= MIN_LETTERS else 0


def with_words(words: Iterable[str]) -> list[Entry]:
    """Return the entries whose messages contain all these words."""
    wanted = [word.casefold() for word in words]
    return [entry for entry in entries() if all(word in " ".join(entry.texts).casefold() for word in wanted)]
