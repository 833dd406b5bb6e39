"""Chunks on the server's disk, each in a file with the chunk's name.

    incoming/NAME     complete, but perhaps only in the page cache
    chunks/NA/NAME    durable: fsynced before it was moved here
    damaged/NAME      its bytes do not match its name

`settle(names)` returns when these chunks are durable in `chunks/`, even after power loss, as far as fsync guarantees
this. A snapshot is committed only afterwards, so a committed snapshot never lacks chunks. The chunks are fsynced in
groups, sometimes during a backup and always at the commit. An fsync of each arriving chunk would delay the client each
time; on a hard disk, a hundred files would take seconds. A chunk that is not settled survives a crash of the server.
After power loss it is used only if it still matches its name: opening the store checks all chunks in `incoming`, and
makes the names in `chunks` durable.
"""

from __future__ import annotations

import fcntl
import itertools
import os
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from .chunks import PACKED_LIMIT, DamagedChunk, unpack_chunk
from .wire import BackupError
from .workers import Unit

LOT: Final = 512  # number of unsettled chunks from which on some are settled before the commit
SYNC_ALL_FROM: Final = 64  # number of files; for 4,000 of 10 KB, fsync of each took 0.83 s, with a sync first 0.51 s
_DRAFT_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC


class Store:
    """A directory of chunks, held by one server."""

    def __init__(self, root: Path, unit: Unit) -> None:
        self.root = root
        self._unit = unit
        self._settling = unit.threading.Lock()
        self._wanted: deque[bytes] = deque()  # names of all waiting callers: the caller that gets the lock settles all
        self._drafts = itertools.count()
        self._incoming: set[bytes] = set()
        self._paths = {name: str(root / name) for name in ("chunks", "incoming", "damaged")}
        _prepare(root)
        self._lock = _lock(root)
        self._recover()

    def close(self) -> None:
        """Release the directory, so that another server can use it."""
        os.close(self._lock)

    def has(self, digest: bytes) -> bool:
        """Return whether a chunk need not be sent."""
        return digest in self._incoming or os.path.exists(self._place(digest))

    def put(self, digest: bytes, packed: bytes) -> bool:
        """Store a chunk.

        Returns: whether it is new.
        Raises: DamagedChunk if it does not match its name.
        """
        if self.has(digest):
            return False
        unpack_chunk(digest, packed)
        self._write(digest, packed)
        if len(self._incoming) >= LOT:
            self._settle_lot()
        return True

    def get(self, digest: bytes) -> bytes:
        """Return a settled chunk in its stored form. The reader checks whether it is damaged.

        Raises: DamagedChunk if there is no such chunk.
        """
        try:
            with open(self._place(digest), "rb", buffering=0) as file:
                return file.read(PACKED_LIMIT + 1)  # the additional byte shows that it is too long
        except FileNotFoundError:
            raise DamagedChunk(f"chunk {digest.hex()} is missing from the store") from None

    def check(self, digests: list[bytes]) -> list[str]:
        """Read chunks and compare them with their names. Move damaged chunks away, so that a backup sends them again.

        Parks: while an OS thread does the work.
        Returns: for each chunk a description of its damage, or an empty text.
        """
        found: list[str] = self._unit.offload(lambda: [self._check(digest) for digest in digests])
        return found

    def settle(self, digests: Iterable[bytes]) -> None:
        """Make chunks durable.

        Parks: while others settle, and while an OS thread does the work.
        Raises: DamagedChunk if one of them is missing.
        """
        mine = list(digests)
        self._wanted.extend(mine)
        with self._settling:
            wanted = [self._wanted.popleft() for _ in range(len(self._wanted))]
            self._unit.offload(self._settle, mine, wanted)

    def _check(self, digest: bytes) -> str:
        try:
            unpack_chunk(digest, self.get(digest))
        except DamagedChunk as error:
            self._put_aside(digest)
            return str(error)
        return ""

    def _settle_lot(self) -> None:
        if self._settling.acquire(blocking=False):  # one caller at a time; the others continue
            try:
                self._unit.offload(self._settle, list(self._incoming))
            finally:
                self._settling.release()

    def _settle(self, digests: list[bytes], others: Iterable[bytes] = ()) -> None:
        fresh = [digest for digest in dict.fromkeys([*digests, *others]) if digest in self._incoming]
        if len(fresh) >= SYNC_ALL_FROM:
            os.sync()  # writes all files together; only fsync reports errors, but would write file by file
        for digest in fresh:
            _fsync(self._waiting_room(digest))
        directories = sorted({os.path.dirname(self._place(digest)) for digest in fresh})
        made = [_make_directory(directory) for directory in directories]
        for digest in fresh:
            os.rename(self._waiting_room(digest), self._place(digest))
        for directory in directories + [self._paths["chunks"]] * any(made):
            _fsync(directory)
        self._incoming.difference_update(fresh)
        for digest in digests:
            if not os.path.exists(self._place(digest)):
                raise DamagedChunk(f"chunk {digest.hex()} is missing from the store: run the backup again")

    def _place(self, digest: bytes) -> str:
        name = digest.hex()
        return f"{self._paths['chunks']}/{name[:2]}/{name}"

    def _waiting_room(self, digest: bytes) -> str:
        return f"{self._paths['incoming']}/{digest.hex()}"

    def _write(self, digest: bytes, packed: bytes) -> None:
        draft = f"{self._paths['incoming']}/{next(self._drafts)}.draft"
        file = os.open(draft, _DRAFT_FLAGS, 0o600)
        try:
            _write_all(file, packed)
        except OSError:
            os.unlink(draft)
            raise
        finally:
            os.close(file)
        os.rename(draft, self._waiting_room(digest))
        self._incoming.add(digest)

    def _put_aside(self, digest: bytes) -> None:
        try:
            os.rename(self._place(digest), f"{self._paths['damaged']}/{digest.hex()}")
        except FileNotFoundError:
            pass

    def _recover(self) -> None:
        chunks = self._paths["chunks"]
        for directory in [f"{chunks}/{name}" for name in os.listdir(chunks)] + [chunks]:
            _fsync(directory)  # a server may have been killed after it moved chunks there, but before this
        for name in os.listdir(self._paths["incoming"]):
            path = f"{self._paths['incoming']}/{name}"
            if (digest := _sound(name, path)) is None:
                os.unlink(path)
            else:
                self._incoming.add(digest)


