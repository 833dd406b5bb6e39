"""Paths of the inspectors' sockets, in directories that only one user can enter.

The candidates, in order: ``$XDG_RUNTIME_DIR/dhaga``, ``dhaga-UID`` in the temporary directories,
``/run/user/UID/dhaga``. A process creates its socket in the first; a client looks in all, since its environment may
differ. An existing directory is used only if it belongs to the user with mode 0700: in ``/tmp`` any user may have
created it first.
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
    """Yield the directories in which a user's processes may have their sockets, in order of preference."""
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
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o077:
        raise PermissionError(
            f"{folder} must be a directory that only user {os.geteuid()} can enter (mode 0700):\n"
            "remove it, or set XDG_RUNTIME_DIR to another directory"
        )


def sweep(folder: Path) -> None:
    """Remove the sockets of ended processes: no process has the PID, and no process answers."""
    for path in files_of_ended(folder, "dhaga-", ".sock"):
        if not answers(path):
            path.unlink(missing_ok=True)


def answers(path: Path) -> bool:
    """Return whether a process listens at a socket: the PID of a process in another container means nothing here."""
    with originals.Socket(socket.AF_UNIX) as client:
        return client.connect_ex(str(path)) == 0


def peer(connection: socket.socket) -> tuple[int, int, int]:
    """Return PID, user and group of a unix socket's other end, where the platform has ``SO_PEERCRED``."""
    kinds = struct.Struct("3i")
    pid, uid, gid = kinds.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, kinds.size))
    return pid, uid, gid
