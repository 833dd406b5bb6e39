"""A threaded server: one OS thread accepts connections, and each connection has its own OS thread.

The server answers even while every scheduler is blocked, and uses only unpatched functions. ``connections`` holds the
open connections, oldest first. If a client connects while ``MAX_CONNECTIONS`` are open, the server stops reading from
the oldest connection, so that clients that send nothing cannot block others. A client that has sent its request still
gets its answer. ``close`` writes to a self-pipe, which ends the accept loop, and then shuts down the connections, which
ends their threads. A forked child has the descriptors but no threads; it calls ``abandon_in_child``.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable

from ..._kernel import originals
from ..._kernel.platform.system import system
from .._helper_thread import HelperThread, idle

logger = logging.getLogger("dhaga")

MAX_CONNECTIONS = 32
"""Maximum number of open connections; a browser opens six."""

RETRY_SECONDS = 0.1
"""Number of seconds to wait after a failed accept."""


class ThreadServer:
    """Accepts connections and calls ``serve(connection)`` for each in an OS thread."""

    def __init__(self, name: str, listener: socket.socket, serve: Callable[[socket.socket], object]) -> None:
        self.name = name
        self.listener = listener
        listener.setblocking(False)
        self.serve = serve
        self.connections: dict[socket.socket, None] = {}
        self.pipe_reader, self.pipe_writer = originals.socketpair()
        self.thread = HelperThread(name, self.run)

    def run(self) -> None:
        """Accept connections until ``close``. This is the function of the accepting thread."""
        while self.wait_for_connection():
            try:
                connection, _ = self.listener.accept()
            except OSError:  # the client has disconnected already, or no file descriptor is left
                with idle():
                    originals.thread_sleep(RETRY_SECONDS)
                continue
            connection.setblocking(True)
            self.start_thread(connection)

    def wait_for_connection(self) -> bool:
        """Block until a client connects. Returns: False once ``close`` was called."""
        poll = originals.poll()
        poll.register(self.listener, system.POLLIN)
        poll.register(self.pipe_reader, system.POLLIN)
        with idle():
            ready = poll.poll()
        return self.pipe_reader.fileno() not in dict(ready)

    def start_thread(self, connection: socket.socket) -> None:
        if len(self.connections) >= MAX_CONNECTIONS:
            self.read_no_further(next(iter(self.connections)))
        self.connections[connection] = None
        try:
            HelperThread(self.name, self.serve_and_close, connection)
        except RuntimeError:  # no thread can be started at interpreter exit, so serve in this thread
            self.serve_and_close(connection)

    def read_no_further(self, connection: socket.socket) -> None:
        """Stop reading from a connection, so that its thread ends. An answer in progress is still sent."""
        self.connections.pop(connection, None)
        try:
            connection.shutdown(socket.SHUT_RD)
        except OSError:  # the client has just disconnected
            pass

    def serve_and_close(self, connection: socket.socket) -> None:
        try:
            self.serve(connection)
        except OSError:  # the client has disconnected
            pass
        except Exception:
            logger.exception("%s: an answer failed", self.name)
        finally:
            self.connections.pop(connection, None)
            connection.close()

    def close(self) -> None:
        """Stop accepting, join the accepting thread, and shut down the connections. From: any other thread."""
        self.pipe_writer.send(b"x")
        self.thread.join()
        for connection in list(self.connections):
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:  # the client has just disconnected
                pass
        self.close_own()

    def abandon_in_child(self) -> None:
        """Close a forked child's copies of all descriptors. Otherwise, clients would wait after the parent's end."""
        self.close_own()
        for connection in self.connections:  # close() would leave a file of makefile() open
            socket.close(connection.detach())

    def close_own(self) -> None:
        """Close the listener and the self-pipe."""
        for each in (self.listener, self.pipe_reader, self.pipe_writer):
            each.close()
