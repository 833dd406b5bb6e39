"""File objects over the files of a disk: the built-in ``open``, and ``dhaga.open``.

The compiled ``FileIO`` makes its system calls by itself. So these files have a raw file of a class of ours, below the
standard library's own buffers and text.
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
    """Open a file with the mode that a new one gets from ``open``."""
    return open_fd(path, flags, 0o666)


class DiskFile(FileIO):
    """The raw file over an fd, which may be of a disk."""

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
        """The file of a disk behind it."""
        return file_behind(self.fileno())

    def write(self, data: Any, /) -> Any:
        """Write. Source: ``io.FileIO.write``."""
        file = self.disk_file
        if file is None or not self.writable():
            return super().write(data)
        return write_at(file, self.fileno(), octets(data))

    def truncate(self, size: int | None = None, /) -> int:
        """Set the size, by default to the position. Source: ``io.FileIO.truncate``."""
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
        """Read. Source: ``io.FileIO.read``."""
        self.check_read()
        return super().read(-1 if size is None else size)

    def readall(self) -> Any:
        """Read to the end. Source: ``io.FileIO.readall``."""
        self.check_read()
        return super().readall()

    def readinto(self, buffer: Any, /) -> Any:
        """Read into a buffer. Source: ``io.FileIO.readinto``."""
        self.check_read()
        return super().readinto(buffer)

    def abandon(self) -> None:
        """Close the file, as its program is dead."""
        FileIO.close(self)


def stack_layers(
    raw: DiskFile, mode: str, buffering: int, encoding: str | None, errors: str | None, newline: str | None
) -> Any:
    """Return the file object for this mode. Source: ``io.open``.

    Not the one of ``_iowait/offloaded_file.py``: its layers have locks, and its sizes suit hops to a thread.
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
    """The built-in ``open``. An object, which does not become a method where it is an attribute of a class."""

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
    """Return whether a file to open may be of a disk."""
    disks = disks_of_caller()
    if disks is None:
        return False
    if isinstance(file, int):
        return disks.file_behind(file) is not None
    return opener is not None or place_of(file) is not None


simulated_open = Open()


class OffloadedDiskFile(OffloadedFile, DiskFile):
    """The raw file of ``dhaga.open``, whose system calls are those of our raw file."""
