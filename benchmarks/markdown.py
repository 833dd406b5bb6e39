"""Tables in Markdown that are also readable as plain text."""

import re
from collections.abc import Iterable, Iterator, Sequence


def table(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table whose columns are also aligned as plain text."""
    cells = [[cell.replace("|", "\\|") for cell in line] for line in (head, *lines)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(head))]
    rule = ["-" * width for width in widths]
    cells.insert(1, rule)
    padded = ((cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in cells)
    return "\n".join(f"| {' | '.join(line)} |" for line in padded)


def _cells(line: str) -> list[str]:
    return [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def tables(text: str) -> Iterator[tuple[list[str], list[list[str]]]]:
    """Parse tables that `table` returned. Returns: head and lines of each table in the text."""
    for found in re.findall(r"(?:^\|.*\|$\n?)+", text, re.MULTILINE):
        head, _, *lines = map(_cells, found.splitlines())
        yield head, lines
