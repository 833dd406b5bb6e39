"""What stands in for `dhaga.servers.TCPServer` where there are only standard modules: a thread for each connection.

For the comparison alone: of the server's features it has those that the line protocol needs.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from typing import Any, Self


class Server:
    """Call `handler(sock, peer)` for each connection, in a thread of its own; the socket is closed when it returns."""

    def __init__(
        self, handler: Callable[[Any, Any], object], address: tuple[str, int], *, max_connections: int, name: str
    ) -> None:
        self.handler = handler
        self.listener = socket.create_server(address, backlog=1024)
        self.address: Any = self.listener.getsockname()
        self.permits = threading.Semaphore(max_connections)
        self.acceptor = threading.Thread(target=self.accept, name=name, daemon=True)

    def start(self) -> Self:
        """Accept from now on."""
        self.acceptor.start()
        return self

    def accept(self) -> None:
        """Start a thread for each connection, until the listener is closed."""
        try:
            while self.permits.acquire():
                sock, peer = self.listener.accept()
                threading.Thread(target=self.serve, args=(sock, peer), daemon=True).start()
        except OSError:
            pass

    def serve(self, sock: socket.socket, peer: Any) -> None:
        """Handle one connection."""
        try:
            with sock:
                self.handler(sock, peer)
        finally:
            self.permits.release()

    def stop(self, timeout: float | None = None) -> None:
        """Accept no more; the handlers end with their clients, or with the process."""
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
