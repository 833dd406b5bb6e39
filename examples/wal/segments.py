"""The files of a log: one directory, segments named by their first sequence number, and a lock. What blocks, blocks."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path
from typing import Final

from .records import HEADER_SIZE, Corrupt, Header, InUse, WalError

SUFFIX: Final = ".wal"
UNFINISHED: Final = ".new"
LOCK: Final = "lock"

WRITE_THROUGH: Final = getattr(os, "RWF_DSYNC", 0)
"""Has one system call write and wait for the disk, where the system can: the interpreter lock is taken back once, not
twice, which beside busy dhagas is a tenth of the time (``benchmarks/file_io``)."""


def hold(directory: Path) -> int:
    """Keep every other process out of a log, which is made if there is none, until the fd is closed. Raises: InUse."""
    make_durably(directory)
    fd = os.open(directory / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        raise InUse(f"the log in {directory} is in use") from None
    return fd


def make_durably(directory: Path) -> None:
    """Make a directory, and those above it, unless they are there. Its name is durable then.

    That of an existing one may not be yet, as its maker may have been killed before it could sync it.
    """
    if not directory.parent.exists():
        make_durably(directory.parent)
    directory.mkdir(exist_ok=True)
    sync_directory(directory.parent)


def segments_in(directory: Path) -> list[Path]:
    """Return the segments of a log, the oldest first."""
    return sorted(directory.glob(f"*{SUFFIX}"))


def first_of(path: Path) -> int:
    """Return the first sequence number of a segment, as its name says. Raises: Corrupt."""
    if not path.stem.isdecimal():
        raise Corrupt(f"{path} is not named as a segment: by its first sequence number")
    return int(path.stem)


def drop_unfinished(directory: Path) -> None:
    """Remove segments that a crash cut short in the making: they never held a record."""
    for path in directory.glob(f"*{UNFINISHED}"):
        path.unlink()


def sync_directory(directory: Path) -> None:
    """Make created, changed and removed names durable."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def write_durably(fd: int, data: bytes, offset: int) -> None:
    """Write all, and return when the disk has it. Raises: OSError, after which it is unknown what it has."""
    left = memoryview(data)
    while left:
        written = os.pwritev(fd, [left], offset, WRITE_THROUGH)
        if not written:
            raise OSError(errno.EIO, "the file takes no more bytes")
        left, offset = left[written:], offset + written
    if not WRITE_THROUGH:
        os.fsync(fd)


class Segment:
    """The one that is written to."""

    def __init__(self, path: Path, header: Header, size: int) -> None:
        self.path = path
        self.header = header
        self.size = size
        self.fd = os.open(path, os.O_RDWR)

    @classmethod
    def create(cls, directory: Path, first: int) -> Segment:
        """Make one that is whole as soon as it has its name, and is still there after a crash."""
        path, header = directory / f"{first:020}{SUFFIX}", Header.new(first)
        if path.exists():
            raise WalError(f"{path} exists already")
        unfinished = path.with_suffix(UNFINISHED)
        fd = os.open(unfinished, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
        try:
            write_durably(fd, header.packed(), 0)
            os.fsync(fd)
        finally:
            os.close(fd)
        unfinished.rename(path)
        sync_directory(directory)
        return cls(path, header, HEADER_SIZE)

    def write(self, data: bytes) -> None:
        """Add records, durably."""
        write_durably(self.fd, data, self.size)
        self.size += len(data)

    def cut(self, size: int) -> None:
        """Take off what comes after, durably."""
        os.ftruncate(self.fd, size)
        os.fsync(self.fd)
        self.size = size

    def close(self) -> None:
        """Let go of the file."""
        os.close(self.fd)
