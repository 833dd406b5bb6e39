"""Frames: what passes, what is refused, and how much of it is read."""

from __future__ import annotations

import socket
import struct
import threading
import tracemalloc
from collections.abc import Iterator

import pytest

from examples.backup.wire import FRAME_LIMIT, Disconnected, Wire, WireError, pack, sign, unpack

Pair = tuple[Wire, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    """A wire, and the bare socket at its other end."""
    near, far = socket.socketpair()
    with near, far:
        near.settimeout(10)
        far.settimeout(10)
        yield Wire(near), far


def test_messages_come_as_they_were_sent_however_they_are_cut(pair: Pair) -> None:
    wire, far = pair
    messages: list[object] = [["have", [b"\0" * 32]], None, ["grüße"], b"", -(2**63), [b"x" * 500]]
    data = b"".join(struct.pack(">I", len(pack(message))) + pack(message) for message in messages)

    def send() -> None:
        for start in range(0, len(data), 7):
            far.sendall(data[start : start + 7])

    sender = threading.Thread(target=send)
    sender.start()
    received = [wire.receive() for _ in messages]
    sender.join()
    assert received == messages
    assert wire.received == len(data)


def test_what_is_sent_is_a_length_and_msgpack(pair: Pair) -> None:
    wire, far = pair
    wire.send(["ok", 7])
    assert far.recv(100) == b"\x00\x00\x00\x05\x92\xa2ok\x07"
    assert wire.sent == 9


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"\xc1", b"\x91", b"\x01\x02", b"\xa2\xff\xff", b"\xdd\xff\xff\xff\xff", b"\x91" * 5000),
        *(b"\x80", b"\x81\x01\x02", b"\xc7\x00\x01", b"\xd6\xff\0\0\0\0"),
    ],
    ids=[
        *("empty", "no type", "cut short", "two values", "bad text", "huge array", "deep"),
        *("map", "full map", "extension", "time"),
    ],
)
def test_bytes_that_are_not_msgpack_are_refused(pair: Pair, body: bytes) -> None:
    wire, far = pair
    far.sendall(struct.pack(">I", len(body)) + body)
    with pytest.raises(WireError, match="not msgpack"):
        wire.receive()


@pytest.mark.parametrize("value", [b"\x80", b"\x90", b"\xc7\x00\x01", b"\xa1x", b"\x91\x90"])
@pytest.mark.parametrize("nested", [False, True])
def test_a_small_frame_does_not_become_much_memory(value: bytes, nested: bool) -> None:
    count = 1_000_000 // len(value)
    parts = [b"\xdd" + struct.pack(">I", 40_000) + value * 40_000 for _ in range(count // 40_000)]
    bomb = b"\xdc" + struct.pack(">H", len(parts)) + b"".join(parts) if nested else b""
    bomb = bomb or b"\xdd" + struct.pack(">I", count) + value * count
    tracemalloc.start()
    with pytest.raises(WireError, match="not msgpack"):
        unpack(bomb)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 24 * len(bomb)


def test_what_the_longest_honest_frames_hold_is_taken() -> None:
    page = [["a" * 20, 7, b"", 3]] * 40_000
    assert unpack(pack(["ok", page])) == ["ok", page]


def test_an_over_long_frame_is_refused_by_its_length_alone(pair: Pair) -> None:
    wire, far = pair
    far.sendall(struct.pack(">I", FRAME_LIMIT + 1))
    with pytest.raises(
        WireError, match=f"over-long frame: {FRAME_LIMIT + 1} bytes announced, the limit is {FRAME_LIMIT}"
    ):
        wire.receive()


def test_an_over_long_message_is_not_sent_in_part(pair: Pair) -> None:
    wire, far = pair
    with pytest.raises(WireError, match="not sent"):
        wire.send(b"x" * FRAME_LIMIT)
    wire.send("next")
    assert far.recv(100) == b"\0\0\0\5\xa4next"


@pytest.mark.parametrize("sent", [b"", b"\0\0", b"\0\0\0\x09abc"])
def test_the_end_of_the_stream_is_no_frame(pair: Pair, sent: bytes) -> None:
    wire, far = pair
    far.sendall(sent)
    far.shutdown(socket.SHUT_WR)
    with pytest.raises(Disconnected):
        wire.receive()


def test_the_pace_is_asked_for_every_byte_both_ways() -> None:
    near, far = socket.socketpair()
    with near, far:
        asked: list[int] = []
        wire = Wire(near, asked.append, piece=1000)
        wire.send(b"x" * 2495)
        assert asked == [1000, 1000, 502]
        asked.clear()
        far.sendall(far.recv(5000))
        wire.receive()
        assert sum(asked) == 2502 and max(asked) <= 1000


def test_a_signature_depends_on_token_and_nonce() -> None:
    signatures = {sign("a", b"1"), sign("a", b"2"), sign("b", b"1"), sign("", b"1")}
    assert len(signatures) == 4
    assert sign("a", b"1") in signatures
