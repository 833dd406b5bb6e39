"""A prefork worker between its fork and its exit; the master is in ``_prefork``.

The main code imports the program, and starts a server in its own OS thread and one in each further thread. Then it
waits for a stop request: a signal's number, SIGTERM when the master has died, None when a server has ended by itself,
or the SystemExit of a handler in a further thread. The pipe to the master carries SERVES once all servers serve, and
DRAINED when the worker begins to exit. The end of the pipe reports the death of the worker to the master, and the death
of the master to the worker. A second request while the worker drains stops it at once; an alarm kills a worker that
hangs.
The exit has the order of any program's: threads are joined, then exit handlers run, in which libraries send what they
still hold.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import math
import os
import signal
import socket as standard
from collections.abc import Callable, Iterator
from fcntl import F_GETFL, F_SETFL, F_SETOWN, FASYNC, fcntl
from typing import TypeAlias

from .._kernel.api import spawn
from .._kernel.context_manager import contextmanager
from .._kernel.run.scheduler import Scheduler
from .._sync.simple_queue import SimpleQueue
from ..socket import adopt, socket
from . import TCPServer
from ._listeners import Address, close_all

logger = logging.getLogger("dhaga")

Setup: TypeAlias = Callable[[], Callable[[Address], TCPServer]]
"""Imports the program in each worker, and returns a function that creates a server at an address for an OS thread."""

CLEANUP_SECONDS = 1.0
"""Seconds that cancelled handlers get for their ``finally`` blocks, before the process is killed."""

EXIT_SECONDS = 10.0
"""Seconds that a worker gets for its exit, once it has drained. The exporters of services flush within these."""

SERVES, DRAINED = b"+", b"-"
"""Reports of a worker to its master."""

STOP_SIGNALS = signal.SIGTERM, signal.SIGINT, signal.SIGQUIT
EXIT_FAILURE = 1


class Service:
    """Serves at listening sockets until a stop request: SIGTERM drains, SIGINT or SIGQUIT ends at once.

    ``threads``: OS threads, with a server each; ``grace``: seconds that handlers get to finish; ``processes``: workers
    that share the listeners. If the master dies, the worker drains.
    """

    def __init__(self, setup: Setup, listeners: list[socket], threads: int, grace: float, processes: int = 1) -> None:
        self.setup = setup
        self.listeners = listeners
        self.threads = threads
        self.grace = grace
        self.processes = processes
        self.stop_requests: SimpleQueue[int | BaseException | None] = SimpleQueue()
        self.servers: list[TCPServer] = []

    def run(self, pipe: standard.socket) -> int:
        """Serve; report on ``pipe`` when all servers serve, and drain when the master closes its end.

        From: main code. Returns: an exit status. Raises: the SystemExit or KeyboardInterrupt of a handler.
        """
        try:
            with die_with_master(pipe):
                make_server = self.setup()
                exempt_loaded_program()
            for number in STOP_SIGNALS:
                signal.signal(number, self.request_stop)
            self.start(make_server)
        except Exception:
            logger.exception("worker %d cannot serve", os.getpid())
            return EXIT_FAILURE
        master = adopt(pipe)
        spawn(self.watch_master, master, daemon=True)
        request = self.stop_requests.get()
        if isinstance(request, BaseException):
            raise request
        self.stop(self.grace if request == signal.SIGTERM else 0)
        self.begin_exit(master)
        return EXIT_FAILURE if request is None else 0

    def request_stop(self, number: int, frame: object) -> None:
        self.stop_requests.put_nowait(number)

    def start(self, make_server: Callable[[Address], TCPServer]) -> None:
        """Start a server in the main thread, and one in each further thread."""
        further = [Scheduler(f"thread-{number}").start() for number in range(2, self.threads + 1)]
        for scheduler in [None, *further]:
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

    def watch_master(self, pipe: socket) -> None:
        """Report to the master that all servers serve, then drain when its end of the pipe closes."""
        with pipe, contextlib.suppress(OSError):
            pipe.send(SERVES)
            pipe.recv(1)
        logger.error("worker %d drains, as the master has died", os.getpid())
        self.stop_requests.put_nowait(signal.SIGTERM)

    def stop(self, grace: float) -> None:
        """Stop the servers; at once at a second stop request.

        An alarm ends the process if the servers hang and the master is dead.
        """
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(math.ceil(grace + 3 * CLEANUP_SECONDS))
        spawn(self.stop_at_once, daemon=True)
        for stopped in [spawn(server.stop, grace) for server in self.servers]:
            stopped.join()

    def begin_exit(self, master: socket) -> None:
        """Give the exit its time, here and in the master, and add the time that the drain has not used."""
        signal.alarm(max(signal.alarm(0), math.ceil(EXIT_SECONDS + CLEANUP_SECONDS)))
        with contextlib.suppress(OSError):  # the master has died
            master.send(DRAINED)

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


@contextmanager
def die_with_master(pipe: standard.socket) -> Iterator[None]:
    """Kill the process with SIGIO if the master dies during the block, such as a long import, where no code parks."""
    signal.signal(signal.SIGIO, signal.SIG_DFL)
    flags = fcntl(pipe, F_GETFL)
    fcntl(pipe, F_SETOWN, os.getpid())
    fcntl(pipe, F_SETFL, flags | FASYNC)
    try:
        yield
    finally:
        fcntl(pipe, F_SETFL, flags)
