"""A pipe for tests that read and write it."""

from __future__ import annotations

import contextlib
import os as standard
from collections.abc import Iterator

from dhaga import os


class Pipe:
    """A pipe, and what is left of it closed in the end."""

    def __init__(self) -> None:
        self.reader, self.writer = standard.pipe()
        self.ends = {self.reader, self.writer}

    def close(self, end: int) -> None:
        self.ends.remove(end)
        os.close(end)

    def fill(self) -> int:
        """Write until no more fits. Returns: how much."""
        standard.set_blocking(self.writer, False)
        written = 0
        with contextlib.suppress(BlockingIOError):
            while True:
                written += standard.write(self.writer, b"f" * 4096)
        standard.set_blocking(self.writer, True)
        return written


def ended(status: int) -> int:
    return status << 8


def piped() -> Iterator[Pipe]:
    """Give a pipe to a fixture, and close what is left of it."""
    found = Pipe()
    yield found
    for end in found.ends:
        standard.close(end)
