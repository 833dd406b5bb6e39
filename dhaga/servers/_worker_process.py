"""A prefork worker between its fork and its exit; the master is in ``_prefork``.

The main code serves (``_service``) until a stop request, which is SIGTERM when the master has died. The pipe to the
master carries SERVES once all servers serve, and DRAINED when the worker begins to exit. The end of the pipe reports
the death of the worker to the master, and the death of the master to the worker. An alarm kills a worker that hangs.
The exit has the order of any program's: threads are joined, then exit handlers run, in which libraries send what they
still hold.
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
from ..socket import adopt, socket
from ._service import Service, exempt_loaded_program

logger = logging.getLogger("dhaga")

CLEANUP_SECONDS = 1.0
"""Seconds that cancelled handlers get for their ``finally`` blocks, before the process is killed."""

EXIT_SECONDS = 10.0
"""Seconds that a worker gets for its exit, once it has drained. The exporters of services flush within these."""

SERVES, DRAINED = b"+", b"-"
"""Reports of a worker to its master."""

EXIT_FAILURE = 1


class Worker(Service):
    """The service of a worker: SIGTERM drains, SIGINT or SIGQUIT ends at once. If the master dies, it drains."""

    def run(self, pipe: standard.socket) -> int:
        """Serve; report on ``pipe`` when all servers serve, and drain when the master closes its end.

        From: main code. Returns: an exit status. Raises: the SystemExit or KeyboardInterrupt of a handler.
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
        self.stop(request)
        self.begin_exit(master)
        return EXIT_FAILURE if request is None else 0

    def watch_master(self, pipe: socket) -> None:
        """Report to the master that all servers serve, then drain when its end of the pipe closes."""
        with pipe, contextlib.suppress(OSError):
            pipe.send(SERVES)
            pipe.recv(1)
        logger.error("worker %d drains, as the master has died", os.getpid())
        self.stop_requests.put_nowait(signal.SIGTERM)

    def stop(self, request: int | None) -> None:
        """Stop the servers. An alarm ends the process if they hang and the master is dead."""
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(math.ceil(self.grace_after(request) + 3 * CLEANUP_SECONDS))
        self.stop_servers(request)

    def begin_exit(self, master: socket) -> None:
        """Give the exit its time, here and in the master, and add the time that the drain has not used."""
        signal.alarm(max(signal.alarm(0), math.ceil(EXIT_SECONDS + CLEANUP_SECONDS)))
        with contextlib.suppress(OSError):  # the master has died
            master.send(DRAINED)


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
