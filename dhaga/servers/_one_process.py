"""``OneProcess``: a service that serves a program in the current process. ``_prefork`` serves in forked workers."""

from __future__ import annotations

import logging
import os
import signal

from .._kernel.faces.arguments import check_seconds
from ._listeners import BACKLOG, Address, close_all, format_address, listen
from ._service import EXIT_FAILURE, GRACE, STOP_SIGNALS, Service, Setup, exempt_loaded_program

logger = logging.getLogger("dhaga")


class OneProcess(Service):
    """A service that listens and serves in the current process: ``OneProcess(setup, address).run()``.

    After SIGTERM, or Ctrl-Break on Windows, the handlers of connections get ``grace`` seconds to finish. A second such
    signal, or Ctrl-C, ends the service at once. ``threads``: number of OS threads, each with its own server.
    ``scheme``: a URL scheme such as ``http``. With a scheme, the log shows URLs instead of addresses.
    """

    def __init__(
        self,
        setup: Setup,
        address: Address,
        *,
        threads: int = 1,
        grace: float = GRACE,
        backlog: int = BACKLOG,
        scheme: str = "",
    ) -> None:
        check_seconds(grace)
        super().__init__(setup, [], threads, grace)
        self.address = address
        self.backlog = backlog
        self.scheme = scheme

    def run(self) -> int:
        """Serve until a signal ends the service. From: main code. Returns: an exit status. Raises: OSError."""
        self.listeners = listen(self.address, self.backlog)
        former = {number: signal.getsignal(number) for number in STOP_SIGNALS}
        try:
            return self.serve()
        finally:
            close_all(self.listeners)
            for scheduler in self.further:
                scheduler.stop()
            for number, handler in former.items():
                signal.signal(number, handler)

    def serve(self) -> int:
        """Serve at the open listeners until a stop request arrives. Returns: an exit status."""
        where = ", ".join(self.url_of(listener.getsockname()) for listener in self.listeners)
        try:
            make_server = self.setup()
            exempt_loaded_program()
            self.handle_signals()
            self.start(make_server)
        except Exception:
            logger.exception("process %d cannot serve", os.getpid())
            return EXIT_FAILURE
        logger.info("process %d listens at %s (Ctrl+C ends it)", os.getpid(), where)
        request = self.next_request()
        self.stop_servers(request)
        return self.exit_status(request)

    def url_of(self, address: object) -> str:
        """Return a listener's address as text: a URL, or the address if ``scheme`` is empty."""
        return f"{self.scheme}://{format_address(address)}" if self.scheme else format_address(address)
