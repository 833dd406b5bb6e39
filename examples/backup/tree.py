"""The tree on the client's disk: what an entry of a snapshot is, and walking and reading a source.

Writing a tree is in `destination`. Paths are bytes, relative to the root of the tree and parted by slashes, since file
names need not be text; the root's own path is empty.

The first name of a file that has several is a FILE; each further one is a NAME, whose target is the path of the first.
A file's holes are kept beside its chunks, which hold the rest: a sparse file is neither read nor stored as zeros.
"""

from __future__ import annotations

import errno
import fnmatch
import os
import stat
import struct
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from .chunks import DIGEST_SIZE
from .wire import BackupError, WireError, printable

FILE: Final = "file"
DIRECTORY: Final = "directory"
LINK: Final = "link"
NAME: Final = "name"  # one more of a file with several: a hard link
MORE: Final = "more"  # further chunks of the file before it
KINDS: Final = (FILE, DIRECTORY, LINK, NAME, MORE)
PART_CHUNKS: Final = 16_384  # 512 KiB of digests in one entry: eight of them fit a frame
MOST_HOLES: Final = 4096  # of a file, 64 KiB in its entry; further ones are read as zeros
UNKNOWN: Final = -1  # the owner of what was saved before owners were kept

_HOLE: Final = struct.Struct(">QQ")  # where it begins, and its length

Note = Callable[[bytes, str], None]  # path, what happened


class Skipped(BackupError):
    """A file that cannot be saved; the backup goes on without it."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing in a tree. `chunks` holds the digests end to end, `target` what a link points to.

    `holes` are those of a sparse file, see `holes_of`; `size` counts them.
    """

    path: bytes
    kind: str
    mode: int = 0
    mtime_ns: int = 0
    size: int = 0
    target: bytes = b""
    chunks: bytes = b""
    uid: int = UNKNOWN
    gid: int = UNKNOWN
    holes: bytes = b""

    @property
    def weight(self) -> int:
        """Give roughly how many bytes it takes in a frame, beside a few for its numbers."""
        return len(self.path) + len(self.target) + len(self.chunks) + len(self.holes)

    @classmethod
    def from_wire(cls, values: object) -> Entry:
        """Build an entry from what a stranger sent.

        Raises: WireError for the wrong shape, Unsafe for a path that leads out of the tree.
        """
        shape = (bytes, str, int, int, int, bytes, bytes, int, int, bytes)
        if not (isinstance(values, list) and tuple(map(type, values)) == shape):
            raise WireError("bad entry: expected path, kind, mode, mtime, size, target, chunks, uid, gid, holes")
        entry = cls(*values)
        if not entry._is_sound():
            raise WireError(f"bad entry: {show(entry.path)} of kind {entry.kind[:40]!r}")
        check_path(entry.path)
        if entry.kind == NAME:
            check_path(entry.target)
        return entry

    def _is_sound(self) -> bool:
        numbers = (
            0 <= self.mode <= 0o7777 and 0 <= self.size < 2**63 and -(2**63) <= self.mtime_ns < 2**63
            and UNKNOWN <= self.uid < 2**32 - 1 and UNKNOWN <= self.gid < 2**32 - 1
        )  # fmt: skip
        texts = self.kind in KINDS and len(self.chunks) % DIGEST_SIZE == 0 and b"\0" not in self.target
        return numbers and texts and _are_sound(self.holes, self.size)

    def to_wire(self) -> tuple[object, ...]:
        """Give the fields in the order of `from_wire`."""
        # Not astuple, which copies each field deeply: 14 µs, of the 300 that a small file takes in all.
        return (
            self.path, self.kind, self.mode, self.mtime_ns, self.size, self.target, self.chunks,
            self.uid, self.gid, self.holes,
        )  # fmt: skip


def holes_of(holes: bytes) -> Iterator[tuple[int, int]]:
    """Give where each hole begins, and its length, in ascending order."""
    pairs: Iterator[tuple[int, int]] = _HOLE.iter_unpack(holes)
    return pairs


def in_holes(holes: bytes) -> int:
    """Count the bytes that are in holes, and so in no chunk."""
    return sum(length for _, length in holes_of(holes))


def _are_sound(holes: bytes, size: int) -> bool:
    if len(holes) % _HOLE.size or len(holes) > MOST_HOLES * _HOLE.size:
        return False
    end = 0
    for start, length in holes_of(holes):
        if start < end or not length or start + length > size:
            return False
        end = start + length
    return True


