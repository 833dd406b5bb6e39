"""A threaded server: one OS thread accepts, and each connection has its own OS thread.

It answers even while every scheduler is blocked, and uses only unpatched functions. ``connections`` holds the open
connections, oldest first. Beyond ``MAX_CONNECTIONS`` the server stops reading from the oldest: a client that has sent
its request still gets its answer, and clients that send none cannot shut out the others. ``close`` writes to a
self-pipe, which ends the accept loop, and then shuts down the connections, which ends their threads. A forked child has
the descriptors but no threads: it calls ``abandon``.
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
"""Maximum of open connections; a browser opens six."""

RETRY_SECONDS = 0.1
"""Pause after a failed accept."""


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
        """Accept until ``close``; the function of the accepting thread."""
        while self.wait_for_connection():
            try:
                connection, _ = self.listener.accept()
            except OSError:  # the client has already disconnected, or no file descriptor is left
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
        except RuntimeError:  # at interpreter exit no thread can be started: serve in this one
            self.serve_and_close(connection)

    def read_no_further(self, connection: socket.socket) -> None:
        """End a connection that waits for its client to send; an answer under way is still sent."""
        self.connections.pop(connection, None)
        try:
            connection.shutdown(socket.SHUT_RD)
        except OSError:  # the client has just gone
            pass

    def serve_and_close(self, connection: socket.socket) -> None:
        try:
            self.serve(connection)
        except OSError:  # the client has gone
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
            except OSError:  # the client has just gone
                pass
        self.abandon()

    def abandon(self) -> None:
        """Close the listener and self-pipe of a forked child, without an effect on the parent's."""
        for each in (self.listener, self.pipe_reader, self.pipe_writer):
            each.close()
