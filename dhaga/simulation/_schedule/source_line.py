"""A line of the program, as reports show it."""

from __future__ import annotations

import linecache
import os
from typing import NamedTuple


class SourceLine(NamedTuple):
    """A line of a file. Its text is read when it is shown."""

    file: str
    number: int

    def __str__(self) -> str:
        return f"{os.path.basename(self.file)}:{self.number}  {self.text}"

    @property
    def text(self) -> str:
        """The source, without its indentation."""
        return linecache.getline(self.file, self.number).strip()
