"""WebSockets of the drafts before the RFC."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from dhaga.compat import eventlet
from dhaga.compat.eventlet import websocket, wsgi

HEAD = "GET /chat?a HTTP/1.1\r\nHost: h\r\nUpgrade: WebSocket\r\nConnection: Upgrade\r\nOrigin: http://o\r\n"
# The example of draft 76, 1.3.
KEYS = "Sec-WebSocket-Key1: 4 @1  46546xW%0l 1 5\r\nSec-WebSocket-Key2: 12998 5 Y3 1  .P00\r\n"
THIRD, ANSWER = b"^n:ds[4U", b"8jKS'y:G*Co,Wxa-"


def echo(ws: Any) -> None:
    while (message := ws.wait()) is not None:
        ws.send(message)


@contextmanager
def connected(head: bytes, handler: Any = echo) -> Iterator[Any]:
    listener = eventlet.listen(("127.0.0.1", 0))
    app = websocket.WebSocketWSGI(handler, max_frame_length=100)
    server = eventlet.spawn(wsgi.server, listener, app, log=io.StringIO())
    with eventlet.connect(listener.getsockname()) as client:
        client.settimeout(30)
        client.sendall(head)
        yield client
    server.kill()
    with pytest.raises(eventlet.greenthread.GreenletExit):
        server.wait()


def received(client: Any, end: bytes) -> bytes:
    data = b""
    while not data.endswith(end) and (more := client.recv(1)):
        data += more
    return data


def test_draft_76_answers_the_keys_and_closes_by_a_frame() -> None:
    with connected(f"{HEAD}{KEYS}Sec-WebSocket-Protocol: p\r\n\r\n".encode() + THIRD + b"\x00early\xff") as client:
        head = received(client, b"\r\n\r\n").decode()
        assert head.startswith("HTTP/1.1 101 ") and "Sec-WebSocket-Location: ws://h/chat?a\r\n" in head
        assert "Sec-WebSocket-Origin: http://o\r\nSec-WebSocket-Protocol: p\r\n" in head
        assert received(client, ANSWER) == ANSWER and received(client, b"\xff") == b"\x00early\xff"
        client.sendall("\x00é".encode())
        client.sendall(b"\xff\xff\x00")
        assert received(client, b"\xff\x00") == "\x00é".encode() + b"\xff\xff\x00" and client.recv(1) == b""


def test_draft_75_has_no_keys() -> None:
    with connected(f"{HEAD}\r\n".encode(), lambda ws: ws.send(7)) as client:
        assert b"\r\nWebSocket-Location: ws://h/chat?a\r\n" in received(client, b"\r\n\r\n")
        assert received(client, b"\xff") == b"\x007\xff" and client.recv(1) == b""


@pytest.mark.parametrize("keys", [KEYS.partition("\n")[0] + "\n", KEYS.replace(" 1 5", " 1 6"), KEYS.replace(" ", "_")])
def test_malformed_keys_are_refused(keys: str) -> None:
    with connected(f"{HEAD}{keys}\r\n".encode() + THIRD) as client:
        assert received(client, b"\n") == b"HTTP/1.1 400 Bad Request\r\n"


@pytest.mark.parametrize("sent", [b"\x80\x01x", b"\x00" + b"x" * 200])
def test_what_is_no_message_is_an_error_of_the_handler(sent: bytes) -> None:
    errors: list[Exception] = []

    def handler(ws: Any) -> None:
        try:
            ws.wait()
        except ValueError as error:
            errors.append(error)

    with connected(f"{HEAD}\r\n".encode(), handler) as client:
        received(client, b"\r\n\r\n")
        client.sendall(sent)
        assert client.recv(1) == b"" and len(errors) == 1
