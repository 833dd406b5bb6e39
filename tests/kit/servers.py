"""Servers and clients for the tests of ``dhaga.servers``."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from dhaga import socket
from dhaga.servers import TCPServer

LOCAL = ("127.0.0.1", 0)


def echo(sock: Any, peer: Any) -> None:
    while data := sock.recv(1000):
        sock.sendall(data)


def hold(sock: Any, peer: Any) -> None:
    """Keep the connection until the client ends it."""
    sock.recv(1)


@contextlib.contextmanager
def serving(handler: Callable[..., object] = echo, address: Any = LOCAL, **options: Any) -> Iterator[TCPServer]:
    """Yield a server, which is stopped without grace."""
    server = TCPServer(handler, address, **options).start()
    try:
        yield server
    finally:
        server.stop(0)


@contextlib.contextmanager
def client(server: Any) -> Iterator[socket.socket]:
    address = getattr(server, "address", server)
    with socket.socket(socket.AF_UNIX) if isinstance(address, str) else socket.create_connection(address[:2]) as sock:
        if isinstance(address, str):
            sock.connect(address)
        yield sock


def ask(server: Any, question: bytes = b"hello") -> bytes:
    with client(server) as sock:
        sock.sendall(question)
        return sock.recv(1000)
