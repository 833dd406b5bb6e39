"""The body of a request, as eventlet's WSGI apps read it."""

from __future__ import annotations

import io
from typing import Any

import pytest

from dhaga.compat.eventlet._http_input import DISCARD_BYTES, ChunkReadError, Input, capitalized

CHUNKS = b"5\r\nline \r\nC;ext=1\r\none\nline two\r\n0\r\nTrailer: x\r\n\r\n"


def body(data: bytes, length: int | None = None, **options: Any) -> Input:
    return Input(io.BytesIO(data), length, None, **options)


@pytest.mark.parametrize(("data", "length"), [(CHUNKS, None), (b"line one\nline two" + b"next", 17)])
def test_it_reads_to_the_end_of_the_body_and_not_beyond(data: bytes, length: int | None) -> None:
    for read in (
        lambda file: file.read(),
        lambda file: b"".join(iter(lambda: file.read(3), b"")),
        lambda file: b"".join(file),
        lambda file: b"".join(file.readlines()),
        lambda file: b"".join(iter(lambda: file.readline(4), b"")),
    ):
        file = body(data, length)
        assert read(file) == b"line one\nline two" and file.at_end and file.read() == file.readline() == b""
    assert [*body(data, length)] == [b"line one\n", b"line two"]
    assert body(data, length).readlines(5) == [b"line one\n"]


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"cats\r\nmeow", ChunkReadError),
        (b"", ConnectionResetError),
        (b"-1\r\nx\r\n", ChunkReadError),
        (b"0x2\r\nab\r\n", ChunkReadError),
        (b"2\r\nabc\r\n", ChunkReadError),
        (b"5\r\nab", ConnectionResetError),
        (b"0\r\n" + b"T: x\r\n" * 20_000, ChunkReadError),
    ],
)
def test_chunks_that_are_malformed_or_cut_off_are_errors(data: bytes, error: type[Exception]) -> None:
    with pytest.raises(error):
        body(data).read()


def test_a_body_that_is_cut_off_is_an_error() -> None:
    with pytest.raises(ConnectionResetError):
        body(b"abc", 5).read()


def test_100_continue_is_sent_before_the_first_read_with_its_fields() -> None:
    sent: list[bytes] = []
    file = body(b"2\r\nab\r\n0\r\n\r\n2\r\ncd\r\n0\r\n\r\n", send=sent.append)
    file.set_hundred_continue_response_headers([("x-one", "1")])
    assert file.client_waits and file.was_declined and not file.discard()
    assert file.read() == b"ab" and sent == [b"HTTP/1.1 100 Continue\r\nX-One: 1\r\n\r\n"]
    file.send_hundred_continue_response()
    assert file.read() == b"cd" and len(sent) == 2 and not file.was_declined


def test_100_continue_is_not_sent_once_the_response_has_begun() -> None:
    sent: list[bytes] = []
    file = body(b"ab", 2, send=sent.append)
    file.response_has_begun()
    assert file.read() == b"ab" and sent == []


def test_a_body_is_discarded_up_to_a_bound() -> None:
    assert body(b"abc", 3).discard() and not body(bytes(DISCARD_BYTES + 1), DISCARD_BYTES + 1).discard()


def test_only_ascii_is_capitalized() -> None:
    assert capitalized("x-fIELD-\xdf-\xff") == "X-Field-\xdf-\xff"
