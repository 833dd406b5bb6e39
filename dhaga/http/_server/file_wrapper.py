"""``wsgi.file_wrapper``: a file as an app's result, which ``response`` sends with sendfile where possible."""

from __future__ import annotations

import io
import os
import stat
from collections.abc import Iterator
from typing import Any

FILE_BLOCK = 65_536
"""Bytes that a file wrapper reads at once where sendfile is impossible."""


class FileWrapper:
    """``wsgi.file_wrapper``: a file to send, with sendfile where possible (PEP 3333, optional part)."""

    def __init__(self, filelike: Any, blksize: int = FILE_BLOCK) -> None:
        self.filelike = filelike
        self.blksize = blksize
        if hasattr(filelike, "close"):
            self.close = filelike.close

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        block: bytes = self.filelike.read(self.blksize)
        if not block:
            raise StopIteration
        return block

    def remaining(self) -> tuple[int, int] | None:
        """Return position and remaining bytes of a regular file, or None for any other.

        None also for files of /proc, which report size 0 but are not empty, so that they are read.
        """
        try:
            state = os.fstat(self.filelike.fileno())
            position = self.filelike.tell()
        except (AttributeError, OSError, io.UnsupportedOperation):
            return None
        size = state.st_size - position
        return (position, size) if stat.S_ISREG(state.st_mode) and size > 0 else None
