"""``Disks``: the disks of one simulation, by host, and their files, by path and by fd."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakSet

from .._base.part import Part
from .._base.pause import pause_caller
from ._disk import Disk
from ._inodes import Directory, File, Inode
from ._real import own_calls, real, remove_below

if TYPE_CHECKING:
    from .._schedule.events import Shown
    from ..network import Network

Key = tuple[int, int]
"""Device and number of an inode of the real file system."""


MEMORY = "/dev/shm"
"""A file system in memory. Each kill removes directories: a removal took 4.8 ms on ext4, and 4 µs in memory."""

ENOUGH_MEMORY = 1 << 30

FOLDER_FD = 900
"""The lowest number for the fd of the folder: usually free, and below the usual limit of 1024 fds."""


def parent_of_folders() -> str:
    """Return the parent of the disks' folders: TMPDIR if set, else memory if large enough, else usually /tmp."""
    if "TMPDIR" not in os.environ and os.access(MEMORY, os.W_OK):
        space = os.statvfs(MEMORY)
        if space.f_bavail * space.f_frsize >= ENOUGH_MEMORY:
            return MEMORY
    return os.path.realpath(tempfile.gettempdir())


def remove_folders_of(pid: int) -> None:
    """Remove the folders that the simulations of an ended process have left."""
    for folder in Path(parent_of_folders()).glob(f"{prefix_of(pid)}*"):
        remove_below(str(folder))
        real.rmdir(folder)


def prefix_of(pid: int) -> str:
    return f"dhaga-{pid:07}-"


def open_folder(folder: str) -> int:
    """Return an fd of the folder. Its number is the same in each run, unless few fds are allowed."""
    fd = real.open(folder, real.O_RDONLY | real.O_DIRECTORY | real.O_CLOEXEC)
    try:
        return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, FOLDER_FD)
    except OSError:  # RLIMIT_NOFILE is lower
        return real.dup(fd)  # type: ignore[no-any-return]
    finally:
        real.close(fd)


class Place(NamedTuple):
    """A directory of a disk and a name in it. The directory need not have an entry of this name.

    ``real_path``: the path for real calls. It ends with "/" if the program's path does, and then names a directory.
    """

    directory: Directory
    name: str
    real_path: str

    @property
    def parent(self) -> str:
        """The path of the directory."""
        return self.real_path.rstrip("/").rpartition("/")[0]

    @property
    def disk(self) -> Disk:
        return self.directory.disk

    @property
    def shown(self) -> str:
        """The path below the root of the disk."""
        return f"{self.directory.name.rstrip('/')}/{self.name}"


