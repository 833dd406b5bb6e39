"""Clients and web pages that mean no good: none of them holds others up, takes all memory, or acts for the user."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from dhaga import sleep, socket, spawn
from examples.notifications import line_protocol, websocket
from examples.notifications.broker import DEFAULTS
from examples.notifications.client_protocols import PROTOCOLS
from examples.notifications.server import NotificationServer
from examples.notifications.tokens import Tokens
from tests.examples.notifications.test_endpoints import Serve, ask, lines, say, until


def handshake(server: NotificationServer, *fields: bytes, host: bytes = b"") -> Any:
    """Connect, and ask for WebSocket. Returns: the socket; the answer is not read."""
    number = b"%s:%d" % (server.address[0].encode(), server.address[1])
    sock = socket.create_connection(server.address, 10)
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


def test_a_command_in_some_frames_is_obeyed(serve: Serve) -> None:
    server = serve()
    sock = handshake(server)
    letters = [bytes([letter]) for letter in json.dumps({"subscribe": "a", "after": None}).encode()]
    frames = [masked(0, letter, final=False) for letter in letters]
    frames[0] = masked(1, letters[0], final=False)
    sock.sendall(b"".join(frames) + masked(0, b"", final=True) + masked(8, b"", final=True))
    assert b'{"subscribed": "a"' in read_to_the_end(sock)


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
    sock = socket.create_connection(server.line_address, 10) if kind == "tcp" else handshake(server)
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
        sock, round = socket.create_connection(server.line_address, 10), b"SUB t 1-0\nUNSUB t\n"
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


def test_a_client_that_is_dropped_while_it_waits_for_a_second_history_leaves_nothing(serve: Serve) -> None:
    server = serve()
    for _ in range(1000):
        say(server, "x" * 900)
    with socket.create_connection(server.line_address, 10) as sock:
        sock.sendall(b"SUB t 1-0\nUNSUB t\n" * 30)
        until(lambda: any(client.caught_up for client in server.service.clients))
        next(iter(server.service.clients)).drop()
        until(lambda: not server.service.clients)
    assert not server.service.broker.topics["t"].subscribers


# ---- strangers


def test_a_client_without_a_token_is_dropped_even_if_it_goes_on_sending(serve: Serve) -> None:
    server = serve(tokens=Tokens({"secret": "Ann"}), heartbeat=0.02)
    with socket.create_connection(server.line_address, 10) as sock, pytest.raises(ConnectionError):
        while True:
            sock.sendall(b"A")
            sleep(0.002)
            assert server.service.counts["silent"] or len(server.service.clients) < 2
    assert server.service.counts["silent"] == 1


def test_a_client_without_a_token_may_not_send_a_long_line(serve: Serve) -> None:
    server = serve(tokens=Tokens({"secret": "Ann"}))
    assert lines(server, b"x" * 300) == [b"ERR 401 a token is needed: begin with AUTH token"]
    assert lines(server, b"", b"", b"AUTH secret") == [b"ERR 401 a token is needed: begin with AUTH token"]
    with socket.create_connection(server.line_address, 10) as sock:
        sock.sendall(b"AUTH " + b"x" * 300)  # and no end of the line
        assert sock.recv(100).startswith(b"ERR 413")
    assert lines(server, b"AUTH secret", b"PUB t " + b"x" * 60_000, b"QUIT")[1].startswith(b"OK ")


def test_a_line_that_comes_byte_by_byte_is_read_once(serve: Serve) -> None:
    class Socket:
        """Gives one byte at a time."""

        def __init__(self, data: bytes) -> None:
            self.data = [data[place : place + 1] for place in range(len(data))]

        def recv(self, size: int) -> bytes:
            return self.data.pop(0) if self.data else b""

    found = line_protocol.lines_of(Socket(b"one\n\ntwo and more\nrest"), lambda: 100)
    assert list(found) == [b"one", b"", b"two and more"]


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


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "["])
def test_a_name_that_could_be_bound_to_this_server_is_refused(serve: Serve, host: str) -> None:
    assert ask(serve(), "/poll?topic=a", Host=host)[0] in (400, 403)


def test_the_own_page_publishes_and_with_tokens_any_host_and_origin_will_do(serve: Serve) -> None:
    server = serve()
    place = "{}:{}".format(*server.address)
    assert ask(server, "/topics/a", b"x", Origin=f"http://{place}")[0] == 200
    assert ask(server, "/topics/a", b"x", Host="localhost", Origin="https://localhost")[0] == 200
    guarded = serve(tokens=Tokens({"secret": "Ann"}))
    assert ask(guarded, "/topics/a?token=secret", b"x", Host="news.example", Origin=EVIL)[0] == 200


def test_a_page_cannot_speak_lines_by_a_post(serve: Serve) -> None:
    server = serve()
    answers = lines(server, b"POST / HTTP/1.1\r", b"Host: 127.0.0.1\r", b"\r", b"PUB a from a page")
    assert answers == [b"ERR 421 this is no port of HTTP"]
    assert server.service.broker.topics == {}


@pytest.mark.parametrize("kind", ["sse", "websocket"])
def test_a_get_with_a_body_is_refused_where_the_connection_is_taken_over(serve: Serve, kind: str) -> None:
    server = serve(limits=replace(DEFAULTS))
    request = PROTOCOLS[kind]("{}:{}".format(*server.address), "t", "").ask(None)
    with socket.create_connection(server.address, 10) as sock:
        sock.sendall(request.replace(b"\r\n\r\n", b"\r\nContent-Length: 5\r\n\r\nhello", 1))
        assert sock.recv(100).startswith(b"HTTP/1.1 400 ")
