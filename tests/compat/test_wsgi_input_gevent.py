"""wsgi.input of gevent's pywsgi: a counted body, a body in chunks, and what is none."""

from __future__ import annotations

import io

import pytest

from dhaga.compat.gevent.pywsgi import MAX_REQUEST_LINE, Input
from dhaga.http.limits import Refusal

CHUNKS = b"3\r\nabc\r\n5;name=value\r\nd\nef\n\r\n0\r\nTrailer: x\r\n\r\n"


def counted(data: bytes, length: int | None) -> Input:
    return Input(io.BytesIO(data), length)


def chunked(data: bytes) -> Input:
    return Input(io.BytesIO(data), None, chunked_input=True)


def test_a_counted_body_ends_where_the_count_says() -> None:
    body = counted(b"one\ntwo\nthreeGET /", 13)
    assert (body.readline(), body.readline(2), body.read(3), body.read(), body.read()) == (
        *(b"one\n", b"tw", b"o\nt", b"hree", b""),
    )
    assert counted(b"GET /", None).read() == b""
    assert list(counted(b"a\nb\n", 4)) == counted(b"a\nb\n", 4).readlines() == [b"a\n", b"b\n"]


@pytest.mark.parametrize("method", ["read", "readline"])
def test_a_body_that_ends_too_early_is_an_oserror(method: str) -> None:
    with pytest.raises(OSError, match="middle of a body"):
        getattr(counted(b"abc", 4), method)()
    with pytest.raises(OSError, match="middle of a body"):
        getattr(chunked(b"3\r\nab"), method)()
    with pytest.raises(OSError, match="middle of a body"):
        getattr(chunked(b"1\r\na\r\n"), method)()


def test_chunks_are_one_body_whose_lines_may_cross_them() -> None:
    assert chunked(CHUNKS).read() == b"abcd\nef\n"
    assert list(chunked(CHUNKS)) == [b"abcd\n", b"ef\n"]
    body = chunked(CHUNKS)
    assert [body.read(2) for _ in range(6)] == [b"ab", b"cd", b"\ne", b"f\n", b"", b""]


def test_a_read_takes_no_byte_behind_its_last_one() -> None:
    file = io.BytesIO(CHUNKS + b"GET /")
    body = Input(file, None, chunked_input=True)
    assert body.read(3) == b"abc" and file.tell() == 6  # the line end may not have come yet
    body.discard()
    assert file.read() == b"GET /"


@pytest.mark.parametrize(
    "data",
    [
        b'{"x": 1}',
        b"-1\r\na\r\n",
        b"0x1\r\na\r\n",
        b"\r\na\r\n",
        b"1" * 17 + b"\r\n",
        b"1;" + b"x" * MAX_REQUEST_LINE + b"\r\na\r\n0\r\n\r\n",
        b"1\r\nab\r\n0\r\n\r\n",
        b"0\r\nGET / HTTP/1.1\r\n\r\n",
        b"0\r\nname :value\r\n\r\n",
        b"0\r\n" + b"name: x\r\n" * 3000,
        b"5\r\nhelloX\n0\r\n\r\n",
        b"5 5\r\nhello\r\n0\r\n\r\n",
        b"5\nhello\n0\n\n",
    ],
)
def test_what_is_no_chunk_is_the_clients_fault(data: bytes) -> None:
    with pytest.raises(Refusal):
        chunked(data).read()


class Client:
    def __init__(self) -> None:
        self.sent: list[bytes] = []

    def sendall(self, data: bytes) -> None:
        self.sent.append(data)


def test_the_first_read_says_100_continue_and_a_discard_does_not() -> None:
    client = Client()
    body = Input(io.BytesIO(b"ab"), 2, client)
    assert client.sent == [] and (body.read(1), body.read(1)) == (b"a", b"b")
    assert client.sent == [b"HTTP/1.1 100 Continue\r\n\r\n"]
    other = Client()
    Input(io.BytesIO(b"ab"), 2, other).discard()
    assert other.sent == []
