"""A pipe for tests that read and write it."""

from __future__ import annotations

import contextlib
import os as standard
from collections.abc import Iterator

from dhaga import os


class Pipe:
    """A pipe, with a list of its open ends."""

    def __init__(self) -> None:
        self.reader, self.writer = standard.pipe()
        self.ends = {self.reader, self.writer}

    def close(self, end: int) -> None:
        self.ends.remove(end)
        os.close(end)

    def fill(self) -> int:
        """Write until no more fits. Returns: the number of bytes."""
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
    """Yield a pipe to a fixture, then close the ends that are still open."""
    found = Pipe()
    yield found
    for end in found.ends:
        standard.close(end)
