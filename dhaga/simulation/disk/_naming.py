"""Functions of ``os`` for names on a disk: open, make, rename, remove, list. Other paths get the usual functions."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from typing import Any, Self

from ... import os as ours
from ._active import disks_of_caller, refused
from ._disk import os_error
from ._disks import Disks, Place
from ._inodes import Directory, Entry, File, Inode, Link, Resize
from ._real import own_calls, real
from ._writing import ftruncate, inode_behind, resize, stamp

NOT_SIMULATED = {
    "O_DIRECT": getattr(os, "O_DIRECT", 0),
    "O_TMPFILE": getattr(os, "O_TMPFILE", 0) & ~getattr(os, "O_DIRECTORY", 0),
}
"""Refused flags of ``os.open``. O_DIRECT bypasses the system's cache, and O_TMPFILE makes a file without a name."""

EXCLUSIVE = os.O_CREAT | os.O_EXCL
"""With both flags, ``os.open`` does not follow a symbolic link, because a link is a file that already exists."""

MOST_LINKS = 40


def place_of(path: Any, dir_fd: int | None = None) -> Place | None:
    """Return the place of a path on a disk of the caller's simulation, or None for any other path."""
    disks = disks_of_caller()
    return None if disks is None or isinstance(path, int) else disks.place_of(path, dir_fd)


def status_of(path: str, follow: bool = False) -> Any:
    """Return the status of a path, or None if the path does not exist."""
    try:
        return real.stat(path) if follow else real.lstat(path)
    except OSError:
        return None


def at(status: Any, disks: Disks) -> Inode | None:
    return None if status is None else disks.at_status(status)


def behind_links(disks: Disks, place: Place) -> Place | None:
    """Return the place to which symbolic links lead, or None if they lead outside the disks."""
    found: Place | None = place
    for _ in range(MOST_LINKS):
        if found is None or not isinstance(link := found.directory.entries.get(found.name), Link):
            return found
        found = disks.place_of(os.path.join(os.path.dirname(found.real_path), link.target))
    raise os_error(errno.ELOOP, place.real_path)


def named(place: Place) -> str:
    return f"{place.disk.host}:{place.shown}"


# ---- opening


