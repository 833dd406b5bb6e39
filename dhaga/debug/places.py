"""Places: where the inspectors of processes have their sockets, in directories that one user alone can enter."""

from __future__ import annotations

import os
import socket
import stat
import struct
import tempfile
from collections.abc import Iterator
from pathlib import Path

from dhaga.kernel import originals


def name_of(pid: int) -> str:
    """Return the file name of a process's socket."""
    return f"dhaga-{pid}.sock"


def folders(uid: int) -> Iterator[Path]:
    """Yield the directories in which a user's processes may have their sockets, the preferred ones first."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime and Path(runtime).is_dir():
        yield Path(runtime, "dhaga")
    for temporary in dict.fromkeys((tempfile.gettempdir(), "/tmp")):
        yield Path(temporary, f"dhaga-{uid}")
    yield Path(f"/run/user/{uid}/dhaga")


def own_folder() -> Path:
    """Return where this process is to have its socket: made, or as it is to be. Raises: OSError."""
    folder = next(folders(os.geteuid()))
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        check(folder)
    return folder


def check(folder: Path) -> None:
    """Make sure that nobody but this user has access to a directory. Raises: PermissionError."""
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise PermissionError(
            f"{folder} is to be a directory of user {os.geteuid()} that nobody else can enter (mode 0700): "
            "remove it, or set XDG_RUNTIME_DIR to another directory"
        )


def sweep(folder: Path) -> None:
    """Remove the sockets of processes that have ended without doing so: none lives by that number, nor answers."""
    for path in folder.glob("dhaga-*.sock"):
        number = path.stem.removeprefix("dhaga-")
        if number.isdecimal() and not lives(int(number)) and not answers(path):
            path.unlink(missing_ok=True)


def lives(pid: int) -> bool:
    """Tell whether there is such a process, whoever's it is."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def answers(path: Path) -> bool:
    """Tell whether somebody listens there; perhaps a process of another container, whose number means nothing here."""
    with originals.Socket(socket.AF_UNIX) as caller:
        return caller.connect_ex(str(path)) == 0


def peer(connection: socket.socket) -> tuple[int, int, int]:
    """Return process, user and group of the other end of a unix socket, where the platform has SO_PEERCRED."""
    kinds = struct.Struct("3i")
    pid, uid, gid = kinds.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, kinds.size))
    return pid, uid, gid
