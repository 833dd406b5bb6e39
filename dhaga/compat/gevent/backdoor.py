"""``gevent.backdoor``: BackdoorServer, a prompt of Python over TCP in the running program."""

from __future__ import annotations

from typing import Any

from .._prompt import talk
from .server import StreamServer

__all__ = ["BackdoorServer"]


class BackdoorServer(StreamServer):
    """Gives each client a prompt of Python: a way in for all who reach the address. ``locals``: the names it has.

    What a statement prints goes to the client; while it parks, the prints of other greenlets do, too.
    """

    def __init__(
        self, listener: Any, locals: dict[str, Any] | None = None, banner: str | None = None, **options: Any
    ) -> None:
        super().__init__(listener, **options)
        self.locals = locals or {}
        self.banner = banner

    def handle(self, sock: Any, address: Any) -> None:
        """Read statements and execute them, until the client closes or calls ``exit()``."""
        talk(sock, self.locals, self.banner)