class Unsafe(BackupError):
    """A path that leads out of the tree it belongs to."""


def show(path: bytes) -> str:
    """Convert a path, which may contain any bytes, to text that is safe to print."""
    return printable(os.fsdecode(path)) or "."


def check_path(path: bytes) -> None:
    """Refuse a path that is not plainly inside its tree.

    Raises: Unsafe for an absolute path, for `..`, `.`, empty names and null bytes.
    """
    if path.startswith(b"/"):
        raise Unsafe(f"path {show(path)} refused: it is absolute")
    if path and not _NO_NAMES.isdisjoint(path.split(b"/")):
        raise Unsafe(f"path {show(path)} refused: it climbs out of the tree, or is not in its plain form")
    if b"\0" in path:
        raise Unsafe(f"path {show(path)} refused: it holds a null byte")


_NO_NAMES: Final = frozenset((b"", b".", b".."))


def in_parts(entry: Entry) -> Iterator[Entry]:
    """Split an entry whose digests would not fit a frame."""
    step = PART_CHUNKS * DIGEST_SIZE
    yield entry if len(entry.chunks) <= step else replace(entry, chunks=entry.chunks[:step])
    for start in range(step, len(entry.chunks), step):
        yield Entry(entry.path, MORE, chunks=entry.chunks[start : start + step])


def whole(parts: Iterable[Entry]) -> Iterator[Entry]:
    """Join what `in_parts` split; parts of a file follow one another."""
    pending: list[Entry] = []
    for part in parts:
        if pending and part.kind != MORE:
            yield _joined(pending)
            pending.clear()
        pending.append(part)
    if pending:
        yield _joined(pending)


def _joined(parts: list[Entry]) -> Entry:
    first = parts[0]
    if first.kind == MORE or any(part.path != first.path for part in parts):
        raise WireError(f"bad entry: chunks of {show(parts[-1].path)} without their file")
    return first if len(parts) == 1 else replace(first, chunks=b"".join(part.chunks for part in parts))


# ---- reading a source ----


