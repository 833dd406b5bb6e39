"""The directory into which a snapshot is restored, and the rule that nothing is ever written outside it.

Every file is opened from a descriptor of the destination, name by name, and no step follows a link. So a path that
leads out through a link fails in the kernel, even if the link is created during the restore.

A restore also never creates a program that runs as another user. The set-user-ID and set-group-ID bits are restored
only on files that get the owner and group with which they were saved.
"""

from __future__ import annotations

import errno
import os
import stat
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Final

from .chunks import digest_of
from .tree import DIRECTORY, FILE, NAME, UNKNOWN, Entry, Note, Unsafe, check_path, holes_of, show
from .wire import BackupError

_DIRECTORY_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_NO_DIRECTORY: Final = (errno.ENOTDIR, errno.ELOOP, errno.EMLINK)  # systems differ in the error for a link
_OURS: Final = 0o700  # while the tree is written; the real modes are set at the end


def check_tree(entries: Iterable[Entry]) -> None:
    """Refuse a snapshot in which an entry is below a link, or a path has two entries.

    Raises: Unsafe; also for a hard link whose target is not a file of the snapshot.
    """
    entries = list(entries)
    kinds: dict[bytes, str] = {}
    for entry in entries:
        check_path(entry.path)
        if entry.path in kinds:
            raise Unsafe(f"path {show(entry.path)} refused: the snapshot holds it twice")
        kinds[entry.path] = entry.kind
    for entry in entries:
        if entry.kind == NAME and kinds.get(entry.target) != FILE:
            raise Unsafe(f"path {show(entry.path)} refused: {show(entry.target)} is not a file of the snapshot")
    for path in kinds:
        for parent in _parents(path):
            if kinds.get(parent, DIRECTORY) != DIRECTORY:
                raise Unsafe(f"path {show(path)} refused: {show(parent)} is a {kinds[parent]}, not a directory")


def _parents(path: bytes) -> Iterator[bytes]:
    while b"/" in path:
        path = path.rpartition(b"/")[0]
        yield path


class Writing:
    """A file that is being written. Its bytes come in order, and its holes are left out."""

    def __init__(self, file: int, holes: bytes) -> None:
        self.written = 0
        self._file = file
        self._ahead = deque(holes_of(holes))
        self._place = 0

    def write(self, data: bytes) -> None:
        """Write the next bytes. Raises: OSError."""
        rest = memoryview(data)
        while rest:
            while self._ahead and self._place == self._ahead[0][0]:
                self._place = os.lseek(self._file, sum(self._ahead.popleft()), os.SEEK_SET)
            room = self._ahead[0][0] - self._place if self._ahead else len(rest)
            count = os.write(self._file, rest[:room])
            self._place += count
            self.written += count
            rest = rest[count:]


