"""Source lines of the program, as reports show them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import islice
from typing import Any, NamedTuple

from ..._kernel.stacks import source_of

LOOKED_AT = 1_000
"""The number of most recent lines in which ``last_line_of`` searches."""


class SourceLine(NamedTuple):
    """A line of a source file. The line's text is read only when a report shows it."""

    file: str
    number: int

    def __str__(self) -> str:
        return f"{self.where}  {self.text}"

    @property
    def where(self) -> str:
        """The file's name without folders, and the line's number."""
        return f"{os.path.basename(self.file)}:{self.number}"

    @property
    def text(self) -> str:
        """The line's source, without its indentation."""
        return source_of(self.file, self.number)


def last_line_of(member: object, lines: Sequence[tuple[Any, str, int]]) -> SourceLine | None:
    """Return the line that a member has run last; None if this line is not among the last ``LOOKED_AT`` lines."""
    return next((SourceLine(*line) for each, *line in islice(reversed(lines), LOOKED_AT) if each is member), None)
