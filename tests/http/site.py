"""Sites on dhagas for HTTP clients to ask: what they answer, and whom they have seen, the tests say and see."""

from __future__ import annotations

import dataclasses
import email
from collections.abc import Callable
from typing import Any, Self

import dhaga
from dhaga import socket
from dhaga.servers import TCPServer
from dhaga.threading import Event


@dataclasses.dataclass
class Request:
    """What a client has asked for."""

    method: str
    target: str
    headers: Any
    body: bytes


def read(stream: Any) -> Request | None:
    """Read a request; None at the end of the connection."""
    line = stream.readline()
    if not line:
        return None
    method, target, _ = line.decode().split()
    head = b"".join(iter(stream.readline, b"\r\n"))
    headers = email.message_from_bytes(head)
    if headers["Transfer-Encoding"] == "chunked":
        body = b"".join(iter(lambda: read_chunk(stream), b""))
    else:
        body = stream.read(int(headers["Content-Length"] or 0))
    return Request(method, target, headers, body)


def read_chunk(stream: Any) -> bytes:
    size = int(stream.readline(), 16)
    chunk: bytes = stream.read(size)
    stream.readline()
    return chunk


def answer(body: bytes = b"", status: str = "200 OK", **headers: str) -> bytes:
    """Make an answer; ``Set_Cookie`` stands for ``Set-Cookie``."""
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + body


Page = Callable[[Request], bytes | None]
"""Returns the answer; None: it has written to ``Site.sock`` itself, or ends the connection."""


class Site:
    """A server whose pages are functions; it notes its connections and what it was asked for."""

    def __init__(self, pages: dict[str, Page] | None = None, **options: Any) -> None:
        self.pages = pages or {}
        self.server = TCPServer(self.serve, **options)
        self.scheme = "https" if options.get("ssl_context") else "http"
        self.connections = 0
        self.requests: list[Request] = []

    def __enter__(self) -> Self:
        self.server.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.stop(0)

    @property
    def port(self) -> int:
        return self.server.address[1]

    def url(self, path: str = "/", host: str = "127.0.0.1") -> str:
        return f"{self.scheme}://{host}:{self.port}{path}"

    def serve(self, sock: socket.socket, peer: Any) -> None:
        self.connections += 1
        try:
            with sock.makefile("rb") as stream:
                while request := read(stream):
                    self.requests.append(request)
                    self.reply(sock, request)
        except (OSError, ValueError):  # the client has gone
            pass

    def reply(self, sock: Any, request: Request) -> None:
        page = self.pages.get(request.target, echo)
        data = page(request)
        if data is None:
            raise ConnectionError("the page has ended the connection")
        sock.sendall(data)


def echo(request: Request) -> bytes:
    """Answer with what was sent, or with the path."""
    return answer(request.body or request.target.encode())


class Gathering:
    """A page that answers once as many are asking for it at the same time as are expected."""

    def __init__(self, expected: int) -> None:
        self.missing = expected
        self.complete = Event()

    def __call__(self, request: Request) -> bytes:
        self.missing -= 1
        if not self.missing:
            self.complete.set()
        self.complete.wait()
        return answer(b"all")


class Proxy(Site):
    """A proxy: it fetches nothing itself for ``http``, and tunnels what is asked for by CONNECT."""

    def reply(self, sock: Any, request: Request) -> None:
        if request.method != "CONNECT":
            sock.sendall(answer(f"by proxy: {request.target}".encode()))
            return
        host, _, port = request.target.partition(":")
        with socket.create_connection((host, int(port))) as far:
            sock.sendall(b"HTTP/1.1 200 connected\r\n\r\n")
            back = dhaga.spawn(relay, far, sock, daemon=True)
            try:
                relay(sock, far)
            finally:
                back.cancel()
        raise ConnectionError("the tunnel has ended")


def relay(source: Any, sink: Any) -> None:
    """Pass on what comes, until one side ends."""
    try:
        while data := source.recv(65536):
            sink.sendall(data)
    except OSError:
        pass
    finally:
        try:
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass
