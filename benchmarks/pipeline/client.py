"""A client of the backend: one call after the other over each of the connections that it keeps.

It is as small as a correct one can be, and the same for threads, dhagas and gevent's greenlets: they differ in their
module `socket`. For coroutines there is `asyncio_client.py`.
"""

from typing import Any

from httptools import HttpResponseParser

REQUEST = b"GET /call HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
RECEIVE = 4096  # bytes at once


class BackendError(OSError):
    """The backend has not answered as it should."""


class Answer:
    """What comes on one connection, made into answers. `complete` tells whether `body` is whole."""

    def __init__(self) -> None:
        self.parser = HttpResponseParser(self)
        self.begin()

    def begin(self) -> None:
        """Await the answer to another request."""
        self.body = b""
        self.complete = False

    def feed(self, data: bytes) -> None:
        """Parse what was received. Raises: BackendError at the end of the stream, and for a status other than 200."""
        if not data:
            raise BackendError("the backend has closed the connection")
        self.parser.feed_data(data)
        if self.complete and self.parser.get_status_code() != 200:
            raise BackendError(f"the backend answers with status {self.parser.get_status_code()}")

    def on_body(self, piece: bytes) -> None:
        self.body += piece

    def on_message_complete(self) -> None:
        self.complete = True


class Connection:
    """A connection that is kept, for one call at a time."""

    def __init__(self, sock: Any) -> None:
        self.sock = sock
        self.answer = Answer()

    def call(self) -> bytes:
        """Ask, and return the body of the answer. Waits as the socket does."""
        answer, sock = self.answer, self.sock
        answer.begin()
        sock.sendall(REQUEST)
        while not answer.complete:
            answer.feed(sock.recv(RECEIVE))
        return answer.body


def connected(sockets: Any, port: int) -> Any:
    """Connect to the backend; `sockets` is the module `socket` or one like it."""
    sock = sockets.create_connection(("127.0.0.1", port))
    sock.setsockopt(sockets.IPPROTO_TCP, sockets.TCP_NODELAY, 1)
    return sock


class BackendClient:
    """Calls of the backend, each over a connection that is free."""

    def __init__(self, sockets: Any, port: int) -> None:
        self.sockets = sockets
        self.port = port
        self.free: list[Connection] = []

    def call(self) -> bytes:
        """Make one call. Raises: OSError; then the connection is closed."""
        try:
            connection = self.free.pop()
        except IndexError:
            connection = Connection(connected(self.sockets, self.port))
        try:
            answer = connection.call()
        except BaseException:
            connection.sock.close()
            raise
        self.free.append(connection)
        return answer
