"""The inspector: answers queries from other processes, at a private endpoint and on its own OS threads.

A query is one line of JSON, and so is its answer; a connection may send any number of them. The queries are in
``queries.py``, the endpoints in ``endpoint.py``. A process has one inspector, in ``inspector``; a forked child closes
the parent's descriptors and creates its own.
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
"""Size of a line."""


class Inspector(StopHandle):
    """The inspector of this process, found by the file ``path``, from ``inspect()``."""

    def __init__(self) -> None:
        self._start()

    def __repr__(self) -> str:
        return f"<Inspector of process {self.pid} at {self.path}>"

    def _start(self) -> None:
        """Listen; again in a forked child, with an endpoint of its own. Raises: OSError."""
        self.pid: int = os.getpid()
        self._queries = QueryHandlers()
        self._endpoint = endpoint_of(self.pid)
        self.path: Path = self._endpoint.path
        self._server = ThreadServer("inspector", self._endpoint.listener, self._serve)
        self._queries.start()

    def stop(self) -> None:
        """Stop answering, and remove the file. From: any thread."""
        global inspector
        if inspector is self:
            inspector = None
            self._server.close()
            self._queries.close()
            self._remove()

    def _remove(self) -> None:
        """Remove the file; a forked child without an endpoint of its own leaves the parent's."""
        if self.pid == os.getpid():
            self.path.unlink(missing_ok=True)

    def _serve(self, connection: socket.socket) -> None:
        """Answer the queries of one connection, line by line, until its end."""
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
"""The inspector of this process."""


def inspect() -> Inspector:
    """Start the inspector for ``python -m dhaga dump PID`` and ``top PID``, for this user and root.

    ``stop()`` or the end of the process ends it; a forked child creates its own. Parks: never. From: any thread.
    Returns: the inspector, the same at each call. Raises: OSError if no private endpoint can be created.
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
