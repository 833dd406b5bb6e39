"""An endpoint of the inspector for platforms with Unix sockets: a socket that only this user and root can use.

Three checks enforce this. The process creates the directory with mode 0700, or checks an existing directory. The socket
has mode 0600 before it listens. Where ``SO_PEERCRED`` exists, each side verifies the credentials of the other side.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path

from ..._kernel import originals
from . import socket_path
from .not_answered import ADVICE, NotAnswered


class Endpoint:
    """The ``listener`` of a process, whose socket is at ``path``."""

    def __init__(self, pid: int) -> None:
        """Listen. Raises: OSError."""
        folder = socket_path.own_folder()
        socket_path.sweep(folder)
        self.path = folder / socket_path.name_of(pid)
        self.path.unlink(missing_ok=True)  # left by an earlier process with this PID
        self.listener = listener_at(self.path)

    @staticmethod
    def may_ask(connection: socket.socket) -> bool:
        """Return whether the client is this user or root. Without ``SO_PEERCRED``, rely on the directory's mode."""
        if not hasattr(socket, "SO_PEERCRED"):
            return True
        return socket_path.peer(connection)[1] in (os.geteuid(), 0)


def listener_at(path: Path) -> socket.socket:
    """Return a listening socket that only this user can connect to. Raises: OSError."""
    listener = originals.Socket(socket.AF_UNIX)
    try:
        try:
            listener.bind(str(path))
        except OSError as error:
            raise OSError(
                f"no socket can be created at {path} ({error}): set XDG_RUNTIME_DIR to another directory"
            ) from error
        path.chmod(0o600)  # before the socket listens
        listener.listen()
    except BaseException:
        listener.close()
        raise
    return listener


def connect(pid: int) -> socket.socket:
    """Connect to the inspector of a process. Raises: NotAnswered."""
    uid = owner_of(pid)
    if uid not in (os.geteuid(), uid if os.geteuid() == 0 else -1):
        raise NotAnswered(f"process {pid} belongs to user {uid}: run this command as that user, or as root")
    for folder in socket_path.folders(uid):
        path = folder / socket_path.name_of(pid)
        # Another user may have created the directory in /tmp, to receive the query.
        if socket_path.only_for(uid, folder) and path.is_socket():
            return connect_to(path, pid, uid)
    raise NotAnswered(f"process {pid} has no inspector: {ADVICE}")


def owner_of(pid: int) -> int:
    """Return the user ID of a living process."""
    try:
        return os.stat(f"/proc/{pid}").st_uid
    except OSError:  # this platform has no /proc
        return os.geteuid()


def connect_to(path: Path, pid: int, uid: int) -> socket.socket:
    """Connect to a socket, and verify the process at the other end. Raises: NotAnswered."""
    connection = originals.Socket(socket.AF_UNIX)
    try:
        connection.connect(str(path))
        if hasattr(socket, "SO_PEERCRED") and socket_path.peer(connection)[:2] != (pid, uid):
            raise NotAnswered(f"a process other than {pid} of user {uid} answers at {path}, so no query is sent to it")
        return connection
    except ConnectionRefusedError:
        connection.close()
        raise NotAnswered(
            f"process {pid} has no inspector, {path} is left by an earlier process with that id: {ADVICE}"
        ) from None
    except PermissionError:
        connection.close()
        raise NotAnswered(
            f"user {os.geteuid()} may not use {path}: run this command as the user of process {pid}"
        ) from None
    except BaseException:
        connection.close()
        raise
