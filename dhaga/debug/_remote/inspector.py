"""The inspector: answers queries from other processes at a private endpoint, in its own OS threads.

A query is one line of JSON, and so is its answer. A client may send any number of queries on a connection. The queries
are in ``queries.py``, the endpoints in ``endpoint.py``. A process has at most one inspector, in the variable
``inspector``. A forked child closes its copies of the parent's descriptors and creates its own inspector.
"""

from __future__ import annotations

import atexit
import json
import logging
import os
import socket
from pathlib import Path
from typing import Any

from ..._kernel import hooks
from .._helper_thread import idle
from .._instrumentation import StopHandle
from .endpoint import endpoint_of
from .queries import QueryHandlers
from .thread_server import ThreadServer

logger = logging.getLogger("dhaga")

MAX_QUERY_BYTES = 65_536
"""Maximum size of a query's line, in bytes."""


class Inspector(StopHandle):
    """The inspector of this process, which ``inspect()`` starts. Clients find it through the file ``path``."""

    def __init__(self) -> None:
        self._start()

    def __repr__(self) -> str:
        return f"<Inspector of process {self.pid} at {self.path}>"

    def _start(self) -> None:
        """Listen at a new endpoint. A forked child calls this method again. Raises: OSError."""
        self.pid: int = os.getpid()
        self._queries = QueryHandlers()
        self._endpoint = endpoint_of(self.pid)
        self.path: Path = self._endpoint.path
        self._server = ThreadServer("inspector", self._endpoint.listener, self._serve)
        self._queries.start()

    def stop(self) -> None:
        """Stop answering queries, and remove the file. From: any thread."""
        global inspector
        if inspector is self:
            inspector = None
            self._server.close()
            self._queries.close()
            self._remove()

    def _remove(self) -> None:
        """Remove the file. A forked child without its own endpoint does not remove the parent's file."""
        if self.pid == os.getpid():
            self.path.unlink(missing_ok=True)

    def _serve(self, connection: socket.socket) -> None:
        """Answer the queries of one connection, line by line, until the connection ends."""
        if not self._endpoint.may_ask(connection):
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


inspector: Inspector | None = None
"""The inspector of this process, if any."""


def inspect() -> Inspector:
    """Start the inspector, which this user and root can query with ``python -m dhaga dump PID`` and ``top PID``.

    ``stop()`` or the end of the process ends the inspector; a forked child creates its own. Parks: never. From: any
    thread. Returns: the same inspector at each call. Raises: OSError if no private endpoint can be created.
    """
    global inspector
    if inspector is None:
        inspector = Inspector()
    return inspector


def at_exit() -> None:
    if inspector is not None:
        inspector._remove()


def after_fork_in_child() -> None:
    """Replace the parent's inspector with an inspector of the child."""
    global inspector
    if inspector is None:
        return
    inspector._server.abandon_in_child()
    try:
        inspector._start()
    except OSError as error:
        inspector = None
        logger.warning("the forked process %d cannot be inspected: %s", os.getpid(), error)


atexit.register(at_exit)
hooks.in_forked_child.append(after_fork_in_child)
