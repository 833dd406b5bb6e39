"""Both ends of a WebSocket of version 13, over a pair of sockets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from dhaga import socket
from dhaga.compat import eventlet
from dhaga.compat.eventlet.websocket import ConnectionClosedError, ProtocolError, RFC6455WebSocket, WebSocket

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


def test_a_wait_that_was_cut_off_anywhere_is_continued_by_the_next(ends: tuple[Any, Any]) -> None:
    server, client = ends
    server._deflate(), client._deflate()
    data = client._pack_message("hello", masked=True)
    first = bytes([data[0] & 0x7F]) + data[1:]  # not the last frame of its message
    last = b"\x80\x80" + bytes(4)
    for end in range(len(data)):
        client.socket.sendall(first[:end])
        with eventlet.Timeout(0, False):
            server.wait()
            pytest.fail("a part of a message was taken for a whole one")
        client.socket.sendall(first[end:] + last)
        assert server.wait() == "hello"


def test_nothing_is_sent_after_a_part_of_a_frame() -> None:
    here, there = socket.socketpair()
    with here, there:
        server = RFC6455WebSocket(here, {})
        with eventlet.Timeout(0.01, False):
            server.send(b"x" * 10_000_000)
        assert server.websocket_closed
        with pytest.raises(BrokenPipeError):
            server.send("more")
        server.close()


def test_each_end_says_why_it_closes(ends: tuple[Any, Any]) -> None:
    server, client = ends
    client.close((1001, "going"))
    assert server.wait() is None and server._remote_close_data == b"\x03\xe9going"
    assert server.websocket_closed
    with pytest.raises(BrokenPipeError):
        server.send("late")


@pytest.mark.parametrize(
    ("sent", "answer"),
    [
        (b"", b""),
        (b"\x03\xe8", b"\x03\xe8"),
        (b"\x0f\xa0bye \xc3\xa9", b"\x0f\xa0"),
        (b"\x03", b"\x03\xeaa close frame"),
        (b"\x03\xed", b"\x03\xeaa close frame"),  # 1005
        (b"\x03\xee", b"\x03\xeaa close frame"),  # 1006
        (b"\x07\xd0", b"\x03\xeaa close frame"),  # 2000
        (b"\x03\xe8\xff", b"\x03\xeathe reason"),
    ],
)
def test_a_close_frame_is_answered_by_its_code_or_refused(ends: tuple[Any, Any], sent: bytes, answer: bytes) -> None:
    server, client = ends
    client._send_control(8, sent)
    assert server.wait() is None and server.websocket_closed and server._remote_close_data == sent
    with pytest.raises(ConnectionClosedError):
        client._recv_frame()
    assert client._remote_close_data[: len(answer)] == answer and bool(answer) is bool(client._remote_close_data)


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
