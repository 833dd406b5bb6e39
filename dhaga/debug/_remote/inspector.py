"""The inspector: answers queries from other processes, on a private unix socket and its own OS threads.

A query is one line of JSON, and so is its answer; a connection may send any number of them. The queries are in
``queries.py``. Only the user of this process and root may ask. That is enforced by the directory (mode 0700, checked
before use), the socket (mode 0600 before it listens), and the peer's credentials where the platform has them
(``SO_PEERCRED``). A process has one inspector, in ``inspector``; a forked child closes the parent's descriptors and
creates its own. Rejected: a TCP port, which every user of the machine could connect to.
"""

from __future__ import annotations

import atexit
import json
import logging
import os
import socket
from pathlib import Path
from typing import Any

from ..._kernel import hooks, originals
from .._helper_thread import idle
from .._instrumentation import StopHandle
from . import socket_path
from .queries import QueryHandlers
from .thread_server import ThreadServer

logger = logging.getLogger("dhaga")

MAX_QUERY_BYTES = 65_536
"""Size of a line."""


class Inspector(StopHandle):
    """The inspector of this process, at the socket ``path``, from ``inspect()``."""

    def __init__(self) -> None:
        self._start()

    def __repr__(self) -> str:
        return f"<Inspector of process {self.pid} at {self.path}>"

    def _start(self) -> None:
        """Listen; again in a forked child, with a socket of its own. Raises: OSError."""
        self.pid: int = os.getpid()
        self._queries = QueryHandlers()
        folder = socket_path.own_folder()
        socket_path.sweep(folder)
        self.path: Path = folder / socket_path.name_of(self.pid)
        self.path.unlink(missing_ok=True)  # left by an earlier process with this PID
        self._server = ThreadServer("inspector", listener_at(self.path), self._serve)
        self._queries.start()

    def stop(self) -> None:
        """Stop answering, and remove the socket. From: any thread."""
        global inspector
        if inspector is self:
            inspector = None
            self._server.close()
            self._queries.close()
            self._remove()

    def _remove(self) -> None:
        """Remove the socket; a forked child without a socket of its own leaves the parent's."""
        if self.pid == os.getpid():
            self.path.unlink(missing_ok=True)

    def _serve(self, connection: socket.socket) -> None:
        """Answer the queries of one connection, line by line, until its end."""
        if not may_ask(connection):
            send_line(connection, {"error": f"process {self.pid} answers only its own user and root"})
            return
        with connection.makefile("rb") as lines:
            while query := read_line(lines):
                send_line(connection, self._answer(query))

    def _answer(self, query: bytes) -> dict[str, Any]:
        try:
            return self._queries.answer(json.loads(query))
        except (ValueError, RecursionError) as error:
            return {"error": f"a query is one line of JSON: {error}"}


def read_line(lines: Any) -> bytes:
    with idle():
        return lines.readline(MAX_QUERY_BYTES)  # type: ignore[no-any-return]


def send_line(connection: socket.socket, answer: dict[str, Any]) -> None:
    line = json.dumps(answer).encode() + b"\n"
    with idle():
        connection.sendall(line)


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
        path.chmod(0o600)  # before it listens
        listener.listen()
    except BaseException:
        listener.close()
        raise
    return listener


def may_ask(connection: socket.socket) -> bool:
    """Return whether the client is of our user or root; without ``SO_PEERCRED`` the directory's mode decides."""
    if not hasattr(socket, "SO_PEERCRED"):
        return True
    return socket_path.peer(connection)[1] in (os.geteuid(), 0)


inspector: Inspector | None = None
"""The inspector of this process."""


def inspect() -> Inspector:
    """Start the inspector for ``python -m dhaga dump PID`` and ``top PID``, for this user and root.

    ``stop()`` or the end of the process ends it; a forked child creates its own. Parks: never. From: any thread.
    Returns: the inspector, the same at each call. Raises: OSError if no private socket can be created.
    """
    global inspector
    if inspector is None:
        inspector = Inspector()
    return inspector


def at_exit() -> None:
    if inspector is not None:
        inspector._remove()


def after_fork_in_child() -> None:
    """Replace the parent's inspector with one of the child."""
    global inspector
    if inspector is None:
        return
    inspector._server.abandon()
    for connection in inspector._server.connections:
        connection.close()
    try:
        inspector._start()
    except OSError as error:
        inspector = None
        logger.warning("the forked process %d cannot be inspected: %s", os.getpid(), error)


atexit.register(at_exit)
hooks.in_forked_child.append(after_fork_in_child)