class Reading:
    """An open file of a source, without the buffer and the system calls that Python's own file objects add."""

    def __init__(self, file: int) -> None:
        self._file = file
        self.status = os.fstat(file)
        self._ahead = _find_holes(file, self.status)
        self._passed: list[tuple[int, int]] = []
        self._place = 0

    @property
    def expected(self) -> int:
        """Give how many bytes there probably are to read."""
        return max(0, self.status.st_size - sum(length for _, length in self._ahead))

    @property
    def holes(self) -> bytes:
        """Give the holes that were passed so far, as an entry has them."""
        return b"".join(_HOLE.pack(*hole) for hole in self._passed)

    def __enter__(self) -> Reading:
        return self

    def __exit__(self, *error: object) -> None:
        os.close(self._file)

    def read(self, count: int) -> bytes:
        """Read so many bytes, and pass over the holes among them; fewer at the end.

        Raises: Skipped if the disk fails.
        """
        try:
            return self._read_between(count) if self._ahead else os.read(self._file, count)
        except OSError as error:
            raise Skipped(f"cannot be read: {error.strerror}") from None

    def _read_between(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            start = self._ahead[0][0] if self._ahead else sys.maxsize
            if self._place == start:
                self._passed.append(self._ahead.popleft())
                self._place = os.lseek(self._file, sum(self._passed[-1]), os.SEEK_SET)
                continue
            wanted = min(count - len(data), start - self._place)
            piece = os.read(self._file, wanted)
            data += piece
            self._place += len(piece)
            if len(piece) < wanted:
                break
        return data

    def has_changed(self, size: int) -> bool:
        """Return whether the file has changed since it was opened. ``size``: the number of bytes that were read."""
        now = os.fstat(self._file)
        return (now.st_size, now.st_mtime_ns) != (size, self.status.st_mtime_ns)


def _find_holes(file: int, status: os.stat_result) -> deque[tuple[int, int]]:
    """Ask the file system for a file's holes: none where it cannot tell."""
    found: deque[tuple[int, int]] = deque()
    if status.st_blocks * 512 >= status.st_size or not hasattr(os, "SEEK_HOLE"):
        return found
    try:
        end = 0
        while end < status.st_size and len(found) < MOST_HOLES:
            start = os.lseek(file, end, os.SEEK_HOLE)
            end = min(_next_data(file, start, status.st_size), status.st_size)
            if end > start:
                found.append((start, end - start))
    except OSError:
        found.clear()
    os.lseek(file, 0, os.SEEK_SET)
    return found


def _next_data(file: int, start: int, size: int) -> int:
    try:
        return os.lseek(file, start, os.SEEK_DATA)
    except OSError as error:
        if error.errno != errno.ENXIO:  # the rest is a hole
            raise
        return size


@dataclass(frozen=True, slots=True)
class Source:
    """A directory to be saved."""

    root: bytes
    exclude: tuple[str, ...] = ()
    first_names: dict[tuple[int, int], bytes] = field(
        default_factory=dict, compare=False
    )  # of the files that have several

    def walk(self, problem: Note, note: Note) -> Iterator[Entry]:
        """Give every entry, a directory before what is in it, names in order.

        `note` hears of what is skipped on purpose (sockets, fifos, devices), `problem` of what could not be looked at.
        Files come without chunks: they are not opened here.
        """
        yield self._entry(b"", os.stat(self.root), DIRECTORY)
        pending = [b""]
        while pending:
            directories: list[bytes] = []
            for entry in self._list(pending.pop(), problem, note):
                if entry.kind == DIRECTORY:
                    directories.append(entry.path)
                yield entry
            pending.extend(reversed(directories))

    def open(self, entry: Entry) -> Reading:
        """Open a file for reading.

        Raises: Skipped if it is gone, may not be read, or is no longer a regular file.
        """
        try:
            # Non-blocking: a fifo put in the file's place must not hold us up.
            file = os.open(self._path(entry.path), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            raise Skipped("vanished before it was read") from None
        except OSError as error:
            raise Skipped(f"cannot be read: {error.strerror}") from None
        reading = Reading(file)
        if not stat.S_ISREG(reading.status.st_mode):
            os.close(file)
            raise Skipped("is no longer a regular file")
        return reading

    def _path(self, path: bytes) -> bytes:
        return os.path.join(self.root, path) if path else self.root

    def _list(self, directory: bytes, problem: Note, note: Note) -> Iterator[Entry]:
        try:
            with os.scandir(self._path(directory)) as found:
                items = sorted(found, key=lambda item: item.name)
        except OSError as error:
            problem(directory, f"cannot be listed: {error.strerror}")
            return
        for item in items:
            path = directory + b"/" + item.name if directory else item.name
            if not self._excluded(path) and (entry := self._look_at(path, item, problem, note)):
                yield entry

    def _excluded(self, path: bytes) -> bool:
        if not self.exclude:
            return False
        text = os.fsdecode(path)
        name = text.rpartition("/")[2]
        return any(fnmatch.fnmatchcase(name, rule) or fnmatch.fnmatchcase(text, rule) for rule in self.exclude)

    def _look_at(self, path: bytes, item: os.DirEntry[bytes], problem: Note, note: Note) -> Entry | None:
        try:
            status = item.stat(follow_symlinks=False)
            kind = kind_of(status.st_mode)
            if kind in KINDS:
                return self._entry(path, status, kind)
            note(path, f"skipped: it is a {kind}")
        except FileNotFoundError:
            problem(path, "vanished before it was read")
        except OSError as error:
            problem(path, f"cannot be read: {error.strerror}")
        return None

    def _entry(self, path: bytes, status: os.stat_result, kind: str) -> Entry:
        target = os.readlink(self._path(path)) if kind == LINK else b""
        if kind == FILE and status.st_nlink > 1:
            first = self.first_names.setdefault((status.st_dev, status.st_ino), path)
            kind, target = (FILE, b"") if first == path else (NAME, first)
        size = status.st_size if kind == FILE else 0
        mode, owner = stat.S_IMODE(status.st_mode), (status.st_uid, status.st_gid)
        return Entry(path, kind, mode, status.st_mtime_ns, size, target, b"", *owner)


def kind_of(mode: int) -> str:
    """Name what a mode's file type is."""
    return _KIND_NAMES.get(stat.S_IFMT(mode), "device")


_KIND_NAMES: Final = {
    stat.S_IFREG: FILE,
    stat.S_IFDIR: DIRECTORY,
    stat.S_IFLNK: LINK,
    stat.S_IFSOCK: "socket",
    stat.S_IFIFO: "fifo",
}
