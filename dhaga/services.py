"""Services: what a worker process does, from setting up the program to its end. Who starts it: ``processes.py``."""

from __future__ import annotations

import contextlib
import logging
import math
import os
import signal
import socket as standard
from collections.abc import Callable, Iterator
from fcntl import F_GETFL, F_SETFL, F_SETOWN, FASYNC, fcntl
from typing import TypeAlias

from .kernel.api import spawn
from .kernel.scheduler import Scheduler
from .listeners import Address, close_all
from .servers import TCPServer
from .simplequeue import SimpleQueue
from .socket import adopt, socket

logger = logging.getLogger("dhaga")

Setup: TypeAlias = Callable[[], Callable[[Address], TCPServer]]
"""Called in each worker, it imports the program; what it returns makes a server at an address, for each OS thread."""

QUICK = 1.0
"""Seconds that handlers which were cancelled have for their ``finally``, before the process is killed."""

ORDERS = signal.SIGTERM, signal.SIGINT, signal.SIGQUIT
FAILED = 1


class Service:
    """Serve at listening sockets until an order comes: SIGTERM to drain, SIGINT or SIGQUIT to end at once.

    ``threads``: how many OS threads do so, with a server each; ``grace``: seconds that handlers have to finish. When
    the master has died, it drains, too.
    """

    def __init__(self, setup: Setup, listeners: list[socket], threads: int, grace: float) -> None:
        self.setup = setup
        self.listeners = listeners
        self.threads = threads
        self.grace = grace
        self.orders: SimpleQueue[int | None] = SimpleQueue()
        self.servers: list[TCPServer] = []

    def run(self, line: standard.socket) -> int:
        """Serve; ``line`` tells the master when all is up, and ends with it.

        From: main code. Returns: an exit status.
        """
        try:
            with ending_with(line):
                make = self.setup()
            for number in ORDERS:
                signal.signal(number, self.take_order)
            self.start(make)
        except Exception:
            logger.exception("worker %d cannot serve", os.getpid())
            return FAILED
        spawn(self.watch_master, adopt(line), daemon=True)
        order = self.orders.get()
        self.stop(self.grace if order == signal.SIGTERM else 0)
        return FAILED if order is None else 0

    def take_order(self, number: int, frame: object) -> None:
        self.orders.put_nowait(number)

    def start(self, make: Callable[[Address], TCPServer]) -> None:
        """Start a server in the main thread, and one in each further thread."""
        elsewhere = [Scheduler(f"thread-{number}").start() for number in range(2, self.threads + 1)]
        for scheduler in [None, *elsewhere]:
            server = make(list(self.listeners))
            if scheduler is None:
                server.start()
            else:
                scheduler.spawn(server.start).result()
            self.servers.append(server)
            spawn(self.watch_server, server, daemon=True)
        close_all(self.listeners)  # the servers have duplicates, and are to be the last that listen

    def watch_server(self, server: TCPServer) -> None:
        """Give notice when a server ends, by itself or not."""
        server.serve_forever(0)
        self.orders.put_nowait(None)

    def watch_master(self, line: socket) -> None:
        """Drain when the master has died, whose end of the line is closed then."""
        with line, contextlib.suppress(OSError):
            line.send(b"+")
            line.recv(1)
        logger.error("worker %d drains, as the master has died", os.getpid())
        self.orders.put_nowait(signal.SIGTERM)

    def stop(self, grace: float) -> None:
        """End the servers, sooner if another order comes. An alarm is for what does not end, where no master lives."""
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(math.ceil(grace + 3 * QUICK))
        spawn(self.quicken, daemon=True)
        for stopped in [spawn(server.stop, grace) for server in self.servers]:
            stopped.join()

    def quicken(self) -> None:
        while self.orders.get() is None:  # the end of a server, which is expected now
            pass
        for server in self.servers:
            spawn(server.stop, 0)


@contextlib.contextmanager
def ending_with(line: standard.socket) -> Iterator[None]:
    """End the process if the line ends while a block runs, which may take long and hears nothing: an import, say."""
    signal.signal(signal.SIGIO, signal.SIG_DFL)
    flags = fcntl(line, F_GETFL)
    fcntl(line, F_SETOWN, os.getpid())
    fcntl(line, F_SETFL, flags | FASYNC)
    try:
        yield
    finally:
        fcntl(line, F_SETFL, flags)
