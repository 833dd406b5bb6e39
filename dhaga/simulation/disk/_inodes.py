"""The contents of a disk: files, directories and symbolic links. All except links have a visible and a durable state.

The program sees the visible state. A file has its durable content, and a list of the later writes and changes of size.
A directory has a table of names for each state. A change of names (``Change``) becomes durable completely or not at
all, even a rename from one directory to another.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ._disk import Disk


class Write(NamedTuple):
    """A write of bytes at an offset."""

    offset: int
    data: bytes

    @property
    def end(self) -> int:
        return self.offset + len(self.data)


class Resize(NamedTuple):
    """A change of a file's size: the bytes beyond the new size are removed, and added bytes are zeros."""

    size: int


Step = Write | Resize


def apply(content: bytearray, step: Step) -> None:
    """Apply a write or a change of size to the content of a file."""
    if isinstance(step, Resize):
        resize(content, step.size)
    else:
        resize(content, max(len(content), step.offset))
        content[step.offset : step.end] = step.data


def resize(content: bytearray, size: int) -> None:
    del content[size:]
    content.extend(bytes(size - len(content)))


class Inode:
    """The base class of files, directories and links. ``name``: the latest path below the root, for the events.

    ``mode`` and ``changed_at`` (in ns) are durable at once: a kill keeps them as the program saw them last.
    """

    def __init__(self, disk: Disk, name: str, mode: int) -> None:
        self.disk = disk
        self.name = name
        self.mode = mode
        self.changed_at = 0

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.disk.host}:{self.name}>"


class File(Inode):
    """A file. A step is a write or a change of size. ``steps``: the steps that are not durable.

    ``committed``: the number of earlier steps, which syncs have removed from ``steps``. ``has_lost``: whether a failed
    sync has lost steps that the program still sees.
    """

    def __init__(self, disk: Disk, name: str, mode: int, content: bytes = b"") -> None:
        super().__init__(disk, name, mode)
        self.durable: bytearray = bytearray(content)
        self.steps: list[Step] = []
        self.committed: int = 0
        self.size: int = len(content)
        self.has_lost = False

    def add(self, step: Step) -> None:
        """Add a write or a change of size by the program."""
        self.steps.append(step)
        self.size = step.size if isinstance(step, Resize) else max(self.size, step.end)

    @property
    def mark(self) -> int:
        """The number of all steps so far, for ``commit``."""
        return self.committed + len(self.steps)

    def commit(self, mark: int) -> None:
        """Make the steps up to a mark durable."""
        count = mark - self.committed
        for step in self.steps[: max(0, count)]:
            apply(self.durable, step)
            self.committed += 1
        del self.steps[: max(0, count)]

    def content(self) -> bytearray:
        """Return the content that the program sees."""
        content = bytearray(self.durable)
        for step in self.steps:
            apply(content, step)
        return content


class Link(Inode):
    """A symbolic link, which never changes."""

    def __init__(self, disk: Disk, name: str, target: str) -> None:
        super().__init__(disk, name, 0o777)
        self.target = target


class Directory(Inode):
    """A directory. ``entries``: the names that the program sees; ``durable``: the durable names."""

    def __init__(self, disk: Disk, name: str, mode: int) -> None:
        super().__init__(disk, name, mode)
        self.entries: dict[str, Inode] = {}
        self.durable: dict[str, Inode] = {}


class Entry(NamedTuple):
    """A new target of a name in a directory: an inode, or None if the name is removed."""

    directory: Directory
    name: str
    inode: Inode | None


class Change:
    """Entries that become durable all together or not at all."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self.entries = entries
        self.keys = {(id(each.directory), each.name) for each in entries}

    def __repr__(self) -> str:
        return f"<Change of {', '.join(each.name for each in self.entries)}>"

    def touches(self, directory: Directory) -> bool:
        return any(each.directory is directory for each in self.entries)

    def show(self) -> None:
        """Show the change to the program."""
        for directory, name, inode in self.entries:
            set_entry(directory.entries, name, inode)

    def commit(self) -> None:
        for directory, name, inode in self.entries:
            set_entry(directory.durable, name, inode)


def set_entry(entries: dict[str, Inode], name: str, inode: Inode | None) -> None:
    if inode is None:
        entries.pop(name, None)
    else:
        entries[name] = inode


def needed_for(directory: Directory, changes: Sequence[Change]) -> list[Change]:
    """Return the changes of a directory and the earlier changes of the same names, in order."""
    keys: set[tuple[int, str]] = set()
    found = []
    for change in reversed(changes):
        if change.touches(directory) or keys & change.keys:
            keys |= change.keys
            found.append(change)
    return found[::-1]


def without(changes: Iterable[Change], removed: Sequence[Change]) -> list[Change]:
    gone = {id(change) for change in removed}
    return [change for change in changes if id(change) not in gone]
