"""Paths of the inspectors' sockets, in directories that only one user can enter.

The candidates are, in this order: ``$XDG_RUNTIME_DIR/dhaga``, ``dhaga-UID`` in the temporary directories, and
``/run/user/UID/dhaga``. A process creates its socket in the first candidate. A client searches all candidates, because
the client's environment may differ. A process uses an existing directory only if the directory belongs to the user and
has mode 0700, because another user may have created the directory in ``/tmp``.
"""

from __future__ import annotations

import os
import socket
import stat
import struct
import tempfile
from collections.abc import Iterator
from pathlib import Path

from ..._kernel import originals
from .ended import files_of_ended


def name_of(pid: int) -> str:
    """Return the file name of a process's socket."""
    return f"dhaga-{pid}.sock"


def folders(uid: int) -> Iterator[Path]:
    """Yield the directories that may contain the sockets of a user's processes, in order of preference."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime and Path(runtime).is_dir():
        yield Path(runtime, "dhaga")
    for temporary in dict.fromkeys((tempfile.gettempdir(), "/tmp")):
        yield Path(temporary, f"dhaga-{uid}")
    yield Path(f"/run/user/{uid}/dhaga")


def own_folder() -> Path:
    """Create or check the directory for this process's socket, and return it. Raises: OSError."""
    folder = next(folders(os.geteuid()))
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        check(folder)
    return folder


def check(folder: Path) -> None:
    """Verify that only this user can enter a directory. Raises: PermissionError."""
    if not only_for(os.geteuid(), folder):
        raise PermissionError(
            f"{folder} must be a directory that only user {os.geteuid()} can enter (mode 0700):\n"
            "remove it, or set XDG_RUNTIME_DIR to another directory"
        )


def only_for(uid: int, folder: Path) -> bool:
    """Return whether a path is a directory that only one user can enter."""
    try:
        status = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == uid and not status.st_mode & 0o077


def sweep(folder: Path) -> None:
    """Remove each socket whose PID belongs to no process and at which no process answers."""
    for path in files_of_ended(folder, "dhaga-", ".sock"):
        if not answers(path):
            path.unlink(missing_ok=True)


def answers(path: Path) -> bool:
    """Return whether a process listens at a socket. A process in another container would not be found by its PID."""
    with originals.Socket(socket.AF_UNIX) as client:
        return client.connect_ex(str(path)) == 0


def peer(connection: socket.socket) -> tuple[int, int, int]:
    """Return the PID, user and group of the other end of a Unix socket. The platform must have ``SO_PEERCRED``."""
    kinds = struct.Struct("3i")
    pid, uid, gid = kinds.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, kinds.size))
    return pid, uid, gid
