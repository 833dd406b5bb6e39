"""Clients and web pages that mean no good: none of them holds others up, takes all memory, or acts for the user."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dhaga import sleep, socket, spawn
from examples.notifications import line_protocol, websocket
from examples.notifications.server import NotificationServer
from examples.notifications.tokens import Tokens
from tests.examples.notifications.test_endpoints import Serve, ask, lines, say, until
from tests.kit.scripts import PATIENCE


def handshake(server: NotificationServer, *fields: bytes, host: bytes = b"") -> Any:
    """Connect, and ask for WebSocket. Returns: the socket; the answer is not read."""
    number = b"%s:%d" % (server.address[0].encode(), server.address[1])
    sock = socket.create_connection(server.address, PATIENCE)
    head = [b"GET /socket HTTP/1.1", b"Host: " + (host or number), b"Upgrade: websocket", b"Connection: Upgrade"]
    more = [b"Sec-WebSocket-Version: 13", b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="]
    sock.sendall(b"\r\n".join([*head, *more, *fields, b"", b""]))
    return sock


def read_to_the_end(sock: Any) -> bytes:
    data = b""
    with sock:
        while more := sock.recv(1 << 16):
            data += more
    return data


def masked(opcode: int, text: bytes, *, final: bool) -> bytes:
    return bytes([final << 7 | opcode, 128 | len(text)]) + b"\0\0\0\0" + text


# ---- what one client may cost


@pytest.mark.parametrize("piece", [b"", b"x"])
def test_a_command_in_very_many_frames_is_refused(serve: Serve, piece: bytes) -> None:
    sock = handshake(serve())
    try:
        sock.sendall(masked(1, b"{", final=False) + masked(0, piece, final=False) * 3000)
    except ConnectionError:  # it is refused by then
        pass
    assert b"more than 128 frames" in read_to_the_end(sock)


@pytest.mark.parametrize("kind", ["tcp", "websocket"])
def test_others_have_a_turn_between_two_commands(serve: Serve, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    server = serve()
    session: Any = line_protocol.Session if kind == "tcp" else websocket.WebSocketSession
    obey, turns, seen = session.obey, [0], []

    def note(self: Any, command: Any) -> None:
        seen.append(turns[0])
        obey(self, command)

    def take_turns() -> None:
        while len(seen) < 100:
            sleep(0)
            turns[0] += 1

    monkeypatch.setattr(session, "obey", note)
    other = spawn(take_turns)
    command = b"UNSUB b\n" if kind == "tcp" else masked(1, b"[]", final=True)
    sock = socket.create_connection(server.line_address, PATIENCE) if kind == "tcp" else handshake(server)
    with sock:
        sock.sendall(command * 100)
        other.join()
    assert len(set(seen)) > 90


@pytest.mark.parametrize("kind", ["tcp", "websocket"])
def test_a_client_that_does_not_read_gets_one_history_at_a_time(
    serve: Serve, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = serve()
    broker, asked = server.service.broker, []
    missed = broker.missed
    monkeypatch.setattr(broker, "missed", lambda *details: asked.append(1) or missed(*details))
    for _ in range(1000):
        say(server, "x" * 900)
    if kind == "tcp":
        sock, round = socket.create_connection(server.line_address, PATIENCE), b"SUB t 1-0\nUNSUB t\n"
    else:
        frames = [{"subscribe": "t", "after": "1-0"}, {"unsubscribe": "t"}]
        sock = handshake(server)
        round = b"".join(masked(1, json.dumps(each).encode(), final=True) for each in frames)
    with sock:
        sock.sendall(round * 5)
        until(lambda: asked)
        sleep(0.05)
        assert len(asked) < 4
        data, last = b"", b"OK t\n" if kind == "tcp" else b'{"unsubscribed": "t"}'
        while not (data.endswith(last) and data.count(last) == 5):
            data += sock.recv(1 << 20)
        assert (len(asked), data.count(b"x" * 900)) == (5, 5000)


# ---- strangers


def test_a_client_without_a_token_is_dropped_even_if_it_goes_on_sending(serve: Serve) -> None:
    server = serve(tokens=Tokens({"secret": "Ann"}), heartbeat=0.02)
    with socket.create_connection(server.line_address, PATIENCE) as sock, pytest.raises(ConnectionError):
        while True:
            sock.sendall(b"A")
            sleep(0.002)
            assert server.service.counts["silent"] or len(server.service.clients) < 2
    assert server.service.counts["silent"] == 1


# ---- pages of other sites, in the user's browser

EVIL = "http://evil.example"


@pytest.mark.parametrize("origin", [EVIL, "null", "http://127.0.0.1", "http://127.0.0.1:1"])
@pytest.mark.parametrize("path", ["/topics/a", "/events?topic=a", "/poll?topic=a", "/status"])
def test_a_page_of_another_site_has_no_access(serve: Serve, path: str, origin: str) -> None:
    status, said = ask(serve(), path, b"hello" if "topics" in path else None, Origin=origin)
    assert (status, said) == (403, "without --token, pages of other sites have no access\n")


def test_a_page_of_another_site_opens_no_websocket_and_our_own_does(serve: Serve) -> None:
    server = serve()
    with handshake(server, b"Origin: " + EVIL.encode()) as sock:
        assert sock.recv(100).startswith(b"HTTP/1.1 403 ")
    with handshake(server, b"Origin: http://%s:%d" % (b"127.0.0.1", server.address[1])) as sock:
        assert sock.recv(100).startswith(b"HTTP/1.1 101 ")


def test_a_page_cannot_speak_lines_by_a_post(serve: Serve) -> None:
    server = serve()
    answers = lines(server, b"POST / HTTP/1.1\r", b"Host: 127.0.0.1\r", b"\r", b"PUB a from a page")
    assert answers == [b"ERR 421 this is no port of HTTP"]
    assert server.service.broker.topics == {}
