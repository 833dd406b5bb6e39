"""The beginning of data, for reports."""

from __future__ import annotations

LONGEST = 32
"""The largest number of bytes of an excerpt."""


class Excerpt:
    """The first bytes of a message or of a write. The bytes are formatted only if a report shows them."""

    __slots__ = ("data", "size")

    def __init__(self, data: bytes | bytearray | memoryview) -> None:
        self.data = bytes(data[:LONGEST])
        self.size = len(data)

    def __str__(self) -> str:
        return f"{self.data!r}…" if self.size > LONGEST else repr(self.data)