def open_fd(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
    """Open a file. Source: ``os.open``. Raises: NotSimulated for O_DIRECT and O_TMPFILE."""
    place = place_of(path, dir_fd)
    follows = not flags & os.O_NOFOLLOW and flags & EXCLUSIVE != EXCLUSIVE
    if place is not None and follows:
        place = behind_links(place.disk.disks, place)
    refuse_flags(path, flags, place)
    if place is not None:
        return open_place(place, flags, mode)
    with own_calls():
        return real.open(path, flags, mode, dir_fd=dir_fd)  # type: ignore[no-any-return]


def refuse_flags(path: Any, flags: int, place: Place | None) -> None:
    for name, flag in NOT_SIMULATED.items():
        if flags & flag and (directory := place.directory if place is not None else directory_of(path)) is not None:
            where = named(place) if place is not None else f"{directory.disk.host}:{directory.name}"
            raise refused(f"os.open() with {name}", where, "its writes bypass the cache, or its file has no name")


def open_place(place: Place, flags: int, mode: int) -> int:
    disks, directory, file = place.disk.disks, place.directory, place.directory.entries.get(place.name)
    makes = file is None and bool(flags & os.O_CREAT)
    if makes:
        check_room(place)
    with own_calls():
        fd: int = real.open(place.real_path, flags, mode)
    if makes:
        status = real.fstat(fd)
        file = File(place.disk, place.shown, status.st_mode & 0o7777)
        disks.register(status, file)
        place.disk.change(f"creates {named(place)}", Entry(directory, place.name, file))
        stamp(place.disk, fd)
        stamp(place.disk, place.parent)
    elif flags & os.O_TRUNC and isinstance(file, File) and file.size:
        place.disk.step(file, Resize(0))
        stamp(place.disk, fd)
    disks.note_open(fd)
    return fd


def check_room(place: Place) -> None:
    """Raise ENOSPC if the disk is full, or EIO if writes fail, before a name is made."""
    place.disk.check("write", place.shown)
    place.disk.room_for(1)


def dup(fd: int, /) -> int:
    """Duplicate an fd. Source: ``os.dup``."""
    return noted(real.dup(fd))


def dup2(fd: int, fd2: int, inheritable: bool = True) -> int:
    """Duplicate an fd under another number. Source: ``os.dup2``."""
    return noted(real.dup2(fd, fd2, inheritable))


def noted(fd: int) -> int:
    inode = inode_behind(fd)
    if inode is not None:
        inode.disk.disks.note_open(fd)
    return fd


def close(fd: int) -> None:
    """Close an fd. Source: ``os.close``."""
    disks = disks_of_caller()
    if disks is not None:
        disks.forget_fd(fd)
    ours.close(fd)


def truncate(path: Any, length: int) -> None:
    """Set the size of a file. Source: ``os.truncate``."""
    if isinstance(path, int):
        ftruncate(path, length)
        return
    place = place_of(path)
    place = None if place is None else behind_links(place.disk.disks, place)
    file = None if place is None else place.directory.entries.get(place.name)
    with own_calls():
        if place is None or not isinstance(file, File):
            real.truncate(path, length)
        else:
            where = place.real_path
            resize(file, length, lambda: real.truncate(where, length), where)


# ---- names


def rename(src: Any, dst: Any, *, src_dir_fd: int | None = None, dst_dir_fd: int | None = None) -> None:
    """Rename a file or directory. Source: ``os.rename``. Raises: OSError (EXDEV) for a move into or out of a disk."""
    move(src, dst, src_dir_fd, dst_dir_fd, real.rename)


def replace(src: Any, dst: Any, *, src_dir_fd: int | None = None, dst_dir_fd: int | None = None) -> None:
    """Rename a file or directory. Source: ``os.replace``. Raises: OSError (EXDEV) for a move into or out of a disk."""
    move(src, dst, src_dir_fd, dst_dir_fd, real.replace)


def move(src: Any, dst: Any, src_dir_fd: int | None, dst_dir_fd: int | None, call: Callable[..., None]) -> None:
    there, here = place_of(src, src_dir_fd), place_of(dst, dst_dir_fd)
    with own_calls():
        if there is None and here is None:
            call(src, dst, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)
            return
        there, here = both(there, here, (src, src_dir_fd), (dst, dst_dir_fd))
        moved, former = status_of(there.real_path), status_of(here.real_path)
        call(there.real_path, here.real_path)
    disks = there.disk.disks
    inode = at(moved, disks)
    if inode is None or inode is at(former, disks):
        return
    if former is not None:
        disks.release(former)
    rename_below(inode, here.shown)
    entries = Entry(there.directory, there.name, None), Entry(here.directory, here.name, inode)
    there.disk.change(f"renames {named(there)} to {here.shown}", *entries)
    for place in (there, here):
        stamp(place.disk, place.parent)


def rename_below(inode: Inode, name: str) -> None:
    inode.name = name
    if isinstance(inode, Directory):
        for entry, below in inode.entries.items():
            rename_below(below, f"{name}/{entry}")


def both(there: Place | None, here: Place | None, *paths: tuple[Any, int | None]) -> tuple[Place, Place]:
    """Return both places, which must be on one disk. ``paths``: the paths of both, each with its ``dir_fd``.

    Raises: OSError (ENOENT, ENOTDIR) if the directory of a path does not exist, otherwise EXDEV.
    """
    if there is not None and here is not None and there.disk is here.disk:
        return there, here
    error = errno.EXDEV
    try:
        for path, dir_fd in paths:
            text = os.fsdecode(path)
            # The path ends with "/.", because it must name a directory.
            real.stat(text and os.path.join(os.path.dirname(text.rstrip("/")), "."), dir_fd=dir_fd)
    except OSError as found:
        error = found.errno or error
    raise OSError(error, os.strerror(error), os.fspath(paths[0][0]), None, os.fspath(paths[1][0]))


def link(
    src: Any,
    dst: Any,
    *,
    src_dir_fd: int | None = None,
    dst_dir_fd: int | None = None,
    follow_symlinks: bool = True,
) -> None:
    """Make another name for a file. Source: ``os.link``."""
    there, here = place_of(src, src_dir_fd), place_of(dst, dst_dir_fd)
    if there is not None and follow_symlinks:
        there = behind_links(there.disk.disks, there)
    with own_calls():
        if there is None and here is None:
            real.link(src, dst, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd, follow_symlinks=follow_symlinks)
            return
        there, here = both(there, here, (src, src_dir_fd), (dst, dst_dir_fd))
        check_room(here)
        real.link(there.real_path, here.real_path, follow_symlinks=False)
    inode = there.directory.entries[there.name]
    here.disk.change(f"links {named(there)} as {here.shown}", Entry(here.directory, here.name, inode))


def symlink(src: Any, dst: Any, target_is_directory: bool = False, *, dir_fd: int | None = None) -> None:
    """Make a symbolic link. Source: ``os.symlink``."""
    place = place_of(dst, dir_fd)
    with own_calls():
        if place is None:
            real.symlink(src, dst, target_is_directory, dir_fd=dir_fd)
            return
        check_room(place)
        real.symlink(src, place.real_path)
    add(place, Link(place.disk, place.shown, os.fsdecode(src)), "creates the link")


def mkdir(path: Any, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
    """Make a directory. Source: ``os.mkdir``."""
    place = place_of(path, dir_fd)
    with own_calls():
        if place is None:
            real.mkdir(path, mode, dir_fd=dir_fd)
            return
        check_room(place)
        real.mkdir(place.real_path, mode)
    add(
        place, Directory(place.disk, place.shown, real.lstat(place.real_path).st_mode & 0o7777), "creates the directory"
    )
    stamp(place.disk, place.real_path)


def add(place: Place, inode: Inode, what: str) -> None:
    place.disk.disks.register(real.lstat(place.real_path), inode)
    place.disk.change(f"{what} {named(place)}", Entry(place.directory, place.name, inode))
    stamp(place.disk, place.parent)


def unlink(path: Any, *, dir_fd: int | None = None) -> None:
    """Remove a name. Source: ``os.unlink``."""
    take_away(path, dir_fd, real.unlink)


def remove(path: Any, *, dir_fd: int | None = None) -> None:
    """Remove a name. Source: ``os.remove``."""
    take_away(path, dir_fd, real.remove)


def rmdir(path: Any, *, dir_fd: int | None = None) -> None:
    """Remove an empty directory. Source: ``os.rmdir``."""
    take_away(path, dir_fd, real.rmdir)


def take_away(path: Any, dir_fd: int | None, call: Callable[..., None]) -> None:
    place = place_of(path, dir_fd)
    with own_calls():
        if place is None:
            call(path, dir_fd=dir_fd)
            return
        status = status_of(place.real_path)
        call(place.real_path)
    place.disk.disks.release(status)
    place.disk.change(f"removes {named(place)}", Entry(place.directory, place.name, None))
    stamp(place.disk, place.parent)


def refusing(name: str) -> Callable[..., Any]:
    """Return a replacement for a function of ``os``. The replacement raises NotSimulated for paths on a disk."""
    usual: Callable[..., Any] = getattr(os, name)

    def make(path: Any, *arguments: Any, dir_fd: int | None = None, **options: Any) -> Any:
        place = place_of(path, dir_fd)
        if place is not None:
            raise refused(f"os.{name}()", named(place), "only files, directories and symbolic links are simulated")
        return usual(path, *arguments, dir_fd=dir_fd, **options)

    make.__name__ = make.__qualname__ = name
    return make


# ---- listing, in an order that the seed draws, because the operating system promises no order


class Entries:
    """An iterator of the entries of a directory. Source: the iterator of ``os.scandir``."""

    def __init__(self, entries: list[Any]) -> None:
        self.left = iter(entries)

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        return next(self.left)

    def close(self) -> None:
        """End the iteration."""
        self.left = iter(())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def directory_of(path: Any) -> Directory | None:
    """Return the directory at a path or behind an fd, if it is on a disk; otherwise None."""
    disks = disks_of_caller()
    if disks is None:
        return None
    if isinstance(path, int):
        found = disks.behind_fd(path)
    else:
        found = at(status_of(os.fspath(path), follow=True), disks)
    return found if isinstance(found, Directory) else None


def listdir(path: Any = None) -> list[Any]:
    """Return the names in a directory. Source: ``os.listdir``."""
    directory = directory_of("." if path is None else path)
    names: list[Any] = real.listdir(path)
    if directory is not None:
        names.sort()
        directory.disk.disks.draw.shuffle(names)
    return names


def scandir(path: Any = None) -> Any:
    """Return the entries of a directory. Source: ``os.scandir``."""
    directory = directory_of("." if path is None else path)
    found = real.scandir(path)
    if directory is None:
        return found
    with found:
        entries = sorted(found, key=lambda entry: entry.name)
    directory.disk.disks.draw.shuffle(entries)
    return Entries(entries)


# ---- paths that the operating system returns: with the name that the program knows


def known_path(path: Any) -> Any:
    """Return a path, given as text or bytes, with the prefix that the disks have in each run."""
    disks = disks_of_caller()
    if disks is None:
        return path
    return os.fsencode(disks.shown(os.fsdecode(path))) if isinstance(path, bytes) else disks.shown(path)


def getcwd() -> str:
    """Return the working directory. Source: ``os.getcwd``."""
    return known_path(real.getcwd())  # type: ignore[no-any-return]


def getcwdb() -> bytes:
    """Return the working directory as bytes. Source: ``os.getcwdb``."""
    return known_path(real.getcwdb())  # type: ignore[no-any-return]


standard_realpath: Callable[..., Any] = os.path.realpath


def realpath(filename: Any, **options: Any) -> Any:
    """Return a path without symbolic links. Source: ``os.path.realpath``."""
    return known_path(standard_realpath(filename, **options))


FUNCTIONS: dict[str, Callable[..., Any]] = {
    function.__name__: function
    for function in (
        *(dup, dup2, close, truncate, rename, replace, link, symlink, mkdir, unlink, remove, rmdir, listdir, scandir),
        *(refusing("mkfifo"), refusing("mknod"), getcwd, getcwdb),
    )
} | {"open": open_fd}
"""The replacements for functions of ``os``, by the names of the functions."""
