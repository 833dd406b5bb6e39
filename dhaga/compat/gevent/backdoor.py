"""``gevent.backdoor``: BackdoorServer, which offers a Python prompt in the running program over TCP."""

from __future__ import annotations

from typing import Any

from .._shared.prompt import talk
from .server import StreamServer

__all__ = ["BackdoorServer"]


class BackdoorServer(StreamServer):
    """A server that gives each client a Python prompt. Any client that can reach the address is accepted.

    ``locals`` holds the names that statements can use; each client has a copy of it. The client gets what the
    statements themselves print, and no output of other greenlets.
    """

    def __init__(
        self, listener: Any, locals: dict[str, Any] | None = None, banner: str | None = None, **options: Any
    ) -> None:
        super().__init__(listener, **options)
        self.locals: dict[str, Any] = locals or {}
        self.banner = banner

    def handle(self, sock: Any, address: Any) -> None:
        """Read statements and execute them, until the client closes the connection or calls ``exit()``."""
        talk(sock, {"__name__": "__console__", **self.locals}, self.banner)
