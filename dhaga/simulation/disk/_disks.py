"""``Disks``: the disks of one simulation, by hosts, and the files of disks by paths and fds."""

from __future__ import annotations

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
    from ..network import Network

Key = tuple[int, int]
"""Device and number of an inode of the real file system."""


MEMORY = "/dev/shm"
"""Files in memory: a kill makes all directories anew, and ext4 took 4.8 ms to remove one, tmpfs 4 µs."""

ENOUGH_MEMORY = 1 << 30


def parent_of_folders() -> str:
    """Return where the folders are made: in TMPDIR if it is set, else in memory if there is enough, else in /tmp."""
    if "TMPDIR" not in os.environ and os.access(MEMORY, os.W_OK):
        space = os.statvfs(MEMORY)
        if space.f_bavail * space.f_frsize >= ENOUGH_MEMORY:
            return MEMORY
    return os.path.realpath(tempfile.gettempdir())


def remove_folders_of(pid: int) -> None:
    """Remove the folders of a simulation whose process was killed."""
    for folder in Path(parent_of_folders()).glob(f"{prefix_of(pid)}*"):
        remove_below(str(folder))
        real.rmdir(folder)


def prefix_of(pid: int) -> str:
    return f"dhaga-{pid:07}-"


class Place(NamedTuple):
    """A name in a directory of a disk; the entry need not exist."""

    directory: Directory
    name: str
    real_path: str

    @property
    def disk(self) -> Disk:
        return self.directory.disk

    @property
    def shown(self) -> str:
        """The path below the root."""
        return f"{self.directory.name.rstrip('/')}/{self.name}"


class Disks(Part):
    """The disks of the hosts of a network. ``folder``: the temporary directory of all, from the first disk on."""

    name = "the disk"
    draws = "disks"

    def __init__(self, network: Network) -> None:
        super().__init__(network.seed, network.clock)
        self.network = network
        self.by_host: dict[str, Disk] = {}
        self.by_key: dict[Key, Inode] = {}
        self.folder = ""
        self.prefix = ""
        # By hosts, to be closed by a kill: raw files, and fds with the inodes that they had.
        self.open_files: dict[str, WeakSet[Any]] = {}
        self.open_fds: dict[str, dict[int, Key]] = {}

    def __repr__(self) -> str:
        return f"<Disks of {', '.join(self.by_host) or 'no host'}>"

    # ---- begin and end

    def at(self, time: float, call: Callable[..., object]) -> None:
        """Make a call at a time of the virtual clock."""
        self.network.at(time, call)

    def host_of_caller(self) -> str:
        return self.network.hosts.of_caller().name

    def end(self) -> None:
        """Remove the directories."""
        if self.folder:
            with own_calls():
                remove_below(self.folder)
                real.rmdir(self.folder)
        self.by_key.clear()
        self.by_host.clear()
        self.folder = ""

    def of(self, host: str) -> Disk:
        """Return the disk of a host, which is made when it is first asked for."""
        disk = self.by_host.get(host)
        if disk is None:
            with own_calls():
                if not self.folder:
                    self.make_folder()
                path = f"{self.folder}/{host.replace('/', '_')}"
                real.mkdir(path, 0o755)
                disk = self.by_host[host] = Disk(self, host, Path(path))
        return disk

    def make_folder(self) -> None:
        """Make the folder of all disks. Its name has the same length in each run."""
        parent = parent_of_folders()
        for number in count():
            folder = f"{parent}/{prefix_of(os.getpid())}{number:03}"
            try:
                real.mkdir(folder, 0o700)
            except FileExistsError:
                continue
            self.folder, self.prefix = folder, f"{folder}/"
            return

    # ---- events and time

    def note(self, what: str) -> None:
        """Add what the running member does to the events."""
        run = self.run
        self.network.note_activity()
        if run.failure is None and not run.over:
            run.log.add(self.clock.now, run.running.number, what, shown=run.with_line(what))

    def pause(self, seconds: float, reason: str) -> None:
        """Wait in the caller, if it can."""
        if not self.run.over:
            pause_caller(self.scheduler, seconds, reason)

    # ---- inodes

    def register(self, status: Any, inode: Inode) -> None:
        """Register the inode behind a real one."""
        self.by_key[status.st_dev, status.st_ino] = inode

    def at_status(self, status: Any) -> Inode | None:
        return self.by_key.get((status.st_dev, status.st_ino))

    def release(self, status: Any) -> None:
        """Remove a real inode whose last name goes: its number may be given to another file."""
        if status.st_nlink <= 1 or status.st_mode & 0o170000 == 0o040000:
            self.by_key.pop((status.st_dev, status.st_ino), None)

    def forget(self, disk: Disk) -> None:
        """Remove all real inodes of a disk."""
        self.by_key = {key: inode for key, inode in self.by_key.items() if inode.disk is not disk}

    def behind_fd(self, fd: int) -> Inode | None:
        """Return what an fd is open on, if it is of a disk."""
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
        """Return the place that a path means, if it is of a disk."""
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
            path = os.path.normpath(path)
        path = path.rstrip("/")
        if not path.startswith(self.prefix):
            return None
        head, name = path.rsplit("/", 1)
        try:
            directory = self.at_status(real.stat(head))
        except OSError:
            return None
        return Place(directory, name, path) if isinstance(directory, Directory) else None

    # ---- what a host has open

    def note_open(self, fd: int) -> None:
        status = real.fstat(fd)
        self.open_fds.setdefault(self.host_of_caller(), {})[fd] = (status.st_dev, status.st_ino)

    def forget_fd(self, fd: int) -> None:
        for fds in self.open_fds.values():
            fds.pop(fd, None)

    def note_file(self, file: Any) -> None:
        self.open_files.setdefault(self.host_of_caller(), WeakSet()).add(file)

    def kill(self, host: str, unsynced: str) -> None:
        """Close what a host has open, and replace its disk by what survives."""
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
