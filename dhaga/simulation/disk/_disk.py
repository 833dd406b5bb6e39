"""``Disk``: the disk of one host. A real directory holds the files; this object knows which bytes are durable."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._base.ranges import Range, check_seconds, check_share, range_of
from ._inodes import Change, Directory, Entry, File, Inode, Resize, Step, needed_for, without
from ._survival import KEPT, Survival
from ._tree import check_tree, rebuild

if TYPE_CHECKING:
    from ._disks import Disks

SECTORS = (512, 4096)

CALLS = ("read", "write", "sync")
"""The kinds of calls that may fail."""

UNLIMITED = None


def os_error(error: int, path: object = None) -> OSError:
    return OSError(error, os.strerror(error), *(() if path is None else (path,)))


def check_calls(calls: Iterable[str]) -> frozenset[str]:
    """Check the kinds of calls that are to fail. Raises: TypeError, ValueError."""
    if isinstance(calls, str):
        raise TypeError(f"calls takes several kinds, [{calls!r}], and not {calls!r}")
    wanted = frozenset(calls)
    if unknown := wanted - set(CALLS):
        raise ValueError(f"calls that fail are {', '.join(CALLS)}, and not {', '.join(map(repr, sorted(unknown)))}")
    return wanted


def drawn_sync(draw: Any) -> Range:
    """Draw how long a sync takes in this run, in seconds: a fast disk or a slow one, even or uneven."""
    low = 10 ** draw.uniform(-5, -2)
    return low, low * draw.choice((1.0, 2.0, 20.0))


class Disk:
    """The disk of a host. ``path``: its directory, for the program.

    A file is durable after an ``os.fsync`` of it, and a name after an ``os.fsync`` of its directory. ``capacity``:
    bytes of all files, None without a limit.
    """

    def __init__(self, disks: Disks, host: str, path: Path) -> None:
        self.disks = disks
        self.host = host
        self.path = path
        self.sector: int = disks.draw.choice(SECTORS)
        self.sync_seconds = drawn_sync(disks.draw)
        self.capacity: int | None = UNLIMITED
        self.failing: frozenset[str] = frozenset()
        self.failing_share = 1.0
        self.changes: list[Change] = []
        self.root = Directory(self, "/", 0o755)
        disks.register(os.lstat(path), self.root)

    def __repr__(self) -> str:
        return f"<Disk of {self.host}, {self.used} bytes, {len(self.changes)} unsynced changes of names>"

    @property
    def used(self) -> int:
        """Bytes of all files, as the program sees them."""
        return sum(file.size for file in self.files())

    def files(self) -> list[File]:
        return [inode for inode in self.inodes() if isinstance(inode, File)]

    def inodes(self) -> list[Inode]:
        """Return all that the program sees, each once."""
        found: dict[int, Inode] = {}
        left: list[Inode] = [self.root]
        while left:
            inode = left.pop()
            if id(inode) not in found:
                found[id(inode)] = inode
                if isinstance(inode, Directory):
                    left.extend(inode.entries.values())
        return list(found.values())

    # ---- settings and faults

    def set(
        self,
        *,
        sync: float | Range | None = None,
        sector: int | None = None,
        capacity: int | None = None,
    ) -> None:
        """Set properties of the disk; the others stay as they are. Each seed draws its own.

        ``sync``: seconds that a sync takes, a number or a range; ``sector``: bytes that are written whole;
        ``capacity``: bytes of all files. Raises: ValueError.
        """
        if sector is not None and not (type(sector) is int and sector > 0):
            raise ValueError(f"sector is a number of bytes from 1, and not {sector!r}")
        if capacity is not None and not (type(capacity) is int and capacity >= 0):
            raise ValueError(f"capacity is a number of bytes from 0, and not {capacity!r}")
        self.sync_seconds = self.sync_seconds if sync is None else range_of("sync", sync)
        self.sector = sector or self.sector
        self.capacity = self.capacity if capacity is None else capacity

    def sync(self) -> None:
        """Make all durable, at once, as a program's set-up needs it."""
        for file in self.files():
            file.commit(file.mark)
        for change in self.changes:
            change.commit()
        self.changes = []
        self.note(f"syncs all of {self.host}")

    def fill(self, seconds: float | None = None) -> None:
        """Fill the disk: from some more bytes on, writes fail with ENOSPC, for some seconds or until ``empty()``."""
        check_seconds(seconds)
        self.capacity = self.used + self.disks.draw.randrange(self.sector)
        self.disks.tell(f"fills the disk of {self.host}")
        self.end_after(seconds, self.empty)

    def empty(self) -> None:
        """Make room again: the disk has no capacity any more."""
        self.capacity = UNLIMITED
        self.disks.tell(f"makes room on the disk of {self.host}")

    def fail(self, calls: Iterable[str] = CALLS, share: float = 1.0, seconds: float | None = None) -> None:
        """Make calls fail with EIO, a drawn share of them, for some seconds or until ``mend()``.

        ``calls``: of ``"read"``, ``"write"``, ``"sync"``. The writes of a failed sync are lost or kept for good, by a
        draw, and the next sync does not fail for them: Linux behaves so. Raises: TypeError, ValueError.
        """
        wanted = check_calls(calls)
        check_share("share", share)
        check_seconds(seconds)
        self.failing, self.failing_share = wanted, share
        self.disks.tell(f"makes the disk of {self.host} fail: {', '.join(each for each in CALLS if each in wanted)}")
        self.end_after(seconds, self.mend)

    def mend(self) -> None:
        """End the failures of calls."""
        self.failing = frozenset()
        self.disks.tell(f"mends the disk of {self.host}")

    def slow_down(self, sync: float | Range, seconds: float | None = None) -> None:
        """Make each sync take longer, for some seconds or until the next ``set(sync=…)``. Raises: ValueError."""
        slow, former = range_of("sync", sync), self.sync_seconds
        check_seconds(seconds)
        self.sync_seconds = slow
        self.disks.tell(f"slows the disk of {self.host}")
        self.end_after(seconds, lambda: self.set(sync=former))

    def end_after(self, seconds: float | None, end: Any) -> None:
        if seconds is not None:
            self.disks.at(self.disks.clock.now + seconds, end)

    def check(self, call: str, path: str) -> None:
        """Raise EIO if calls of this kind fail now."""
        if call in self.failing and (self.failing_share >= 1 or self.disks.draw.random() < self.failing_share):
            self.note(f"fails to {call} {self.host}:{path}: EIO")
            raise os_error(errno.EIO)

    def room_for(self, growth: int) -> int:
        """Return how many of these bytes fit. Raises: OSError (ENOSPC) if none does."""
        if self.capacity is None or growth <= 0:
            return growth
        room = max(0, min(growth, self.capacity - self.used))
        if not room:
            self.note(f"finds the disk of {self.host} full: ENOSPC")
            raise os_error(errno.ENOSPC)
        return room

    # ---- what the program does

    def note(self, what: str) -> None:
        self.disks.note(what)

    def change(self, what: str, *entries: Entry) -> None:
        """Add a change of names, and show it to the program's side of the model."""
        change = Change(entries)
        change.show()
        self.changes.append(change)
        self.note(what)

    def step(self, file: File, step: Step) -> None:
        """Add a write or a change of size."""
        file.add(step)
        place = f"{self.host}:{file.name}"
        if isinstance(step, Resize):
            self.note(f"sets the size of {place} to {step.size}")
        else:
            self.note(f"writes {len(step.data)} bytes to {place} at {step.offset}")

    def write_durably(self, inode: Inode) -> None:
        """Sync a file or the names of a directory: what there is now is durable in the end.

        Parks: for the time that a sync takes. Raises: OSError (EIO).
        """
        place = f"{self.host}:{inode.name}"
        self.note(f"begins to sync {place}")
        mark = inode.mark if isinstance(inode, File) else 0
        changes = needed_for(inode, self.changes) if isinstance(inode, Directory) else []
        self.disks.pause(self.disks.draw.uniform(*self.sync_seconds), f"sync of {place}")
        try:
            self.check("sync", inode.name)
        except OSError:
            self.lose(inode, mark)
            raise
        if isinstance(inode, File):
            inode.commit(mark)
        for change in changes:
            change.commit()
        self.changes = without(self.changes, changes)
        self.note(f"has synced {place}")

    def lose(self, inode: Inode, mark: int) -> None:
        """Drop a drawn part of the writes of a failed sync: the program still sees them."""
        if isinstance(inode, File) and inode.steps:
            later = inode.steps[max(0, mark - inode.committed) :]
            del inode.steps[max(0, mark - inode.committed) :]
            content, _ = Survival(self.disks.draw, self.sector).content_of(inode)
            inode.durable, inode.committed, inode.steps = content, max(mark, inode.committed), later
            inode.has_lost = True

    # ---- kills

    def kill(self, unsynced: str) -> None:
        """Replace the contents by the survivors. Raises: NotSimulated for writes that were not seen."""
        check_tree(self)
        if unsynced == KEPT:  # by the operating system, which may still lose it
            return
        survival = Survival(self.disks.draw, self.sector, unsynced)
        survivors = survival.changes_of(self.changes)
        if self.changes:
            self.disks.tell(f"keeps {len(survivors)} of {len(self.changes)} unsynced names of {self.host}")
        for change in survivors:
            change.commit()
        self.changes = []
        for file in self.durable_files():
            self.settle(file, survival)
        self.disks.forget(self)
        rebuild(self)

    def settle(self, file: File, survival: Survival) -> None:
        """Give a file the content that survives."""
        if not file.steps:
            return
        content, way = survival.content_of(file)
        lost = "all kept" if way == KEPT else f"{way}, {len(content)} bytes"
        self.disks.tell(f"leaves {len(file.steps)} unsynced writes of {self.host}:{file.name}: {lost}")
        file.durable, file.steps, file.committed, file.size = content, [], 0, len(content)
        file.has_lost = False

    def durable_files(self) -> list[File]:
        """Return the files that have a durable name, in the order of their paths."""
        found: dict[int, File] = {}
        left = [self.root]
        while left:
            directory = left.pop()
            for _, inode in sorted(directory.durable.items()):
                if isinstance(inode, Directory):
                    left.append(inode)
                elif isinstance(inode, File):
                    found.setdefault(id(inode), inode)
        return list(found.values())
