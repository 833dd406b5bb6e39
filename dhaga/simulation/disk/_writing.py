"""Functions of ``os`` that write, resize, sync or read files of a disk by fd. Other fds get the usual functions."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Callable, Sequence
from typing import Any

from ... import os as ours
from .._base.part import WALL_START
from ._active import disks_of_caller, refused
from ._disk import Disk, os_error
from ._disks import Disks
from ._inodes import File, Inode, Resize, Write
from ._real import real

SYNCED = getattr(os, "O_DSYNC", 0) | getattr(os, "O_SYNC", 0)
WRITTEN_THROUGH = getattr(os, "RWF_DSYNC", 0) | getattr(os, "RWF_SYNC", 0)
APPENDED = getattr(os, "RWF_APPEND", 0)


def number_of(fd: Any) -> int:
    return fd if isinstance(fd, int) else fd.fileno()


def file_behind(fd: Any) -> File | None:
    """Return the file on which an fd is open, or None if the file is not on a simulated disk."""
    disks = disks_of_caller()
    return None if disks is None else disks.file_behind(fd)


def inode_behind(fd: Any) -> Inode | None:
    disks = disks_of_caller()
    return None if disks is None else disks.behind_fd(number_of(fd))


def stamp(disk: Disk, where: Any) -> None:
    """Set the times of a file to the time of the virtual clock."""
    real.utime(where, ns=now_of(disk.disks))


def now_of(disks: Disks) -> tuple[int, int]:
    """Return the virtual time twice in ns, as ``os.utime`` expects it."""
    now = round((disks.clock.now + WALL_START) * 1e9)
    return now, now


def utime(path: Any, times: Any = None, *, dir_fd: int | None = None, follow_symlinks: bool = True, **ns: Any) -> None:
    """Set the times of a file on a disk or elsewhere, by default to the virtual time. Source: ``os.utime``."""
    disks = disks_of_caller()
    if disks is not None and times is None and not ns:
        ns = {"ns": now_of(disks)}
    elif times is not None:
        ns = {**ns, "times": times}
    real.utime(path, dir_fd=dir_fd, follow_symlinks=follow_symlinks, **ns)


def octets(data: Any) -> bytes:
    return data if type(data) is bytes else bytes(memoryview(data).cast("B"))


def write_at(file: File, fd: int, data: bytes, offset: int | None = None, flags: int = 0) -> int:
    """Write to a file of a disk, at an offset or at the fd's position. Returns: the number of bytes written.

    Parks: if O_SYNC, O_DSYNC or the flags demand a sync. Raises: OSError (EIO, ENOSPC, EBADF).
    """
    disk = file.disk
    opened = fcntl.fcntl(fd, fcntl.F_GETFL)
    if opened & os.O_APPEND or flags & APPENDED:
        at = file.size
    else:
        at = real.lseek(fd, 0, os.SEEK_CUR) if offset is None else offset
    disk.check("write", file.name)
    growth = at + len(data) - file.size
    if growth > 0 and data:
        kept = len(data) - growth + disk.room_for(growth)
        if kept <= 0:  # the hole before the data already fills the disk
            raise disk.full()
        data = data[:kept]
    if offset is None and not flags & APPENDED:
        size = real.write(fd, data)
    else:
        size = real.pwritev(fd, [data], -1 if offset is None else offset, flags & ~WRITTEN_THROUGH)
    if size:
        disk.step(file, Write(at, data[:size]))
        stamp(disk, fd)
        if opened & SYNCED or flags & WRITTEN_THROUGH:
            disk.write_durably(file)
    return size  # type: ignore[no-any-return]


def write(fd: int, data: Any, /) -> int:
    """Write bytes to an fd. Source: ``os.write``."""
    file = file_behind(fd)
    return ours.write(fd, data) if file is None else write_at(file, fd, octets(data))


def writev(fd: int, buffers: Sequence[Any], /) -> int:
    """Write several buffers to an fd. Source: ``os.writev``."""
    file = file_behind(fd)
    return ours.writev(fd, buffers) if file is None else write_at(file, fd, b"".join(map(octets, buffers)))


def pwrite(fd: int, data: Any, offset: int, /) -> int:
    """Write at an offset. Source: ``os.pwrite``."""
    file = file_behind(fd)
    return real.pwrite(fd, data, offset) if file is None else write_at(file, fd, octets(data), at_least_0(offset))


def pwritev(fd: int, buffers: Sequence[Any], offset: int, flags: int = 0, /) -> int:
    """Write several buffers at an offset. Source: ``os.pwritev``."""
    file = file_behind(fd)
    if file is None:
        return real.pwritev(fd, buffers, offset, flags)  # type: ignore[no-any-return]
    return write_at(file, fd, b"".join(map(octets, buffers)), None if offset == -1 else at_least_0(offset), flags)


def at_least_0(offset: int) -> int:
    if offset < 0:
        raise os_error(errno.EINVAL)
    return offset


# ---- the size


def resize(file: File, size: int, change: Callable[[], object], where: Any) -> None:
    """Set the size of a file through ``change``, which makes the real call. Raises: OSError (EIO, ENOSPC)."""
    file.disk.check("write", file.name)
    growth = size - file.size
    if growth > 0 and file.disk.room_for(growth) < growth:
        raise os_error(errno.ENOSPC)
    change()
    if size != file.size:
        file.disk.step(file, Resize(size))
        stamp(file.disk, where)


def ftruncate(fd: Any, length: int, /) -> None:
    """Set the size of a file. Source: ``os.ftruncate``."""
    file = file_behind(number_of(fd))
    if file is None:
        real.ftruncate(fd, length)
    else:
        resize(file, length, lambda: real.ftruncate(fd, length), fd)


def posix_fallocate(fd: int, offset: int, length: int, /) -> None:
    """Reserve disk space for a file. Source: ``os.posix_fallocate``."""
    file = file_behind(fd)
    if file is None:
        real.posix_fallocate(fd, offset, length)
    else:
        size = max(file.size, offset + length)
        resize(file, size, lambda: real.posix_fallocate(fd, offset, length), fd)


# ---- from one fd to another


def sendfile(out_fd: int, in_fd: int, offset: int | None, count: int, *more: Any, **options: Any) -> int:
    """Copy bytes from a file to an fd. Source: ``os.sendfile``."""
    file = file_behind(out_fd)
    if file is None:
        return ours.sendfile(out_fd, in_fd, offset, count, *more, **options)
    return copy(file, in_fd, out_fd, count, offset, None)


def copy_file_range(
    src: int, dst: int, count: int, offset_src: int | None = None, offset_dst: int | None = None
) -> int:
    """Copy bytes from a file to another file. Source: ``os.copy_file_range``."""
    file = file_behind(dst)
    if file is None:
        return real.copy_file_range(src, dst, count, offset_src, offset_dst)  # type: ignore[no-any-return]
    return copy(file, src, dst, count, offset_src, offset_dst)


def copy(file: File, src: int, dst: int, count: int, offset_src: int | None, offset_dst: int | None) -> int:
    count = min(count, 1 << 20)
    data = real.read(src, count) if offset_src is None else real.pread(src, count, offset_src)
    return write_at(file, dst, data, offset_dst) if data else 0


def splice(src: int, dst: int, count: int, *more: Any, **options: Any) -> int:
    """Move bytes from or to a pipe. Source: ``os.splice``. Raises: NotSimulated if the target is a file of a disk."""
    file = file_behind(dst)
    if file is not None:
        raise refused("os.splice()", f"{file.disk.host}:{file.name}", "the bytes do not pass through the program")
    return real.splice(src, dst, count, *more, **options)  # type: ignore[no-any-return]


# ---- syncs


def fsync(fd: Any) -> None:
    """Make a file or the names of a directory durable. Parks: while the disk syncs. Source: ``os.fsync``."""
    inode = inode_behind(fd)
    if inode is None:
        real.fsync(fd)
    else:
        inode.disk.write_durably(inode)


def fdatasync(fd: Any) -> None:
    """Make the data of a file durable. Parks: while the disk syncs. Source: ``os.fdatasync``."""
    inode = inode_behind(fd)
    if inode is None:
        real.fdatasync(fd)
    else:
        inode.disk.write_durably(inode)


def sync() -> None:
    """Make the whole disk of the caller's host durable. Parks: while the disk syncs. Source: ``os.sync``."""
    disks = disks_of_caller()
    disk = None if disks is None else disks.by_host.get(disks.host_of_caller())
    if disk is None:
        real.sync()
    else:
        disk.disks.pause(disk.disks.draw.uniform(*disk.sync_seconds), f"sync of {disk.host}")
        disk.sync()


# ---- reads, which can fail


def checked(name: str) -> Callable[..., Any]:
    """Return a replacement for a read function of ``os``. Reads of files on a disk can fail after ``Disk.fail()``."""
    usual: Callable[..., Any] = getattr(ours, name)

    def read(fd: int, *arguments: Any) -> Any:
        file = file_behind(fd)
        if file is not None:
            file.disk.check("read", file.name)
        return usual(fd, *arguments)

    read.__name__ = read.__qualname__ = name
    return read


READS = {name: checked(name) for name in ("read", "readv", "pread", "preadv", "readinto") if hasattr(os, name)}

WRITES: list[Any] = [write, writev, pwrite, pwritev, ftruncate, posix_fallocate, sendfile, copy_file_range, splice]
FUNCTIONS: dict[str, Callable[..., Any]] = {
    function.__name__: function
    for function in WRITES + [fsync, fdatasync, sync, utime, *READS.values()]
    if hasattr(os, function.__name__)
}
"""The replacements for functions of ``os``, by the names of the functions."""
