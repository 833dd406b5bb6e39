"""The operations that are compared: each inline, by `dhaga.offload`, and by a ring."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dhaga
from benchmarks.io_uring.calls import RingCalls

Call = Callable[..., object]
WAYS = INLINE, OFFLOAD, RING = "inline", "offload", "ring"
READ_BYTES, WRITTEN_BYTES = 64 << 20, 4 << 20
SMALL, LARGE = 4096, 128 * 1024
STRIDE = 37
"""Distance in records between two operations, so that no read benefits from the kernel's read-ahead."""


@dataclass(frozen=True)
class Operation:
    """One operation in each way. ``prepare`` is called before each block of operations."""

    name: str
    ways: dict[str, Callable[[], object]]
    prepare: Callable[[], object] = int
    in_crowds: bool = True
    """Whether many callers may make the operation at once."""


class Files:
    """A file to read, one to overwrite, and one to rename."""

    def __init__(self, folder: Path, ring: RingCalls) -> None:
        self.ring = ring
        self.read_path, self.written_path, self.renamed = folder / "read", folder / "written", folder / "renamed"
        with self.read_path.open("wb") as file:
            shutil.copyfileobj(_Blocks(READ_BYTES), file)
            os.fsync(file.fileno())
        self.written_path.write_bytes(bytes(WRITTEN_BYTES))
        self.renamed.touch()
        self.read_fd = os.open(self.read_path, os.O_RDONLY)
        self.written_fd = os.open(self.written_path, os.O_RDWR)
        os.fsync(self.written_fd)
        self.position = 0

    def close(self) -> None:
        """Close both fds."""
        os.close(self.read_fd)
        os.close(self.written_fd)

    def evict(self) -> None:
        """Drop the file from the page cache, so that the next reads come from the disk."""
        os.posix_fadvise(self.read_fd, 0, 0, os.POSIX_FADV_DONTNEED)

    def offset(self, size: int, whole: int) -> int:
        """Return the file offset of the next operation of this size."""
        self.position += size * STRIDE
        return self.position % (whole - size) // size * size

    def reading(self, name: str, size: int, prepare: Callable[[], object] = int) -> Operation:
        """Return a read of this size."""

        def by(pread: Callable[..., object]) -> Callable[[], object]:
            return lambda: pread(self.read_fd, size, self.offset(size, READ_BYTES))

        return Operation(name, _three(by, os.pread, self.ring.pread), prepare)

    def writing(self, name: str, size: int, then: str = "") -> Operation:
        """Return a write of this size, followed by a sync with the function named ``then``, if any."""
        data = os.urandom(size)

        def by(calls: Any) -> Callable[[], object]:
            def write() -> None:
                calls.pwrite(self.written_fd, data, self.offset(size, WRITTEN_BYTES))
                if then:
                    getattr(calls, then)(self.written_fd)

            return write

        inline = by(os)
        return Operation(name, {INLINE: inline, OFFLOAD: lambda: dhaga.offload(inline), RING: by(self.ring)})

    def durable(self) -> Operation:
        """Return a durable write by one call."""
        data = os.urandom(SMALL)

        def inline() -> None:
            os.pwritev(self.written_fd, [data], self.offset(SMALL, WRITTEN_BYTES), os.RWF_DSYNC)

        def by_ring() -> None:
            self.ring.pwrite(self.written_fd, data, self.offset(SMALL, WRITTEN_BYTES), os.RWF_DSYNC)

        return Operation(
            "write 4 KB, RWF_DSYNC", {INLINE: inline, OFFLOAD: lambda: dhaga.offload(inline), RING: by_ring}
        )

    def opening(self) -> Operation:
        """Return an open and a close: two calls."""
        path = os.fsencode(self.read_path)

        def by_thread() -> None:
            dhaga.offload(os.close, dhaga.offload(os.open, path, os.O_RDONLY))

        return Operation(
            "open and close",
            {
                INLINE: lambda: os.close(os.open(path, os.O_RDONLY)),
                OFFLOAD: by_thread,
                RING: lambda: self.ring.close(self.ring.open(path, os.O_RDONLY)),
            },
        )

    def renaming(self) -> Operation:
        """Return a rename and a rename back: two calls."""
        name = os.fsencode(self.renamed)
        other = name + b"-once"

        def by(rename: Call) -> Callable[[], object]:
            def there_and_back() -> None:
                rename(name, other)
                rename(other, name)

            return there_and_back

        by_thread = by(lambda *names: dhaga.offload(os.rename, *names))
        ways = {INLINE: by(os.rename), OFFLOAD: by_thread, RING: by(self.ring.rename)}
        return Operation("rename, there and back", ways, in_crowds=False)

    def all(self) -> list[Operation]:
        """Return all operations."""
        path = os.fsencode(self.read_path)
        return [
            self.reading("read 4 KB, cached", SMALL),
            self.reading("read 128 KB, cached", LARGE),
            self.reading("read 4 KB, from disk", SMALL, self.evict),
            self.reading("read 128 KB, from disk", LARGE, self.evict),
            self.writing("write 4 KB", SMALL),
            self.writing("write 128 KB", LARGE),
            self.durable(),
            self.writing("write 4 KB, fdatasync", SMALL, "fdatasync"),
            Operation("fsync", _three(lambda call: lambda: call(self.written_fd), os.fsync, self.ring.fsync)),
            self.opening(),
            Operation("stat", _three(lambda call: lambda: call(path), os.stat, self.ring.stat)),
            self.renaming(),
        ]


class _Blocks:
    """A source of a given number of bytes, for copyfileobj."""

    def __init__(self, size: int) -> None:
        self.left, self.block = size, os.urandom(1 << 20)

    def read(self, _size: int = -1) -> bytes:
        self.left -= len(self.block)
        return self.block if self.left >= 0 else b""


def _three(
    by: Callable[[Callable[..., object]], Callable[[], object]],
    inline: Callable[..., object],
    ring: Callable[..., object],
) -> dict[str, Callable[[], object]]:
    call = by(inline)
    return {INLINE: call, OFFLOAD: lambda: dhaga.offload(call), RING: by(ring)}
