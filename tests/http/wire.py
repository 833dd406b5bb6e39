"""Bytes to and from an HTTP server, with no client between that would tidy them up."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from typing import Any

from dhaga import socket
from dhaga.http._server.request_parser import RequestParser
from dhaga.http.limits import Limits, Refusal
from dhaga.http.wsgi import Server

TEXT = [("Content-Type", "text/plain")]

Start = Callable[..., Any]


def get(path: str = "/", *fields: str, version: str = "1.1", method: str = "GET") -> bytes:
    """Return a request without a body."""
    lines = f"{method} {path} HTTP/{version}", "Host: x", *fields
    return "".join(f"{line}\r\n" for line in (*lines, "")).encode("latin-1")


def post(body: bytes, *fields: str, path: str = "/") -> bytes:
    return get(path, f"Content-Length: {len(body)}", *fields, method="POST") + body


def chunked(*chunks: bytes, end: bytes = b"0\r\n\r\n", path: str = "/") -> bytes:
    head = get(path, "Transfer-Encoding: chunked", method="POST")
    return head + b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks) + end


def to_the_end(sock: socket.socket) -> bytes:
    data = b""
    while more := sock.recv(65536):
        data += more
    return data


def ask(server: Server, *pieces: bytes) -> bytes:
    """Send, and return all that comes until the server closes; it is told that no more is sent."""
    with socket.create_connection(server.address) as sock:
        for piece in pieces:
            sock.sendall(piece)
        sock.shutdown(socket.SHUT_WR)
        return to_the_end(sock)


@contextlib.contextmanager
def serving(app: Any, **options: Any) -> Iterator[Server]:
    with Server(app, **options) as server:
        yield server


class Answer:
    """One response of those in ``data``; ``rest`` is what follows it."""

    def __init__(self, data: bytes, method: str = "GET") -> None:
        head, found, rest = data.partition(b"\r\n\r\n")
        assert found, f"no whole head in {data!r}"
        line, *fields = head.decode("latin-1").split("\r\n")
        self.version, self.status = line.split(" ", 1)
        self.fields = {name.lower(): value for name, value in (field.split(": ", 1) for field in fields)}
        self.body, self.rest = self.split(rest, method)

    def split(self, data: bytes, method: str) -> tuple[bytes, bytes]:
        if method == "HEAD" or self.status[:3] in ("204", "304"):
            return b"", data
        if "transfer-encoding" in self.fields:
            return dechunk(data)
        if "content-length" not in self.fields:
            return data, b""
        size = int(self.fields["content-length"])
        return data[:size], data[size:]


def dechunk(data: bytes) -> tuple[bytes, bytes]:
    body = b""
    while match := re.match(rb"([0-9a-f]+)\r\n", data):
        size, begin = int(match[1], 16), match.end()
        assert data[begin + size : begin + size + 2] == b"\r\n", data
        body += data[begin : begin + size]
        data = data[begin + size + 2 :]
        if not size:
            return body, data
    raise AssertionError(f"the last chunk is missing: {data!r}")


def answers(data: bytes) -> list[Answer]:
    found = []
    while data:
        found.append(Answer(data))
        data = found[-1].rest
    return found


# ---- the server's own parser

Parsed = tuple[list[tuple[str, str, bytes]], str]
"""The requests understood, as method, path and body, and the status of the refusal that ended them."""


def parse(segments: list[bytes], limits: Limits, host_required: bool = True) -> Parsed:
    """Feed a parser as a connection does, until it is refused, or closes after a request."""
    parser = RequestParser(limits, host_required)
    found: list[tuple[str, str, bytes]] = []
    environ: Any = None
    try:
        for segment in segments:
            parser.buffer += segment
            while parser.buffer:
                if environ is None:
                    environ = parser.head({})
                    if environ is None:
                        break
                elif not parser.complete:
                    parser.feed()
                if parser.complete:
                    found.append((environ["REQUEST_METHOD"], environ["PATH_INFO"], b"".join(parser.pieces)))
                    parser.pieces.clear()
                    environ = None
                    if not parser.persistent:
                        return found, ""
    except Refusal as refusal:
        return found, refusal.status
    return found, ""


# ---- apps


def hello(environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
    start_response("200 OK", list(TEXT))
    return [b"hello"]


def answer(app: Any, data: bytes = get(), **options: Any) -> Answer:
    with serving(app, **options) as server:
        return Answer(ask(server, data), data.split(b" ")[0].decode())


def returning(result: Any, *fields: tuple[str, str], status: str = "200 OK") -> Any:
    def app(environ: dict[str, Any], start_response: Callable[..., Any]) -> Any:
        start_response(status, [*TEXT, *fields])
        return result

    return app
