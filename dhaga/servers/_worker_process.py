"""A prefork worker, from its fork to its exit: a service that reports to the master in ``_prefork``.

The main code serves (``_service``) until a stop request. The death of the master has the same effect as SIGTERM.
Through a pipe, the worker sends SERVES to the master once all servers serve, EXITS if the program has raised
SystemExit, and DRAINED when the exit begins. When the master or the worker dies, the other process reads end-of-file
from the pipe. An alarm kills a worker that hangs. Like any Python program, a worker first joins its threads, and then
runs the exit handlers, in which libraries send buffered data.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import signal
import socket as standard
from collections.abc import Iterator
from fcntl import F_GETFL, F_SETFL, F_SETOWN, FASYNC, fcntl

from .._kernel.api import spawn
from .._kernel.context_manager import contextmanager
from .._kernel.platform.system import system
from ..socket import adopt, socket
from ._service import EXIT_FAILURE, Service, StopRequest, exempt_loaded_program

logger = logging.getLogger("dhaga")

CLEANUP_SECONDS = 1.0
"""Seconds that the ``finally`` blocks of cancelled handlers get before the process is killed."""

EXIT_SECONDS = 10.0
"""Seconds that a drained worker gets to exit. Libraries that export logs or metrics send their last data meanwhile."""

SERVES, EXITS, DRAINED = b"+", b"!", b"-"
"""The reports that a worker sends to its master. After EXITS, the master starts another worker during the drain."""

MAX_ALARM = 2**31 - 1
"""Maximum of ``signal.alarm`` in seconds, 68 years. A longer or infinite grace is reduced to this maximum."""


class Worker(Service):
    """The service of a worker.

    SIGTERM, a SystemExit or the master's death drains it, and SIGINT or SIGQUIT ends it at once.
    """

    def run(self, pipe: standard.socket) -> int:
        """Serve until a stop request arrives. ``pipe``: the socket connected to the master.

        From: main code. Returns: an exit status. Raises: the SystemExit or KeyboardInterrupt of the program.
        """
        try:
            with die_with_master(pipe):
                make_server = self.setup()
                exempt_loaded_program()
            self.handle_signals()
            self.start(make_server)
        except Exception:
            logger.exception("worker %d cannot serve", os.getpid())
            return EXIT_FAILURE
        master = adopt(pipe)
        spawn(self.watch_master, master, daemon=True)
        request = self.next_request()
        if isinstance(request, SystemExit):
            report(master, EXITS)
        self.stop(request)
        self.begin_exit(master)
        return self.exit_status(request)

    def watch_master(self, pipe: socket) -> None:
        """Send SERVES to the master, wait until the master's end of the pipe closes, then request a drain."""
        with pipe, contextlib.suppress(OSError):
            pipe.send(SERVES)
            pipe.recv(1)
        logger.error("worker %d drains, because the master has died", os.getpid())
        self.stop_requests.put_nowait(signal.SIGTERM)

    def hastens(self, request: object) -> bool:
        """Return whether a stop request during a drain ends the drain at once. False for ``DRAIN_SIGNAL``.

        If the whole process group gets SIGTERM, a worker gets it from the sender, from the master, and again if the
        master dies. To end the workers at once, the master sends SIGINT.
        """
        return super().hastens(request) and request != system.DRAIN_SIGNAL

    def stop(self, request: StopRequest) -> None:
        """Stop the servers. An alarm kills the process if a server hangs, because the master may be dead."""
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(math.ceil(min(self.grace_after(request) + 3 * CLEANUP_SECONDS, MAX_ALARM)))
        self.stop_servers(request)

    def begin_exit(self, master: socket) -> None:
        """Send DRAINED, so that the master waits for the exit, and set an alarm for the exit.

        If the alarm of the drain is due later, its time is kept.
        """
        signal.alarm(max(signal.alarm(0), math.ceil(EXIT_SECONDS + CLEANUP_SECONDS)))
        report(master, DRAINED)


def report(master: socket, text: bytes) -> None:
    """Send a report to the master, unless the master has died."""
    with contextlib.suppress(OSError):
        master.send(text)


@contextmanager
def die_with_master(pipe: standard.socket) -> Iterator[None]:
    """Make SIGIO kill the process if the master dies during the block.

    During a long import that never parks, no dhaga could watch the pipe.
    """
    signal.signal(signal.SIGIO, signal.SIG_DFL)
    flags = fcntl(pipe, F_GETFL)
    fcntl(pipe, F_SETOWN, os.getpid())
    fcntl(pipe, F_SETFL, flags | FASYNC)
    try:
        yield
    finally:
        fcntl(pipe, F_SETFL, flags)
