"""Both ends of a WebSocket of version 13, over a pair of sockets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from dhaga import socket
from dhaga.compat import eventlet
from dhaga.compat.eventlet.websocket import ProtocolError, RFC6455WebSocket, WebSocket

DEFLATE = {"permessage-deflate": {"client_no_context_takeover": False, "server_no_context_takeover": True}}


@pytest.fixture(params=[None, DEFLATE])
def ends(request: pytest.FixtureRequest) -> Iterator[tuple[RFC6455WebSocket, RFC6455WebSocket]]:
    here, there = socket.socketpair()
    with here, there:
        yield (
            RFC6455WebSocket(here, {}, extensions=request.param, max_frame_length=100_000),
            RFC6455WebSocket(there, {}, client=True, extensions=request.param),
        )


def test_messages_go_both_ways(ends: tuple[Any, Any]) -> None:
    for sender, receiver in (ends, ends[::-1]):
        for message in ("", "text é", b"", bytes(range(256)), b"x" * 70_000):
            sending = eventlet.spawn(sender.send, message)
            assert receiver.wait() == message
            sending.wait()
    assert isinstance(ends[0], WebSocket)


def test_each_end_says_why_it_closes(ends: tuple[Any, Any]) -> None:
    server, client = ends
    client.close((1001, "going"))
    assert server.wait() is None and server._remote_close_data == b"\x03\xe9going"
    assert server.websocket_closed
    with pytest.raises(BrokenPipeError):
        server.send("late")


def test_a_message_beyond_the_limit_ends_the_connection(ends: tuple[Any, Any]) -> None:
    server, client = ends
    sending = eventlet.spawn(client.send, b"x" * 100_001)
    assert server.wait() is None
    sending.wait()
    client.websocket_closed = False
    assert client.wait() is None and client._remote_close_data[:2] == b"\x03\xf1"
    assert b"above length limit" in client._remote_close_data


def test_what_a_server_sends_is_not_masked(ends: tuple[Any, Any]) -> None:
    server, client = ends
    server.client = True
    server.send(b"masked")
    with pytest.raises(ProtocolError, match="masked"):
        client._recv_frame()


def test_the_drafts_before_version_13_say_that_they_are_not_here() -> None:
    with pytest.raises(NotImplementedError, match="draft 76"):
        WebSocket(None, {})


def test_small_frames_without_end_let_others_run() -> None:
    here, there = socket.socketpair()
    with here, there:
        server = RFC6455WebSocket(here, {})
        server._buf += b"\x01\x80aaaa" + b"\x00\x80aaaa" * 200_000 + b"\x80\x80aaaa"
        waiting = eventlet.spawn(server.wait)
        turns = 0
        while not waiting.dead:
            eventlet.sleep(0)
            turns += 1
        assert waiting.wait() == "" and turns > 5
