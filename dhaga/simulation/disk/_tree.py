"""The real directory of a disk. A kill of the host rebuilds it from the durable state, unless all writes are kept.

First, the kill checks that the simulation has seen all changes in the directory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._base.errors import NotSimulated
from ._inodes import Directory, File, Link
from ._real import own_calls, read_all, real, remove_below, write_all

if TYPE_CHECKING:
    from ._disk import Disk

WAYS_OUT = (
    "write it with open(), os.open() and os.write();\n"
    "or keep it outside the host's disk, where a kill does not change it; or put a stub in place of its writer"
)


def check_tree(disk: Disk) -> None:
    """Check that the simulation has seen every write of the program. Raises: NotSimulated."""
    with own_calls():
        check_directory(disk, disk.root, str(disk.path))


def check_directory(disk: Disk, directory: Directory, path: str) -> None:
    names = set(real.listdir(path))
    for name in sorted(names | directory.entries.keys()):
        inode = directory.entries.get(name)
        status = real.lstat(f"{path}/{name}") if name in names else None
        if inode is None or status is None or disk.disks.at_status(status) is not inode:
            raise unseen(disk, f"{directory.name.rstrip('/')}/{name}")
        inode.mode, inode.changed_at = status.st_mode & 0o7777, status.st_mtime_ns
        if isinstance(inode, Directory):
            check_directory(disk, inode, f"{path}/{name}")
        elif isinstance(inode, File) and not inode.has_lost and read_all(f"{path}/{name}") != inode.content():
            raise unseen(disk, inode.name)


def unseen(disk: Disk, name: str) -> NotSimulated:
    return NotSimulated(
        f"the file {name} of the host {disk.host} was changed by a call that is not simulated: by mmap, a C library or "
        f"another process. {WAYS_OUT}"
    )


def rebuild(disk: Disk) -> None:
    """Replace the contents of the real directory with the durable contents."""
    with own_calls():
        path = str(disk.path)
        remove_below(path)
        disk.disks.register(real.lstat(path), disk.root)
        fill(disk, disk.root, path, {})


def fill(disk: Disk, directory: Directory, path: str, made: dict[int, str]) -> None:
    """Make the entries of a directory. ``made``: the first path of each file. A file can have several paths."""
    directory.entries = dict(directory.durable)
    for name, inode in sorted(directory.entries.items()):
        place = f"{path}/{name}"
        first = made.setdefault(id(inode), place)
        if first != place:
            real.link(first, place)
            continue
        inode.name = f"{directory.name.rstrip('/')}/{name}"
        if isinstance(inode, Directory):
            real.mkdir(place, 0o700)
            fill(disk, inode, place, made)
            real.chmod(place, inode.mode)
        elif isinstance(inode, Link):
            real.symlink(inode.target, place)
        elif isinstance(inode, File):
            fd = real.open(place, real.O_WRONLY | real.O_CREAT | real.O_EXCL | real.O_CLOEXEC, 0o600)
            try:
                write_all(fd, inode.durable)
                real.fchmod(fd, inode.mode)
            finally:
                real.close(fd)
        real.utime(place, ns=(inode.changed_at, inode.changed_at), follow_symlinks=False)
        disk.disks.register(real.lstat(place), inode)
