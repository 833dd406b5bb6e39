"""``gevent.backdoor``: BackdoorServer, a Python prompt over TCP in the running program."""

from __future__ import annotations

from typing import Any

from .._shared.prompt import talk
from .server import StreamServer

__all__ = ["BackdoorServer"]


class BackdoorServer(StreamServer):
    """Gives each client a Python prompt: any client that reaches the address gets in. ``locals``: its names.

    The client gets the output of a statement; while the statement parks, also the output of other greenlets.
    """

    def __init__(
        self, listener: Any, locals: dict[str, Any] | None = None, banner: str | None = None, **options: Any
    ) -> None:
        super().__init__(listener, **options)
        self.locals: dict[str, Any] = locals or {}
        self.banner = banner

    def handle(self, sock: Any, address: Any) -> None:
        """Read statements and execute them, until the client closes or calls ``exit()``."""
        talk(sock, self.locals, self.banner)