class Disks(Part):
    """All disks of a network. ``folder``: their temporary directory; "" without a directory.

    The program finds the directory under ``prefix``, a path through an fd of this process. So the paths of files are
    the same in each run. The directory's own name differs from run to run. If paths contained this name, their hashes
    and the order of a set of paths would also differ.
    """

    name = "the disk"
    draws = "disks"

    def __init__(self, network: Network) -> None:
        super().__init__(network.seed, network.clock)
        self.network = network
        self.by_host: dict[str, Disk] = {}
        self.by_key: dict[Key, Inode] = {}
        self.folder = ""
        self.prefix = ""
        self.folder_fd = -1
        # The files that a kill closes, by host: the raw files, and the fds with the inodes on which they were opened.
        self.open_files: dict[str, WeakSet[Any]] = {}
        self.open_fds: dict[str, dict[int, Key]] = {}

    def __repr__(self) -> str:
        return f"<Disks of {', '.join(self.by_host) or 'no host'}>"

    # ---- begin and end

    def at(self, time: float, call: Callable[..., object]) -> None:
        """Schedule a call at a time of the virtual clock."""
        self.network.at(time, call)

    def host_of_caller(self) -> str:
        return self.network.hosts.of_caller().name

    def end(self) -> None:
        """Remove the directories of all disks."""
        if self.folder:
            with own_calls():
                remove_below(self.folder)
                real.rmdir(self.folder)
                real.close(self.folder_fd)
        self.by_key.clear()
        self.by_host.clear()
        self.folder = ""

    def of(self, host: str) -> Disk:
        """Return the disk of a host. The first call for a host makes its disk."""
        disk = self.by_host.get(host)
        if disk is None:
            with own_calls():
                if not self.folder:
                    self.make_folder()
                path = f"{self.prefix}{host.replace('/', '_')}"
                real.mkdir(path, 0o755)
                disk = self.by_host[host] = Disk(self, host, Path(path))
        return disk

    def make_folder(self) -> None:
        """Make the folder of all disks."""
        parent = parent_of_folders()
        for number in count():
            folder = f"{parent}/{prefix_of(os.getpid())}{number:03}"
            try:
                real.mkdir(folder, 0o700)
            except FileExistsError:
                continue
            self.folder, self.folder_fd = folder, open_folder(folder)
            self.prefix = f"/proc/self/fd/{self.folder_fd}/"
            return

    def shown(self, path: str) -> str:
        """Return a path with the prefix, if it names the folder's own place in the file system."""
        return self.prefix + path[len(self.folder) + 1 :] if path.startswith(f"{self.folder}/") else path

    # ---- events and time

    def note(self, what: str, shown: Shown | None = None) -> None:
        """Add an action of the running dhaga or main code to the events. ``shown``: the action's text in reports."""
        run = self.run
        self.network.note_activity()
        if run.failure is None and not run.over:
            run.log.add(self.clock.now, run.running.number, what, shown=run.with_line(shown or what))

    def pause(self, seconds: float, reason: str) -> None:
        """Wait for ``seconds`` seconds of virtual time if the caller can wait."""
        if not self.run.over:
            pause_caller(self.scheduler, seconds, reason)

    # ---- inodes

    def register(self, status: Any, inode: Inode) -> None:
        """Register the simulated inode of a real inode, by the status of the real inode."""
        self.by_key[status.st_dev, status.st_ino] = inode

    def at_status(self, status: Any) -> Inode | None:
        return self.by_key.get((status.st_dev, status.st_ino))

    def release(self, status: Any) -> None:
        """Discard a real inode if its last name is removed: the system can reuse the inode's number for a new file."""
        if status.st_nlink <= 1 or status.st_mode & 0o170000 == 0o040000:
            self.by_key.pop((status.st_dev, status.st_ino), None)

    def forget(self, disk: Disk) -> None:
        """Discard all real inodes of a disk."""
        self.by_key = {key: inode for key, inode in self.by_key.items() if inode.disk is not disk}

    def behind_fd(self, fd: int) -> Inode | None:
        """Return the simulated inode on which an fd is open, or None if its file is not on a disk."""
        if not self.by_key:
            return None
        try:
            return self.at_status(real.fstat(fd))
        except (OSError, OverflowError, TypeError):
            return None

    def file_behind(self, fd: int) -> File | None:
        inode = self.behind_fd(fd)
        return inode if isinstance(inode, File) else None

    def place_of(self, path: Any, dir_fd: int | None = None) -> Place | None:
        """Return the place of a path on a disk, or None if the path is not on a disk."""
        if not self.prefix:
            return None
        try:
            path = os.fsdecode(path)
        except TypeError:
            return None
        if not path.startswith("/"):
            base = f"/proc/self/fd/{dir_fd}" if dir_fd is not None else ""
            try:
                path = os.path.join(real.readlink(base) if base else real.getcwd(), path)
            except OSError:
                return None
        if "/.." in path or "//" in path or "/./" in path:
            path = os.path.normpath(path) + "/" * path.endswith("/")
        path = self.shown(path)
        if not path.startswith(self.prefix):
            return None
        head, name = path.rstrip("/").rsplit("/", 1)
        try:
            directory = self.at_status(real.stat(head))
        except OSError:
            return None
        return Place(directory, name, path) if isinstance(directory, Directory) else None

    # ---- the open files of a host

    def note_open(self, fd: int) -> None:
        status = real.fstat(fd)
        self.open_fds.setdefault(self.host_of_caller(), {})[fd] = (status.st_dev, status.st_ino)

    def forget_fd(self, fd: int) -> None:
        for fds in self.open_fds.values():
            fds.pop(fd, None)

    def note_file(self, file: Any) -> None:
        self.open_files.setdefault(self.host_of_caller(), WeakSet()).add(file)

    def kill(self, host: str, unsynced: str) -> None:
        """Close the open files of a host, and replace the contents of its disk with those that survive."""
        with own_calls():
            for file in list(self.open_files.pop(host, ())):
                file.abandon()
            for fd, key in self.open_fds.pop(host, {}).items():
                self.close_if_same(fd, key)
        disk = self.by_host.get(host)
        if disk is not None:
            disk.kill(unsynced)

    @staticmethod
    def close_if_same(fd: int, key: Key) -> None:
        try:
            status = real.fstat(fd)
            if (status.st_dev, status.st_ino) == key:
                real.close(fd)
        except OSError:
            pass
