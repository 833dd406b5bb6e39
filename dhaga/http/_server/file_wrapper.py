"""``wsgi.file_wrapper``: a file as an app's result. The module ``response`` sends it with sendfile where possible."""

from __future__ import annotations

import io
import os
import stat
from collections.abc import Iterator
from typing import Any

from ..._iowait import offloaded_file

FILE_BLOCK = 65_536
"""Number of bytes that a file wrapper reads at once if the server cannot use sendfile."""

RAW_FILES = io.FileIO, offloaded_file.OffloadedFile
FILES = (
    *(io.BufferedReader, io.BufferedRandom, offloaded_file.BufferedReader, offloaded_file.BufferedRandom),
    *RAW_FILES,
)
"""The classes of buffered files, whose ``read`` returns the raw file's bytes, and of raw files, which read from an fd.

A subclass, such as one that counts or changes the bytes, may have its own ``read``.
"""


class FileWrapper:
    """An iterator over the blocks of a file: ``wsgi.file_wrapper`` (PEP 3333, an optional part)."""

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
        """Return the position and the number of remaining bytes of a regular file, or None for any other file.

        A file object that changes the bytes, such as gzip's, does not count as a regular file. Files of /proc report
        size 0 although they have contents. For these files the result is also None, so that the server reads them.
        """
        try:
            file = unwrapped(self.filelike)
            if type(file) not in FILES or type(getattr(file, "raw", file)) not in RAW_FILES:
                return None
            state = os.fstat(self.filelike.fileno())
            position = self.filelike.tell()
        except (AttributeError, OSError, io.UnsupportedOperation):
            return None
        size = state.st_size - position
        return (position, size) if stat.S_ISREG(state.st_mode) and size > 0 else None


def unwrapped(filelike: Any) -> Any:
    """Return the file inside a wrapper of ``tempfile`` or Django, whose ``read`` is the file's own; any other file
    unchanged. Raises: AttributeError.
    """
    file = getattr(filelike, "file", filelike)
    read = filelike.read
    return file if getattr(read, "__wrapped__", read) == file.read else filelike
