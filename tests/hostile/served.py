"""What the attacked servers serve: WSGI apps, and an echo that computes (``python -m tests.hostile.served PORT``)."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any

from dhaga.servers import TCPServer

WORK_SECONDS = 0.0005
"""What a request or a piece costs: without it the attacker, in Python too, is no faster than what it attacks."""

BIG = [bytes(1 << 16)] * 128


def app(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    while environ["wsgi.input"].read(1 << 16):
        pass
    work()
    start_response("200 OK", [("Content-Type", "text/plain")])
    return iter(BIG) if environ["PATH_INFO"] == "/big" else [b"ok"]


def chat(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """Echo the messages of a WebSocket; answer other requests as ``app`` does."""
    if "HTTP_UPGRADE" not in environ:
        return app(environ, start_response)
    from simple_websocket import ConnectionClosed, Server

    with contextlib.suppress(ConnectionClosed):
        echo_messages(Server.accept(environ))
    return []


def echo_messages(websocket: Any) -> None:
    while True:
        message = websocket.receive()
        work()
        websocket.send(message)


def work() -> None:
    end = time.perf_counter() + WORK_SECONDS
    while time.perf_counter() < end:
        pass


def echo(sock: Any, peer: object) -> None:
    with contextlib.suppress(ConnectionError):  # the attacker is killed in the end
        echo_pieces(sock)


def echo_pieces(sock: Any) -> None:
    while data := sock.recv(4096):
        work()
        if not data.startswith(b"sink"):
            sock.sendall(data)


if __name__ == "__main__":
    TCPServer(echo, ("127.0.0.1", int(sys.argv[1]))).serve_forever()
