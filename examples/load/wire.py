"""A connection over which requests go one after the other, and their answers come. HTTP/1.1 by httptools (llhttp).

Not here: what makes a request, and what is made of an answer (`light_client.py`).
"""

from __future__ import annotations

import functools
import select
from typing import Any, NamedTuple

from dhaga import socket, ssl
from examples._late import Late

httptools: Any = Late("httptools")

PIECE = 65536  # bytes read at once
NEVER_A_BODY = (204, 304)


class Endpoint(NamedTuple):
    """Where a connection leads."""

    scheme: str
    host: str
    port: int
    verify: bool | str = True


class CutOff(ConnectionResetError):
    """The other side has closed before the answer was whole; `begun`: some of it had come."""

    def __init__(self, begun: bool) -> None:
        super().__init__("connection closed amid an answer" if begun else "connection closed without an answer")
        self.begun = begun


class Received:
    """An answer as it comes in; httptools calls the methods."""

    def __init__(self, method: str) -> None:
        self.has_no_body = method == "HEAD"
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self.pieces: list[bytes] = []
        self.whole = False
        self.keeps = False
        self.parser: Any = httptools.HttpResponseParser(self)

    def on_message_begin(self) -> None:
        """Forget an interim answer, such as 100."""
        self.headers, self.pieces = [], []

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header."""
        self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        """Know the status; the head of a page is all there is to come for HEAD."""
        self.status = self.parser.get_status_code()
        if self.has_no_body and self.status >= 200:
            self.end()

    def on_body(self, piece: bytes) -> None:
        """Take some of the body."""
        self.pieces.append(piece)

    def on_message_complete(self) -> None:
        """Be whole, unless it was an interim answer."""
        if self.status >= 200:
            self.end()

    def end(self) -> None:
        self.whole = True
        self.keeps = self.parser.should_keep_alive()

    def feed(self, data: bytes) -> None:
        """Take what was read; nothing is the end of the connection. Raises: CutOff."""
        if data:
            self.parser.feed_data(data)
        elif self.ends_with_connection():
            self.whole = True
        else:
            raise CutOff(bool(self.status))

    def ends_with_connection(self) -> bool:
        """Return whether the body has no end but that of the connection (RFC 9112, 6.3)."""
        names = {name.lower() for name, _ in self.headers}
        return self.status >= 200 and not names & {b"content-length", b"transfer-encoding"}


class Connection:
    """A connection to one place."""

    def __init__(self, place: Endpoint) -> None:
        sock: Any = socket.create_connection((place.host, place.port))
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if place.scheme == "https":
                sock = context(place.verify).wrap_socket(sock, server_hostname=place.host)
        except BaseException:
            sock.close()
            raise
        self.sock = sock

    def exchange(self, method: str, request: bytes) -> Received:
        """Send a request and read the answer. Parks: `write fd N`, `read fd N`. Raises: OSError, CutOff."""
        self.sock.sendall(request)
        received = Received(method)
        while not received.whole:
            received.feed(self.sock.recv(PIECE))
        return received

    def is_quiet(self) -> bool:
        """Return whether nothing has come since the last answer: not even the end, as if the other side had hung up."""
        look = select.poll()
        look.register(self.sock, select.POLLIN)
        return not look.poll(0)

    def close(self) -> None:
        """Hang up."""
        self.sock.close()


@functools.cache
def context(verify: bool | str) -> Any:
    """Make the TLS context for all connections; `verify`: whether to check certificates, or a file of authorities."""
    made = ssl.create_default_context(cafile=verify if isinstance(verify, str) else None)
    if not verify:
        made.check_hostname = False
        made.verify_mode = ssl.CERT_NONE
    return made
