"""``Service``: the part of a process that serves a program, with one server per OS thread.

``_worker_process`` runs a service in each worker of a master, and ``_one_process`` runs a service without forks. Main
code imports the program, and starts one server in the main thread and one in each further OS thread. Then the main code
waits for a stop request: the number of a signal, None if a server has ended by itself, or the SystemExit of a
connection's handler in a further thread. If a second signal arrives while the service drains, the service ends at once;
a worker instead ignores a second ``DRAIN_SIGNAL``.
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
"""A function that imports the program, and returns a second function, which makes a server for an address."""

GRACE = 30.0
"""Seconds that requests get to finish when a process ends. A supervisor must wait longer before it kills the master."""

STOP_SIGNALS = (system.DRAIN_SIGNAL, *system.END_SIGNALS)


class Service:
    """A service at listening sockets. ``DRAIN_SIGNAL`` drains the service, and ``END_SIGNALS`` end it at once.

    ``threads``: number of OS threads, each with its own server.
    ``grace``: seconds that the handlers of connections get to finish during a drain.
    ``processes``: number of processes that share the listeners.
    """

    def __init__(self, setup: Setup, listeners: list[socket], threads: int, grace: float, processes: int = 1) -> None:
        self.setup = setup
        self.listeners = listeners
        self.threads = threads
        self.grace = grace
        self.processes = processes
        self.stop_requests: SimpleQueue[int | BaseException | None] = SimpleQueue()
        self.servers: list[TCPServer] = []
        self.further: list[Scheduler] = []  # the schedulers of the further threads

    def handle_signals(self) -> None:
        """Register handlers that convert ``STOP_SIGNALS`` to stop requests. From: the main thread."""
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
        close_all(self.listeners)  # from now on, only the servers' duplicates listen

    def watch_server(self, server: TCPServer) -> None:
        """Request a stop when a server ends, for any reason."""
        server.serve_forever(0)
        self.stop_requests.put_nowait(None)

    def next_request(self) -> int | None:
        """Wait for a stop request, and return it. Raises: the SystemExit or KeyboardInterrupt of a handler."""
        request = self.stop_requests.get()
        if isinstance(request, BaseException):
            raise request
        return request

    def grace_after(self, request: int | None) -> float:
        """Return the number of seconds that the handlers of connections get to finish after a stop request."""
        return self.grace if request == system.DRAIN_SIGNAL else 0

    def stop_servers(self, request: int | None) -> None:
        """Stop the servers, after a drain if ``request`` is ``DRAIN_SIGNAL``. A request that hastens ends the drain."""
        hastening = spawn(self.stop_at_once, daemon=True)
        grace = self.grace_after(request)
        for stopped in [spawn(server.stop, grace) for server in self.servers]:
            stopped.join()
        hastening.cancel()
        hastening.join()

    def hastens(self, request: object) -> bool:
        """Return whether a stop request during a drain ends the drain at once. False for None: a server has ended."""
        return isinstance(request, int)

    def stop_at_once(self) -> None:
        """Wait for a stop request that hastens, then reduce the grace of every server to 0."""
        while not self.hastens(self.stop_requests.get()):
            pass
        for server in self.servers:
            spawn(server.stop, 0)


def exempt_loaded_program() -> None:
    """Exempt the objects that the program has loaded from later garbage collections.

    A full collection delays all requests: for 50 to 90 ms if it includes the 86,000 objects of Flask and SQLAlchemy,
    and otherwise for less than 1 ms. Garbage of the imports is collected first, because it would otherwise be kept.
    """
    gc.collect()
    gc.freeze()
