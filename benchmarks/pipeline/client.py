"""A client of the backend, which makes one call after another over each of its kept connections.

The client is as small as a correct client can be. Threads, dhagas and gevent's greenlets use the same code with
different modules `socket`. The client for coroutines is in `asyncio_client.py`.
"""

from typing import Any

from httptools import HttpResponseParser

REQUEST = b"GET /call HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
RECEIVE = 4096  # bytes per recv()


class BackendError(OSError):
    """Raised for a wrong answer of the backend."""


class Answer:
    """Parser of the answers on one connection. `complete`: whether `body` is complete."""

    def __init__(self) -> None:
        self.parser = HttpResponseParser(self)
        self.begin()

    def begin(self) -> None:
        """Reset the parser for the answer to the next request."""
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
    """A kept connection, for one call at a time."""

    def __init__(self, sock: Any) -> None:
        self.sock = sock
        self.answer = Answer()

    def call(self) -> bytes:
        """Send a request, and return the body of the answer. The socket determines how the caller waits."""
        answer, sock = self.answer, self.sock
        answer.begin()
        sock.sendall(REQUEST)
        while not answer.complete:
            answer.feed(sock.recv(RECEIVE))
        return answer.body


def connected(sockets: Any, port: int) -> Any:
    """Return a connection to the backend. `sockets`: the module `socket`, or a module with the same API."""
    sock = sockets.create_connection(("127.0.0.1", port))
    sock.setsockopt(sockets.IPPROTO_TCP, sockets.TCP_NODELAY, 1)
    return sock


class BackendClient:
    """A client that makes each call to the backend over a free connection."""

    def __init__(self, sockets: Any, port: int) -> None:
        self.sockets = sockets
        self.port = port
        self.free: list[Connection] = []

    def call(self) -> bytes:
        """Make one call. Raises: OSError, after closing the connection."""
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
