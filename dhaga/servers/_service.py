"""``Service``: the part of a process that serves a program, with one server per OS thread.

``_worker_process`` runs a service in each worker of a master, and ``_one_process`` runs a service without forks. Main
code imports the program, and starts one server in the main thread and one in each further OS thread. Then the main code
waits for a stop request: the number of a signal, None if a server has ended by itself, or the SystemExit that a handler
or another dhaga has raised. A SystemExit drains the service, like ``DRAIN_SIGNAL``, because other requests are under
way. After the drain, the main code raises the SystemExit. If a second signal arrives while the service drains, the
service ends at once; a worker instead ignores a second ``DRAIN_SIGNAL``. A second SystemExit does not end the drain.
"""

from __future__ import annotations

import contextlib
import gc
import signal
from collections.abc import Callable
from typing import NoReturn, TypeAlias

from .._kernel.api import sleep, spawn
from .._kernel.platform.system import system
from .._kernel.process.current_scheduler import current_scheduler
from .._kernel.run.microthread import Dhaga
from .._kernel.run.scheduler import Scheduler
from .._kernel.run.uncaught import interrupt_main
from .._sync.simple_queue import SimpleQueue
from ..socket import socket
from . import TCPServer
from ._listeners import Address, close_all

Setup: TypeAlias = Callable[[], Callable[[Address], TCPServer]]
"""A function that imports the program, and returns a second function, which makes a server for an address."""

StopRequest: TypeAlias = int | BaseException | None
"""The number of a signal, the error that ends the program, or None if a server has ended by itself."""

EXIT_FAILURE = 1

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
        self.stop_requests: SimpleQueue[StopRequest] = SimpleQueue()
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
            server.on_exit = self.stop_requests.put_nowait
            if scheduler is None:
                server.start()
            else:
                scheduler.spawn(server.start).result()
            self.servers.append(server)
            spawn(self.watch_server, server, daemon=True)
        close_all(self.listeners)  # from now on, only the servers' duplicates listen

    def watch_server(self, server: TCPServer) -> None:
        """Request a stop when a server ends, for any reason."""
        server.serve_forever(0)
        self.stop_requests.put_nowait(None)

    def next_request(self) -> StopRequest:
        """Wait for a stop request, and return it. Raises: the KeyboardInterrupt of a handler."""
        try:
            request = self.stop_requests.get()
        except SystemExit as exit:  # of a dhaga that serves no connection, or of a signal handler
            return exit
        if isinstance(request, KeyboardInterrupt):
            raise_in_main_code(request)
        return request

    def grace_after(self, request: StopRequest) -> float:
        """Return the number of seconds that the handlers of connections get to finish after a stop request."""
        return self.grace if request == system.DRAIN_SIGNAL or isinstance(request, SystemExit) else 0

    def stop_servers(self, request: StopRequest) -> None:
        """Stop the servers, after the grace period of ``request``. A later stop request ends the grace period if
        ``hastens`` is true for it.
        """
        hastening = spawn(self.stop_at_once, daemon=True)
        grace = self.grace_after(request)
        for stopped in [spawn(server.stop, grace) for server in self.servers]:
            join_despite_exits(stopped)
        hastening.cancel()
        hastening.join()

    def hastens(self, request: object) -> bool:
        """Return whether a stop request during a drain ends the drain at once. False for None: a server has ended."""
        return isinstance(request, int)

    def stop_at_once(self) -> None:
        """Wait for a stop request for which ``hastens`` is true, then reduce the grace of every server to 0."""
        while not self.hastens(self.stop_requests.get()):
            pass
        for server in self.servers:
            spawn(server.stop, 0)

    def exit_status(self, request: StopRequest) -> int:
        """Return the exit status after a stop request. Raises: the SystemExit that was the request."""
        if isinstance(request, BaseException):
            raise_in_main_code(request)
        return EXIT_FAILURE if request is None else 0


def raise_in_main_code(error: BaseException) -> NoReturn:
    """Raise an error in the main code as if a dhaga had ended the program: the exit cancels the other dhagas."""
    interrupt_main(current_scheduler(), error)
    sleep(0)
    raise error


def join_despite_exits(dhaga: Dhaga) -> None:
    """Join a dhaga, and ignore a SystemExit that another dhaga raises in the main code meanwhile."""
    while dhaga.is_alive():
        with contextlib.suppress(SystemExit):
            dhaga.join()


def exempt_loaded_program() -> None:
    """Exempt the objects that the program has loaded from later garbage collections.

    A full collection delays all requests: for 50 to 90 ms if it includes the 86,000 objects of Flask and SQLAlchemy,
    and otherwise for less than 1 ms. Garbage of the imports is collected first, because it would otherwise be kept.
    """
    gc.collect()
    gc.freeze()
