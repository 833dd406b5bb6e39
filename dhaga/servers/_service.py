"""A program that is served in one process, by a server in each OS thread: ``Service``.

``_worker_process`` runs it in each child of a master; ``_one_process`` where no process forks. The main code imports
the program, and starts a server in its own OS thread and one in each further thread. Then it waits for a stop request:
a signal's number, None when a server has ended by itself, or the SystemExit of a handler in a further thread. A second
request while the service drains stops it at once.
"""

from __future__ import annotations

import gc
import signal
from collections.abc import Callable
from typing import TypeAlias

from .._kernel.api import spawn
from .._kernel.platform.system import system
from .._kernel.run.scheduler import Scheduler
from .._sync.simple_queue import SimpleQueue
from ..socket import socket
from . import TCPServer
from ._listeners import Address, close_all

Setup: TypeAlias = Callable[[], Callable[[Address], TCPServer]]
"""Imports the program in each process, and returns a function that creates a server at an address for an OS thread."""

GRACE = 30.0
"""Seconds that requests get to finish when a process ends. A supervisor of the master must wait longer."""

STOP_SIGNALS = (system.DRAIN_SIGNAL, *system.END_SIGNALS)


class Service:
    """Serves at listening sockets until a stop request: one signal drains, the others end at once.

    ``threads``: OS threads, with a server each; ``grace``: seconds that handlers get to finish; ``processes``: those
    that share the listeners.
    """

    def __init__(self, setup: Setup, listeners: list[socket], threads: int, grace: float, processes: int = 1) -> None:
        self.setup = setup
        self.listeners = listeners
        self.threads = threads
        self.grace = grace
        self.processes = processes
        self.stop_requests: SimpleQueue[int | BaseException | None] = SimpleQueue()
        self.servers: list[TCPServer] = []
        self.further: list[Scheduler] = []  # of the further threads

    def handle_signals(self) -> None:
        """Make the signals that end a service requests to stop. From: the main thread."""
        for number in STOP_SIGNALS:
            signal.signal(number, self.request_stop)

    def request_stop(self, number: int, frame: object) -> None:
        self.stop_requests.put_nowait(number)

    def start(self, make_server: Callable[[Address], TCPServer]) -> None:
        """Start a server in the main thread, and one in each further thread."""
        self.further = [Scheduler(f"thread-{number}").start() for number in range(2, self.threads + 1)]
        for scheduler in [None, *self.further]:
            server = make_server(list(self.listeners))
            server.processes = self.processes
            if scheduler is None:
                server.start()
            else:
                server.on_exit = self.stop_requests.put_nowait
                scheduler.spawn(server.start).result()
            self.servers.append(server)
            spawn(self.watch_server, server, daemon=True)
        close_all(self.listeners)  # only the servers' duplicates must keep listening

    def watch_server(self, server: TCPServer) -> None:
        """Request a stop when a server ends, for any reason."""
        server.serve_forever(0)
        self.stop_requests.put_nowait(None)

    def next_request(self) -> int | None:
        """Wait for a request to stop. Raises: the SystemExit or KeyboardInterrupt of a handler."""
        request = self.stop_requests.get()
        if isinstance(request, BaseException):
            raise request
        return request

    def grace_after(self, request: int | None) -> float:
        """Return the seconds that handlers get to finish after a stop request."""
        return self.grace if request == system.DRAIN_SIGNAL else 0

    def stop_servers(self, request: int | None) -> None:
        """Stop the servers, after a drain if the request is one; at once at a second stop request."""
        hastening = spawn(self.stop_at_once, daemon=True)
        grace = self.grace_after(request)
        for stopped in [spawn(server.stop, grace) for server in self.servers]:
            stopped.join()
        hastening.cancel()
        hastening.join()

    def stop_at_once(self) -> None:
        """Wait for a second stop request, then reduce the grace of every server to 0."""
        while not isinstance(self.stop_requests.get(), int):  # a server has ended, as expected during a stop
            pass
        for server in self.servers:
            spawn(server.stop, 0)


def exempt_loaded_program() -> None:
    """Exempt the objects that the program has loaded from later garbage collections.

    A full collection stops all requests. With the 86,000 objects of Flask and SQLAlchemy it took 50 to 90 ms, without
    them less than 1 ms. The import's garbage is collected first: it would stay otherwise.
    """
    gc.collect()
    gc.freeze()
