"""``eventlet.websocket``, with a real client and with frames by hand."""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from dhaga.compat import eventlet
from dhaga.compat.eventlet import websocket, wsgi
from dhaga.compat.eventlet._websocket_rfc6455 import unmasked

HEAD = (
    b"GET /chat HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: a, b\r\n\r\n"
)
MASK = b"mask"


def echo(ws: Any) -> None:
    while (message := ws.wait()) is not None:
        ws.send(message)


def end(server: Any) -> None:
    server.kill()
    with pytest.raises(eventlet.greenthread.GreenletExit):
        server.wait()


@contextmanager
def connected(head: bytes = HEAD, **options: Any) -> Iterator[tuple[Any, bytes]]:
    app = websocket.WebSocketWSGI(echo, **options)
    listener = eventlet.listen(("127.0.0.1", 0))
    server = eventlet.spawn(wsgi.server, listener, app, log=io.StringIO())
    client = eventlet.connect(listener.getsockname())
    client.settimeout(30)
    client.sendall(head)
    file = client.makefile("rb")
    answer = b"".join(iter(file.readline, b"\r\n"))
    try:
        yield file, answer
    finally:
        file.close()
        client.close()
        end(server)


@contextmanager
def talking(**options: Any) -> Iterator[Any]:
    app = websocket.WebSocketWSGI(echo, **options)
    listener = eventlet.listen(("127.0.0.1", 0))
    server = eventlet.spawn(wsgi.server, listener, app, log=io.StringIO())
    with eventlet.connect(listener.getsockname()) as client:
        client.settimeout(30)
        client.sendall(HEAD)
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += client.recv(1)
        yield client
    end(server)


def frame(opcode: int, data: bytes, final: bool = True, masked: bool = True) -> bytes:
    first = 0x80 * masked
    if len(data) < 126:
        size = bytes([first | len(data)])
    elif len(data) < 65_536:
        size = struct.pack("!BH", first | 126, len(data))
    else:
        size = struct.pack("!BQ", first | 127, len(data))
    return bytes([0x80 * final | opcode]) + size + (MASK + unmasked(data, MASK) if masked else data)


def received(client: Any, size: int) -> bytes:
    data = b""
    while len(data) < size and (more := client.recv(size - len(data))):
        data += more
    return data


def test_the_handshake_chooses_a_protocol() -> None:
    with connected(supported_protocols=["b"]) as (_, answer):
        assert answer.startswith(b"HTTP/1.1 101 ") and b"Sec-WebSocket-Protocol: b\r\n" in answer
        assert b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n" in answer  # the example of RFC 6455, 1.3


@pytest.mark.parametrize(
    ("word", "other"),
    [
        (b"13", b"8"),
        (b"websocket", b"h2c"),
        (b"Connection: Upgrade", b"X: y"),
        (b"Sec-WebSocket-Key:", b"Sec-WebSocket-Key1:"),
    ],
)
def test_another_request_is_refused(word: bytes, other: bytes) -> None:
    with connected(HEAD.replace(word, other)) as (_, answer):
        assert answer.startswith(b"HTTP/1.1 400 ")


def test_an_app_may_refuse_an_origin() -> None:
    asked: list[tuple[str | None, str]] = []

    def is_home(host: str | None, origin: str) -> bool:
        asked.append((host, origin))
        return origin == "http://home"

    app = websocket.WebSocketWSGI.configured(origin_checker=is_home, support_legacy_versions=False)(echo)
    environ = {"HTTP_UPGRADE": "websocket", "HTTP_CONNECTION": "Upgrade", "HTTP_HOST": "h"}
    environ |= {"HTTP_SEC_WEBSOCKET_VERSION": "13", "HTTP_SEC_WEBSOCKET_KEY": "k", "HTTP_ORIGIN": "http://elsewhere"}
    statuses: list[str] = []
    for each in (environ, environ | {"HTTP_ORIGIN": "http://home"}):  # the second one has no connection to take over
        assert app(each, lambda status, headers: statuses.append(status)) == []
    assert statuses == ["403 Forbidden", "400 Bad Request"]
    assert asked == [("h", "http://elsewhere"), ("h", "http://home")]


def test_messages_of_all_sizes_and_in_pieces_come_back() -> None:
    with talking() as client:
        for data in (b"", b"short", b"m" * 300, b"l" * 70_000):
            client.sendall(frame(2, data))
            expected = frame(2, data, masked=False)
            assert received(client, len(expected)) == expected
        client.sendall(frame(1, b"pie", final=False) + frame(9, b"ping") + frame(0, b"ces"))
        assert received(client, 6) == b"\x8a\x04ping" and received(client, 8) == b"\x81\x06pieces"
        client.sendall(frame(8, struct.pack("!H", 1000)))
        assert received(client, 4) == b"\x88\x02\x03\xe8"


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (frame(1, b"\xff"), 1007),
        (frame(1, b"too long"), 1009),
        (b"\x81\x02hi", 1002),
        (frame(0, b"x"), 1002),
        (frame(9, b"p", final=False), 1002),
        (b"\xc1\x80mask", 1002),
    ],
)
def test_what_breaks_the_rules_ends_the_connection(sent: bytes, code: int) -> None:
    with talking(max_frame_length=5) as client:
        client.sendall(sent)
        answer = received(client, 200)
        assert answer[0] == 0x88 and struct.unpack("!H", answer[2:4]) == (code,)
