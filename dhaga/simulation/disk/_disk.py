"""``Disk``: the disk of one host. A real directory holds the files, and the ``Disk`` knows which bytes are durable."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._base.excerpt import LONGEST, Excerpt
from .._base.ranges import Range, check_seconds, check_share, range_of
from ._inodes import Change, Directory, Entry, File, Inode, Resize, Step, needed_for, without
from ._survival import KEPT, Survival
from ._tree import check_tree, rebuild

if TYPE_CHECKING:
    from .._schedule.events import Shown
    from ._disks import Disks

SECTORS = (512, 4096)

CALLS = ("read", "write", "sync")
"""The kinds of calls that ``Disk.fail`` can make fail."""

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
    """Return a drawn range of the seconds that a sync takes in this run.

    The lower bound is between 10 µs and 10 ms. The upper bound is 1, 2 or 20 times the lower.
    """
    low = 10 ** draw.uniform(-5, -2)
    return low, low * draw.choice((1.0, 2.0, 20.0))


class Disk:
    """The disk of a host. ``path``: the directory in which the program finds the files of the disk.

    The contents of a file are durable after an ``os.fsync`` of the file, and a name after an ``os.fsync`` of its
    directory. ``capacity``: the largest number of bytes of all files together, or None without a limit.
    """

    def __init__(self, disks: Disks, host: str, path: Path) -> None:
        self.disks = disks
        self.host = host
        self.path = path
        self.sector: int = disks.draw.choice(SECTORS)
        self.sync_seconds = self.usual_sync = drawn_sync(disks.draw)
        self.capacity: int | None = UNLIMITED
        self.usual_capacity: int | None = UNLIMITED
        self.last_faults: dict[str, object] = {}  # by kind
        self.failing: frozenset[str] = frozenset()
        self.failing_share = 1.0
        self.changes: list[Change] = []
        self.root = Directory(self, "/", 0o755)
        disks.register(os.lstat(path), self.root)

    def __repr__(self) -> str:
        return f"<Disk of {self.host}, {self.used} bytes, {len(self.changes)} unsynced changes of names>"

    @property
    def used(self) -> int:
        """The number of bytes of all files, as the program sees them."""
        return sum(file.size for file in self.files())

    def files(self) -> list[File]:
        return [inode for inode in self.inodes() if isinstance(inode, File)]

    def inodes(self) -> list[Inode]:
        """Return all files, directories and links that the program sees, each once."""
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
        """Set properties of the disk. Properties that are None do not change.

        ``sync``: the seconds that a sync takes, as a number or a range. ``sector``: the size of a sector in bytes.
        The seed draws the initial values of both. ``capacity``: the largest number of bytes of all files with their
        holes, at first unlimited.
        Raises: ValueError.
        """
        if sector is not None and not (type(sector) is int and sector > 0):
            raise ValueError(f"sector is a number of bytes from 1, and not {sector!r}")
        if capacity is not None and not (type(capacity) is int and capacity >= 0):
            raise ValueError(f"capacity is a number of bytes from 0, and not {capacity!r}")
        if sync is not None:
            self.sync_seconds = self.usual_sync = range_of("sync", sync)
        if capacity is not None:
            self.capacity = self.usual_capacity = capacity
        self.sector = sector or self.sector

    def sync(self) -> None:
        """Make all contents and names durable without waiting, for the set-up of a program."""
        for file in self.files():
            file.commit(file.mark)
        for change in self.changes:
            change.commit()
        self.changes = []
        self.note(f"syncs all of {self.host}")

    def fill(self, seconds: float | None = None) -> None:
        """Fill the disk, except for a drawn rest of less than one sector, for ``seconds`` or until ``empty()``.

        Writes beyond the rest fail with ENOSPC. After ``seconds``, the disk has the capacity from ``set()`` again.
        Raises: ValueError.
        """
        check_seconds(seconds)
        self.capacity = self.used + self.disks.draw.randrange(self.sector)
        self.disks.tell(f"fills the disk of {self.host}")
        self.end_after(seconds, "fill", self.end_filling)

    def end_filling(self) -> None:
        self.capacity = self.usual_capacity
        self.disks.tell(f"makes room on the disk of {self.host}")

    def empty(self) -> None:
        """Remove the limit of the capacity, which ``fill()`` or ``set()`` has set."""
        self.usual_capacity = UNLIMITED
        self.end_filling()

    def fail(self, calls: Iterable[str] = CALLS, share: float = 1.0, seconds: float | None = None) -> None:
        """Make calls fail with EIO, for ``seconds`` or until ``mend()``. ``share``: the probability for each call.

        ``calls``: kinds from ``"read"``, ``"write"`` and ``"sync"``. After a failed sync, a draw decides which of the
        writes before it are durable and which are lost. As in Linux, the next sync does not report the lost writes.
        Raises: TypeError, ValueError.
        """
        wanted = check_calls(calls)
        check_share("share", share)
        check_seconds(seconds)
        self.failing, self.failing_share = wanted, share
        self.disks.tell(f"makes the disk of {self.host} fail: {', '.join(each for each in CALLS if each in wanted)}")
        self.end_after(seconds, "fail", self.mend)

    def mend(self) -> None:
        """End the failures that ``fail()`` began."""
        self.failing = frozenset()
        self.disks.tell(f"mends the disk of {self.host}")

    def slow_down(self, sync: float | Range, seconds: float | None = None) -> None:
        """Set a longer duration of syncs, for ``seconds`` or until the next ``set(sync=…)``. Raises: ValueError."""
        slow = range_of("sync", sync)
        check_seconds(seconds)
        self.sync_seconds = slow
        self.disks.tell(f"slows the disk of {self.host}")
        self.end_after(seconds, "slow", lambda: self.set(sync=self.usual_sync))

    def end_after(self, seconds: float | None, kind: str, end: Callable[[], object]) -> None:
        """Call ``end`` after ``seconds``, unless a later fault of this kind has begun meanwhile."""
        fault = self.last_faults[kind] = object()

        def end_this_fault() -> None:
            if self.last_faults[kind] is fault:
                end()

        if seconds is not None:
            self.disks.at(self.disks.clock.now + seconds, end_this_fault)

    def check(self, call: str, path: str) -> None:
        """Raise EIO if a call of this kind is to fail now."""
        if call in self.failing and (self.failing_share >= 1 or self.disks.draw.random() < self.failing_share):
            self.note(f"fails to {call} {self.host}:{path}: EIO")
            raise os_error(errno.EIO)

    def room_for(self, growth: int) -> int:
        """Return how many of ``growth`` bytes fit on the disk. Raises: OSError (ENOSPC) if the disk is full."""
        if self.capacity is None or growth <= 0:
            return growth
        room = max(0, min(growth, self.capacity - self.used))
        if not room:
            raise self.full()
        return room

    def full(self) -> OSError:
        """Return the error of a full disk."""
        self.note(f"finds the disk of {self.host} full: ENOSPC")
        return os_error(errno.ENOSPC)

    # ---- actions of the program

    def note(self, what: str, shown: Shown | None = None) -> None:
        self.disks.note(what, shown)

    def change(self, what: str, *entries: Entry) -> None:
        """Add an unsynced change of directory entries. The program sees the change at once."""
        change = Change(entries)
        change.show()
        self.changes.append(change)
        self.note(what)

    def step(self, file: File, step: Step) -> None:
        """Add an unsynced write or change of size to a file."""
        file.add(step)
        place = f"{self.host}:{file.name}"
        if isinstance(step, Resize):
            self.note(f"sets the size of {place} to {step.size}")
        else:
            what = f"writes {len(step.data)} bytes to {place} at {step.offset}"
            self.note(what, (what, ": ", Excerpt(step.data)))

    def write_durably(self, inode: Inode) -> None:
        """Sync a file or the names of a directory. Changes made before the call are durable when the call returns.

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
        """Lose a drawn part of the writes of a failed sync. Until a kill the program still sees the lost writes."""
        if isinstance(inode, File) and inode.steps:
            later = inode.steps[max(0, mark - inode.committed) :]
            del inode.steps[max(0, mark - inode.committed) :]
            content, _ = Survival(self.disks.draw, self.sector).content_of(inode)
            inode.durable, inode.committed, inode.steps = content, max(mark, inode.committed), later
            inode.has_lost = True

    # ---- kills

    def kill(self, unsynced: str) -> None:
        """Replace the contents of the disk with those that survive a kill of its host.

        Raises: NotSimulated if the simulation has not seen all writes.
        """
        check_tree(self)
        if unsynced == KEPT:  # The operating system still has the writes. A later kill can lose them.
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
        """Replace the content of a file with its surviving content."""
        if not file.steps and not file.has_lost:
            return
        content, way = survival.content_of(file)
        lost = "all kept" if way == KEPT else f"{way}, {len(content)} bytes"
        what = f"leaves {len(file.steps)} unsynced writes of {self.host}:{file.name}: {lost}"
        self.disks.tell(what, (what, ", the file ends with ", Excerpt(content[-LONGEST:])) if content else what)
        file.durable, file.steps, file.committed, file.size = content, [], 0, len(content)
        file.has_lost = False

    def durable_files(self) -> list[File]:
        """Return the files that have a durable name, in an order that only their paths decide."""
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
