"""Lines of the program, as reports show them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import islice
from typing import Any, NamedTuple

from ..._kernel.stacks import source_of

LOOKED_AT = 1_000
"""Kept lines, the last ones, that are searched for one of a thread."""


class SourceLine(NamedTuple):
    """A line of a file. Its text is read when it is shown."""

    file: str
    number: int

    def __str__(self) -> str:
        return f"{self.where}  {self.text}"

    @property
    def where(self) -> str:
        """The name of the file, and the number."""
        return f"{os.path.basename(self.file)}:{self.number}"

    @property
    def text(self) -> str:
        """The source, without its indentation."""
        return source_of(self.file, self.number)


def last_line_of(member: object, lines: Sequence[tuple[Any, str, int]]) -> SourceLine | None:
    """Return the line that a member has run last; None if it is not among the last lines."""
    return next((SourceLine(*line) for each, *line in islice(reversed(lines), LOOKED_AT) if each is member), None)
