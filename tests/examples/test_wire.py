"""Frames: what passes, what is refused, and how much of it is read."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator

import pytest

from examples.backup.wire import FRAME_LIMIT, Wire, WireError, pack, sign

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


def test_an_over_long_frame_is_refused_by_its_length_alone(pair: Pair) -> None:
    wire, far = pair
    far.sendall(struct.pack(">I", FRAME_LIMIT + 1))
    with pytest.raises(
        WireError, match=f"over-long frame: {FRAME_LIMIT + 1} bytes announced, the limit is {FRAME_LIMIT}"
    ):
        wire.receive()


def test_a_signature_depends_on_token_and_nonce() -> None:
    signatures = {sign("a", b"1"), sign("a", b"2"), sign("b", b"1"), sign("", b"1")}
    assert len(signatures) == 4
    assert sign("a", b"1") in signatures
