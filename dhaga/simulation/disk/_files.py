"""File objects for the files of a disk, as the built-in ``open`` and ``dhaga.open`` return them.

The compiled ``FileIO`` makes its system calls in C, where the simulation does not see them. So the raw file is a
``DiskFile``. The layers above it, for buffers and text, are the standard library's.
"""

from __future__ import annotations

import io
from typing import Any

from ..._iowait.offloaded_file import OffloadedFile, check_mode
from ..._kernel import outside
from ._active import disks_of_caller
from ._inodes import File
from ._naming import open_fd, place_of
from ._real import own_calls
from ._writing import file_behind, octets, resize, write_at

FileIO = io.FileIO
standard_open = outside.open_file


def open_as_file(path: Any, flags: int) -> int:
    """Open a file. A new file gets the mode of ``open()``: 0o666 without the bits of the umask."""
    return open_fd(path, flags, 0o666)


class DiskFile(FileIO):
    """The raw file on an fd. The file can be on a disk or elsewhere."""

    def __init__(self, file: Any, mode: str = "r", closefd: bool = True, opener: Any = None) -> None:
        if opener is None and not isinstance(file, int) and place_of(file) is not None:
            opener = open_as_file
        with own_calls():
            super().__init__(file, mode, closefd, opener)
        disks = disks_of_caller()
        if disks is not None and closefd and self.disk_file is not None:
            disks.forget_fd(self.fileno())
            disks.note_file(self)

    @property
    def disk_file(self) -> File | None:
        """The simulated file on which the fd is open, or None."""
        return file_behind(self.fileno())

    def write(self, data: Any, /) -> Any:
        """Write bytes. Source: ``io.FileIO.write``."""
        file = self.disk_file
        if file is None or not self.writable():
            return super().write(data)
        return write_at(file, self.fileno(), octets(data))

    def truncate(self, size: int | None = None, /) -> int:
        """Set the size of the file, by default to the position. Source: ``io.FileIO.truncate``."""
        file = self.disk_file
        if file is None or not self.writable():
            return super().truncate(size)
        length = self.tell() if size is None else size
        resize(file, length, lambda: FileIO.truncate(self, length), self.fileno())
        return length

    def check_read(self) -> None:
        file = self.disk_file
        if file is not None:
            file.disk.check("read", file.name)

    def read(self, size: int | None = -1, /) -> Any:
        """Read bytes. Source: ``io.FileIO.read``."""
        self.check_read()
        return super().read(-1 if size is None else size)

    def readall(self) -> Any:
        """Read to the end of the file. Source: ``io.FileIO.readall``."""
        self.check_read()
        return super().readall()

    def readinto(self, buffer: Any, /) -> Any:
        """Read into a buffer. Source: ``io.FileIO.readinto``."""
        self.check_read()
        return super().readinto(buffer)

    def abandon(self) -> None:
        """Close the file because the host of its program was killed."""
        FileIO.close(self)


def stack_layers(
    raw: DiskFile, mode: str, buffering: int, encoding: str | None, errors: str | None, newline: str | None
) -> Any:
    """Return the file object for this mode on a raw file. Source: ``io.open``.

    The function in ``_iowait/offloaded_file.py`` does not fit: its layers have locks, and its buffer sizes are chosen
    for system calls in a worker thread.
    """
    if buffering == 0:
        return raw
    size = buffering if buffering > 1 else io.DEFAULT_BUFFER_SIZE
    try:
        kind: Any = io.BufferedRandom if "+" in mode else io.BufferedReader if "r" in mode else io.BufferedWriter
        buffered = kind(raw, size)
        if "b" in mode:
            return buffered
        text = io.TextIOWrapper(buffered, encoding, errors, newline, buffering == 1)
        text.mode = mode  # type: ignore[misc]
        return text
    except BaseException:
        raw.close()
        raise


class Open:
    """The simulated built-in ``open``. A program may store it in a class, where a function would become a method."""

    __name__ = "open"
    __doc__ = standard_open.__doc__

    def __repr__(self) -> str:
        return "<built-in function open, of a simulation>"

    def __call__(
        self,
        file: Any,
        mode: str = "r",
        buffering: int = -1,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
        closefd: bool = True,
        opener: Any = None,
    ) -> Any:
        if not is_on_disk(file, opener):
            return standard_open(file, mode, buffering, encoding, errors, newline, closefd, opener)
        check_mode(mode, buffering, (encoding, errors, newline))
        if "b" not in mode:
            encoding = io.text_encoding(encoding)
        raw = DiskFile(file, mode.replace("b", "").replace("t", ""), closefd, opener)
        return stack_layers(raw, mode, buffering, encoding, errors, newline)


def is_on_disk(file: Any, opener: Any) -> bool:
    """Return whether ``open`` might open a file of a disk."""
    disks = disks_of_caller()
    if disks is None:
        return False
    if isinstance(file, int):
        return disks.file_behind(file) is not None
    return opener is not None or place_of(file) is not None


simulated_open = Open()


class OffloadedDiskFile(OffloadedFile, DiskFile):
    """The raw file of ``dhaga.open``. It makes its system calls as ``DiskFile`` does."""
