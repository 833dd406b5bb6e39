"""``ChunkSizes``: finds the end of a chunked body (RFC 9112, section 7.1) by the sizes of its chunks.

A mere search for the empty line at the body's end would also stop at each empty line of the data, and take 1.5 s for 1
MiB of CRLFs.
"""

from __future__ import annotations

import re

from ..limits import bad

HEAD_END = b"\r\n\r\n"
"""The end of a head, and of a chunked body with its trailers."""

SIZE_LINE = re.compile(rb"([0-9A-Fa-f]+)[^\r\n]*\r\n")
SIZE_LINE_BYTES = 1024
"""Maximum size of a chunk's size line with its extensions. No known client sends extensions."""

CHUNKS_PER_PART = 256
"""Maximum number of chunks of one part. Parsing them takes 0.3 ms, and then the caller may yield. A buffer of 64 KB can
contain 11,000 chunks of one byte.
"""


class ChunkSizes:
    """The position of a parser in a chunked body. ``left``: bytes of the current chunk still to come, with the CRLF
    after it.
    """

    __slots__ = ("in_trailers", "left", "tail")

    def __init__(self) -> None:
        self.left = 0
        self.in_trailers = False
        self.tail = b""  # the beginning of a chunk's size line, or the last bytes of trailers

    def end_of_part(self, data: bytes) -> int:
        """Return the length of the part of ``data`` to parse now, and move the position to its end.

        The part ends at the end of the body, at the end of ``data``, or after ``CHUNKS_PER_PART`` chunks, whichever
        comes first. Raises: Refusal for an invalid chunk size.
        """
        offset, data = len(self.tail), self.tail + data
        position = 0 if self.in_trailers else self.left
        for _ in range(0 if self.in_trailers else CHUNKS_PER_PART):
            if position > len(data):  # within a chunk
                break
            line = SIZE_LINE.match(data, position)
            if line is None or line.end() - position > SIZE_LINE_BYTES:
                self.keep_partial_line(data[position:])
                return len(data) - offset
            size = int(line[1], 16)
            position = line.end() + size + 2
            if size == 0:
                self.in_trailers = True
                position = line.end() - 2
                break
        if not self.in_trailers:
            self.left, self.tail = max(0, position - len(data)), b""
            return min(position, len(data)) - offset
        end = data.find(HEAD_END, position) + 4
        self.tail = data[max(position, len(data) - 3) :] if end == 3 else b""
        return (len(data) if end == 3 else end) - offset

    def keep_partial_line(self, line: bytes) -> None:
        """Keep the beginning of a chunk's size line for the next call. Raises: Refusal if the line is invalid."""
        if len(line) > SIZE_LINE_BYTES or b"\r\n" in line:
            raise bad("invalid chunk size")
        self.left, self.tail = 0, line