class Destination:
    """A directory that is being filled. Use it as a context manager.

    `owners`: restore each file's owner, as far as this user may. `note`: called for set-ID bits that are left out.
    """

    def __init__(
        self, path: str, *, overwrite: bool = False, owners: bool = True, note: Note = lambda path, text: None
    ) -> None:
        self.path = path
        self._owners = owners
        self._note = note
        self._root = _open_root(path, overwrite)

    def __enter__(self) -> Destination:
        return self

    def __exit__(self, *error: object) -> None:
        os.close(self._root)

    def make_directory(self, path: bytes) -> None:
        """Make a directory, for now accessible only to this user. An existing directory is used.

        Raises: Unsafe if the path is a link or a file.
        """
        with self._parent(path) as (parent, name):
            try:
                os.mkdir(name, _OURS, dir_fd=parent)
            except FileExistsError:
                self._reopen(parent, name, path)

    def _reopen(self, parent: int, name: bytes, path: bytes) -> None:
        directory = self._step(parent, name, path)
        try:
            os.fchmod(directory, _OURS)  # it may not be writable
        finally:
            os.close(directory)

    @contextmanager
    def new_file(self, entry: Entry) -> Iterator[int]:
        """Yield a descriptor to write to. The file gets its name, mode and time if the block ends without an error."""
        with self._parent(entry.path) as (parent, name):
            draft = b".restoring-" + digest_of(name)[:8].hex().encode()
            file = _open_draft(draft, parent)
            try:
                yield file
                os.fchmod(file, self._give_back(file, entry))
                os.utime(file, ns=(entry.mtime_ns, entry.mtime_ns))
                os.rename(draft, name, src_dir_fd=parent, dst_dir_fd=parent)
            except BaseException:
                os.unlink(draft, dir_fd=parent)
                raise
            finally:
                os.close(file)

    def make_link(self, entry: Entry) -> None:
        """Make a symbolic link. It replaces a file or link of that name."""
        with self._parent(entry.path) as (parent, name):
            try:
                os.symlink(entry.target, name, dir_fd=parent)
            except FileExistsError:
                os.unlink(name, dir_fd=parent)
                os.symlink(entry.target, name, dir_fd=parent)
            if self._owners:
                _try_chown(lambda uid, gid: os.chown(name, uid, gid, dir_fd=parent, follow_symlinks=False), entry)
            os.utime(name, ns=(entry.mtime_ns, entry.mtime_ns), dir_fd=parent, follow_symlinks=False)

    def make_name(self, entry: Entry) -> None:
        """Add a name to a file of this tree. It replaces a file or link of that name."""
        with self._parent(entry.target) as (above, first), self._parent(entry.path) as (parent, name):

            def link() -> None:
                os.link(first, name, src_dir_fd=above, dst_dir_fd=parent, follow_symlinks=False)

            try:
                link()
            except FileExistsError:
                os.unlink(name, dir_fd=parent)
                link()

    def finish_directory(self, entry: Entry) -> None:
        """Set a directory's mode and time. Call this after all its entries are written."""
        with self._parent(entry.path) as (parent, name):
            directory = self._step(parent, name, entry.path)
            try:
                mode = self._give_back(directory, entry)
                os.utime(directory, ns=(entry.mtime_ns, entry.mtime_ns))
                os.fchmod(directory, mode)
            finally:
                os.close(directory)

    def _give_back(self, file: int, entry: Entry) -> int:
        """Restore a file's owner. Returns: the mode that the file may have with its resulting owner."""
        if self._owners:
            _try_chown(lambda uid, gid: os.fchown(file, uid, gid), entry)
        status = os.fstat(file)
        left_out = 0
        if not self._owners or status.st_uid != entry.uid:
            left_out |= stat.S_ISUID
        if not self._owners or status.st_gid != entry.gid:
            left_out |= stat.S_ISGID
        if entry.mode & left_out:
            self._note(entry.path, f"restored without {oct(entry.mode & left_out)}, as its owner may be another")
        return entry.mode & ~left_out

    @contextmanager
    def _parent(self, path: bytes) -> Iterator[tuple[int, bytes]]:
        *above, name = path.split(b"/")
        directory = os.dup(self._root)
        try:
            for step in above:
                inner = self._step(directory, step, path)
                os.close(directory)
                directory = inner
            yield directory, name or b"."
        finally:
            os.close(directory)

    def _step(self, directory: int, name: bytes, path: bytes) -> int:
        try:
            return os.open(name, _DIRECTORY_FLAGS, dir_fd=directory)
        except OSError as error:
            if error.errno not in _NO_DIRECTORY:
                raise
        what = "a link" if stat.S_ISLNK(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode) else "a file"
        raise Unsafe(f"path {show(path)} refused: {show(name)} in the destination is {what}, not a directory")


def _try_chown(chown: Callable[[int, int], None], entry: Entry) -> None:
    """Set owner and group, or only the group, or neither, because only root may change a file's owner."""
    if entry.uid == UNKNOWN:
        return
    for uid in (entry.uid, UNKNOWN):  # -1 keeps the present owner
        try:
            return chown(uid, entry.gid)
        except PermissionError:
            pass


def _open_root(path: str, overwrite: bool) -> int:
    try:
        os.makedirs(path, exist_ok=True)
        root = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise BackupError(f"cannot restore into {path}: {error.strerror}") from None
    if not overwrite and os.listdir(root):
        os.close(root)
        raise BackupError(f"{path} is not empty: choose another directory, or pass --overwrite")
    return root


def _open_draft(draft: bytes, parent: int) -> int:
    try:
        return os.open(draft, _FILE_FLAGS, _OURS, dir_fd=parent)
    except FileExistsError:  # a killed restore left it
        os.unlink(draft, dir_fd=parent)
        return os.open(draft, _FILE_FLAGS, _OURS, dir_fd=parent)
