"""The four endpoints of one server, each with real clients."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dhaga import offload, sleep, socket
from dhaga.testing import open_fds
from examples.notifications.broker import DEFAULTS
from examples.notifications.listener import Endpoint, Listener, start
from examples.notifications.messages import Id
from examples.notifications.server import NotificationServer
from examples.notifications.tokens import Tokens
from tests.kit.scripts import PATIENCE

KINDS = ("tcp", "sse", "websocket", "poll")
Serve = Callable[..., NotificationServer]


def until(done: Callable[[], Any]) -> None:
    """Let others run until something holds."""
    deadline = time.monotonic() + PATIENCE
    while not done():
        assert time.monotonic() < deadline, "it did not come"
        sleep(0.002)


def place(server: NotificationServer, kind: str, token: str = "") -> Endpoint:
    return Endpoint(kind, *(server.line_address if kind == "tcp" else server.address), token)


@contextmanager
def listening(server: NotificationServer, kind: str, topic: str = "t", **options: Any) -> Iterator[Any]:
    """A listener, and the texts that it hears; when the block begins, it knows the id that it listens after."""
    texts: list[str] = []
    token = options.pop("token", "")
    listener = Listener([place(server, kind, token)], topic, lambda item: texts.append(item["data"]), **options)
    thread = start(listener)
    try:
        until(lambda: listener.ready)
        yield listener, texts
    finally:
        listener.stop()
        thread.join()


def say(server: NotificationServer, text: str, topic: str = "t") -> Id:
    return server.service.publish(topic, text.encode())


def ask(server: NotificationServer, path: str, data: bytes | None = None, **headers: str) -> tuple[int, str]:
    """Make a request, as any program would. Returns: status and body."""
    request = urllib.request.Request("http://{}:{}".format(*server.address) + path, data, headers)
    try:
        with offload(urllib.request.urlopen, request, timeout=PATIENCE) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def lines(server: NotificationServer, *commands: bytes) -> list[bytes]:
    """Say lines, and return the answers until the server is done with us."""
    with socket.create_connection(server.line_address, PATIENCE) as sock:
        sock.sendall(b"\n".join(commands) + b"\n")
        answer = b""
        while more := sock.recv(1 << 16):
            answer += more
        return answer.splitlines()


# ---- messages


@pytest.mark.parametrize("kind", KINDS)
def test_messages_come_in_order_by_each_endpoint(serve: Serve, kind: str) -> None:
    server = serve()
    texts = [f'Grüße ✓ {number}\n\r\0 "quoted"' for number in range(50)] + ["", "x" * DEFAULTS.message]
    with listening(server, kind) as (_, heard):
        for text in texts:
            say(server, text)
        until(lambda: len(heard) == len(texts))
    assert heard == texts
    say(server, "lets the poll see that nobody waits for it")
    until(lambda: not any(server.service.status()["clients"].values()))


@pytest.mark.parametrize("kind", KINDS)
def test_after_a_cut_a_client_goes_on_where_it_was(serve: Serve, kind: str) -> None:
    server = serve()
    with listening(server, kind) as (listener, heard):
        say(server, "before")
        until(lambda: heard)
        listener.sock.shutdown(socket.SHUT_RDWR)
        for number in range(20):
            say(server, str(number))
            sleep(0.001)
        until(lambda: len(heard) >= 21)
        assert (listener.gaps, listener.connections) == (0, 2)
    assert heard == ["before", *map(str, range(20))]


@pytest.mark.parametrize("kind", KINDS)
def test_a_client_from_too_long_ago_is_told_of_a_gap(serve: Serve, kind: str) -> None:
    server = serve(limits=replace(DEFAULTS, history=2))
    for number in range(4):
        say(server, str(number))
    with listening(server, kind, last="1-0") as (listener, heard):
        until(lambda: len(heard) == 2)
        assert listener.gaps == 1
    assert heard == ["2", "3"]


@pytest.mark.parametrize("kind", KINDS)
def test_without_a_token_no_endpoint_opens_and_with_it_each_does(serve: Serve, kind: str, tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.write_text("# who may\n\nsecret:Ann\nother:Ben\n")
    server = serve(tokens=Tokens.read(file))
    with listening(server, kind, token="other") as (_, heard):
        for token in ("", "secre", "Ann"):
            stranger = Listener([place(server, kind, token)], "t", heard.append)
            with pytest.raises(ConnectionError, match="401"):
                stranger.listen(stranger.places[0], None)
        say(server, "hello")
        until(lambda: heard)
    assert heard == ["hello"]


@pytest.mark.parametrize("kind", ["tcp", "websocket", "sse"])
def test_a_client_that_does_not_answer_is_dropped_and_one_that_does_stays(serve: Serve, kind: str) -> None:
    server = serve(heartbeat=PATIENCE)
    service = server.service
    with listening(server, kind) as (listener, heard), socket.create_connection(server.line_address) as dead:
        (living,) = service.clients
        dead.sendall(b"SUB t\n")
        assert dead.recv(100).startswith(b"OK t ")
        asked = time.monotonic()
        for client in list(service.clients):  # a beat, and later the one after which silence is too long
            service.look_after(client, 0.0)
        if living.format.answers:
            until(lambda: living.heard > asked)
        for client in list(service.clients):
            service.look_after(client, asked)
        until(lambda: list(service.clients) == [living])
        assert (listener.connections, service.counts["silent"]) == (1, 1)
        say(server, "still there")
        until(lambda: heard)


def test_the_heart_drops_a_client_that_does_not_answer(serve: Serve) -> None:
    server = serve(heartbeat=0.02)
    with socket.create_connection(server.line_address) as dead:
        dead.sendall(b"SUB t\n")
        until(lambda: server.service.counts["silent"] == 1 and not server.service.clients)


@pytest.mark.parametrize("kind", KINDS)
def test_a_server_that_stops_ends_every_client_after_what_it_has_taken(serve: Serve, kind: str) -> None:
    server = serve()
    with listening(server, kind) as (listener, heard):
        for number in range(30):
            say(server, str(number))
        listener.stopping = True  # it does not come back
        server.stop()
        until(lambda: not listener.ready)
    assert kind == "poll" or heard == [str(number) for number in range(30)]


def test_two_hundred_clients_by_all_endpoints_and_nothing_is_left_of_them(serve: Serve) -> None:
    server = serve()
    sleep(0.01)  # its acceptors wait now, and the portable poller has its copies of their fds
    before, dhagas = len(open_fds()), server.details()["dhagas"]
    heard: list[str] = []
    crowd = [Listener([place(server, KINDS[number % 4])], "t", heard.append) for number in range(200)]
    threads = [start(listener) for listener in crowd]
    until(lambda: all(listener.ready for listener in crowd))
    # A poll that has been told where it is has yet to ask what came after that.
    until(lambda: server.service.status()["clients"] == {"lines": 50, "events": 50, "websocket": 50, "polls": 50})
    say(server, "all")
    until(lambda: len(heard) == 200)
    for listener in crowd:
        listener.stop()
    for thread in threads:
        thread.join()
    say(server, "wakes the polls")
    until(lambda: server.details()["dhagas"] == dhagas)
    assert len(open_fds()) == before
    assert not server.service.clients and not server.service.polls


# ---- HTTP


def test_posting_gives_an_id_and_polling_brings_the_message(serve: Serve) -> None:
    server = serve()
    status, body = ask(server, "/topics/news", "Grüße".encode())
    id = json.loads(body)["id"]
    assert status == 200
    assert json.loads(ask(server, f"/poll?topic=news&after={server.service.broker.floor}")[1]) == {
        "messages": [{"id": id, "topic": "news", "data": "Grüße"}],
        "last": id,
        "gap": False,
    }
    assert json.loads(ask(server, f"/poll?topic=news&after={id}&wait=0")[1])["messages"] == []


def test_a_long_poll_waits_for_the_message_and_ends_empty_in_time(serve: Serve) -> None:
    server = serve()
    path = f"/poll?topic=a&topic=b&after={server.service.broker.last}"
    assert json.loads(ask(server, path + "&wait=0.01")[1])["messages"] == []
    with listening(server, "poll", "b") as (_, heard):
        until(lambda: server.service.polls)
        say(server, "now", "b")
        until(lambda: heard == ["now"])


def test_one_stream_of_events_brings_several_topics(serve: Serve) -> None:
    server = serve()
    first = say(server, "1", "a")
    say(server, "2", "b")
    with socket.create_connection(server.address, PATIENCE) as sock:
        sock.sendall(
            b"GET /events?topic=a&topic=b HTTP/1.1\r\nHost: localhost\r\nLast-Event-ID: %s\r\n\r\n"
            % str(first).encode()
        )
        until(lambda: server.service.clients)
        say(server, "3", "a")
        data = b""
        while b'"3"' not in data:
            data += sock.recv(10_000)
    assert [data.count(b'"data": "%d"' % number) for number in (1, 2, 3)] == [0, 1, 1]


def test_a_client_that_only_writes_learns_that_it_was_cut_off(serve: Serve) -> None:
    server = serve(limits=replace(DEFAULTS, queue=3))
    with socket.create_connection(server.line_address) as sock:
        sock.settimeout(PATIENCE)
        sock.sendall(b"SUB t\n")
        with pytest.raises((ConnectionResetError, BrokenPipeError)):
            while True:
                sock.sendall(b"PUB t " + b"x" * 60_000 + b"\n")
    until(lambda: not server.service.clients)