def _prepare(root: Path) -> None:
    try:
        for name in ("chunks", "incoming", "damaged"):
            (root / name).mkdir(parents=True, exist_ok=True)
        for path in (root, root.parent):
            _fsync(str(path))
    except OSError as error:
        raise BackupError(f"cannot use {root} as a store: {error.strerror} ({error.filename})") from None


def _make_directory(path: str) -> bool:
    try:
        os.mkdir(path)
    except FileExistsError:
        return False
    return True


def _lock(root: Path) -> int:
    lock = os.open(root / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        raise BackupError(f"another server uses the store {root}: stop it, or choose another --store") from None
    return lock


def _sound(name: str, path: str) -> bytes | None:
    try:
        digest = bytes.fromhex(name)
        unpack_chunk(digest, Path(path).read_bytes())
    except (ValueError, DamagedChunk):  # a draft, or torn by power loss
        return None
    return digest


def _write_all(file: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(file, rest) :]


def _fsync(path: str) -> None:
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        _fsync_file(file)
    finally:
        os.close(file)


def _fsync_file(file: int) -> None:
    if full := getattr(fcntl, "F_FULLFSYNC", None):  # macOS: its fsync stops at the drive's cache
        fcntl.fcntl(file, full)
    else:
        os.fsync(file)


def settled(root: Path) -> Iterator[Path]:
    """Yield the files of a store's durable chunks."""
    return (root / "chunks").glob("*/*")
