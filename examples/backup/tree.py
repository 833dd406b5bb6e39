"""The tree on the client's disk: what an entry of a snapshot is, and walking and reading a source.

Writing a tree is in `destination`. Paths are bytes, relative to the root of the tree and parted by slashes, since file
names need not be text; the root's own path is empty.
"""

from __future__ import annotations

import fnmatch
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from .chunks import DIGEST_SIZE
from .wire import BackupError, WireError

FILE: Final = "file"
DIRECTORY: Final = "directory"
LINK: Final = "link"
MORE: Final = "more"  # further chunks of the file before it
KINDS: Final = (FILE, DIRECTORY, LINK, MORE)
PART_CHUNKS: Final = 16_384  # 512 KiB of digests in one entry: eight of them fit a frame

Note = Callable[[bytes, str], None]  # path, what happened


class Skipped(BackupError):
    """A file that cannot be saved; the backup goes on without it."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing in a tree. `chunks` holds the digests end to end, `target` what a link points to."""

    path: bytes
    kind: str
    mode: int = 0
    mtime_ns: int = 0
    size: int = 0
    target: bytes = b""
    chunks: bytes = b""

    @classmethod
    def from_wire(cls, values: object) -> Entry:
        """Build an entry from what a stranger sent.

        Raises: WireError for the wrong shape, Unsafe for a path that leads out of the tree.
        """
        shape = (bytes, str, int, int, int, bytes, bytes)
        if not (isinstance(values, list) and tuple(map(type, values)) == shape):
            raise WireError("bad entry: expected path, kind, mode, mtime, size, target, chunks")
        entry = cls(*values)
        sound = 0 <= entry.mode <= 0o7777 and entry.size >= 0 and -(2**63) <= entry.mtime_ns < 2**63
        if not sound or entry.kind not in KINDS or len(entry.chunks) % DIGEST_SIZE:
            raise WireError(f"bad entry: {show(entry.path)} of kind {entry.kind!r}")
        check_path(entry.path)
        return entry

    def to_wire(self) -> tuple[object, ...]:
        """Give the fields in the order of `from_wire`."""
        # Not astuple, which copies each field deeply: 14 µs, of the 300 that a small file takes in all.
        return (self.path, self.kind, self.mode, self.mtime_ns, self.size, self.target, self.chunks)


class Unsafe(BackupError):
    """A path that leads out of the tree it belongs to."""


def show(path: bytes) -> str:
    """Turn a path into text that is safe to print, whatever its bytes."""
    text = os.fsdecode(path)
    return (text if text.isprintable() else ascii(text)) or "."


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

    def __enter__(self) -> Reading:
        return self

    def __exit__(self, *error: object) -> None:
        os.close(self._file)

    def read(self, count: int) -> bytes:
        """Read at most so many bytes.

        Raises: Skipped if the disk fails.
        """
        try:
            return os.read(self._file, count)
        except OSError as error:
            raise Skipped(f"cannot be read: {error.strerror}") from None

    def has_changed(self, size: int) -> bool:
        """Tell whether a file of which so many bytes were read is another one than in the beginning."""
        now = os.fstat(self._file)
        return (now.st_size, now.st_mtime_ns) != (size, self.status.st_mtime_ns)


@dataclass(frozen=True, slots=True)
class Source:
    """A directory to be saved."""

    root: bytes
    exclude: tuple[str, ...] = ()

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
        size = status.st_size if kind == FILE else 0
        return Entry(path, kind, stat.S_IMODE(status.st_mode), status.st_mtime_ns, size, target)


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
