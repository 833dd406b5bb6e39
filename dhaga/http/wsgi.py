"""Server: a WSGI server. It calls a plain WSGI app (PEP 3333) for each request of HTTP/1.1, in the connection's dhaga.

Flask and Django apps run unchanged; what they call of Dhaga parks and holds up nobody else. A client that is slow, or
silent, costs one parked dhaga, until its time is over (``limits.Limits``). Processes and signals: ``dhaga serve``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any

from ..listeners import Address
from ..servers import Connection, TCPServer
from ..socket import AF_INET, AF_INET6, IPPROTO_TCP, TCP_NODELAY, socket
from .accesslog import AccessLog
from .conversations import Conversation
from .limits import Limits
from .responses import FileWrapper, Stamp

App = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]

SOFTWARE = "dhaga"


class Server(TCPServer):
    """Serve a WSGI app over HTTP/1.1. ``options`` are those of ``TCPServer``.

    ``limits``: sizes and times, see ``limits.Limits``; ``access_log``: True (the logger ``dhaga.access``), a logger,
    a text file or a function that takes a line; ``multiprocess``: tell the app that other processes serve it, too.
    In the environ, besides PEP 3333's: ``dhaga.upgrade()`` takes the connection over, and returns its socket and what
    was received already (for WebSocket, say); ``dhaga.disconnected()`` tells whether the client has left. An app hears
    of that by itself when it writes or reads, so a long poll waits in bounds, and looks between.
    """

    def __init__(
        self,
        app: App,
        address: Address = ("127.0.0.1", 0),
        *,
        limits: Limits = Limits(),  # noqa: B008  (frozen)
        access_log: Any = None,
        multiprocess: bool = False,
        name: str = "http",
        **options: Any,
    ) -> None:
        if not callable(app):
            raise TypeError(f"a WSGI app is called with environ and start_response; {app!r} cannot be called")
        super().__init__(self.serve, address, name=name, **options)
        self.app = app
        self.limits = limits
        self.access_log = AccessLog(access_log) if access_log else None
        self.multiprocess = multiprocess
        self.stamp = Stamp(SOFTWARE)
        self.bases: dict[Any, dict[str, Any]] = {}
        self.conversations: dict[Any, Conversation] = {}

    def serve(self, sock: socket, peer: Any) -> None:
        """Hold the conversation on one connection."""
        if sock.family in (AF_INET, AF_INET6):
            sock.setsockopt(IPPROTO_TCP, TCP_NODELAY, 1)  # a piece of a response waits for no acknowledgement
        conversation = Conversation(self, sock, peer)
        self.conversations[conversation.me] = conversation
        try:
            conversation.converse()
        finally:
            del self.conversations[conversation.me]

    def release(self, connection: Connection) -> None:
        """End conversations that are idle; the others end with the response that is under way."""
        conversation = self.conversations.get(connection)
        if conversation is not None:
            conversation.release()

    def base_environ(self, sock: socket) -> dict[str, Any]:
        """Return what all requests at the socket's own address have in common."""
        address = sock.getsockname()
        base = self.bases.get(address)
        if base is None:
            base = self.bases[address] = self.new_base(address)
        return base

    def new_base(self, address: Any) -> dict[str, Any]:
        scheme = "http" if self.ssl_context is None else "https"
        host, port = address[:2] if isinstance(address, tuple) else ("localhost", 443 if self.ssl_context else 80)
        return {
            "SCRIPT_NAME": "",
            "SERVER_NAME": host,
            "SERVER_PORT": str(port),
            "SERVER_SOFTWARE": SOFTWARE,
            "wsgi.version": (1, 0),
            "wsgi.url_scheme": scheme,
            "wsgi.errors": sys.stderr,
            "wsgi.multithread": True,
            "wsgi.multiprocess": self.multiprocess,
            "wsgi.run_once": False,
            "wsgi.input_terminated": True,
            "wsgi.file_wrapper": FileWrapper,
        }
