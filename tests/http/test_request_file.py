"""Requests read from a file: nothing beyond the message is taken, and nothing waits that can be refused now."""

from __future__ import annotations

import io
from functools import partial
from typing import Any

import pytest

import dhaga
from dhaga import socket
from dhaga.http._server.request_file import FileBody, FileHead, LineTooLong, environ_key
from dhaga.http.limits import Limits, Refusal

CHUNKS = b"3\r\nabc\r\n5;name=value\r\nd\nef\n\r\n0\r\nTrailer: x\r\n\r\n"
LINE = b"POST / HTTP/1.1\r\n"


class Trickle(io.BytesIO):
    """A client that sends no more than there is: a read beyond it would wait for ever."""

    def readline(self, size: int | None = -1, /) -> bytes:
        assert self.tell() < len(self.getvalue()), "waits for a line"
        return super().readline(size)


def head(data: bytes, line: bytes = LINE, **options: Any) -> FileHead:
    return FileHead(Trickle(data), line, Limits(), **options)


def test_a_head_leaves_the_body_in_the_file() -> None:
    file = io.BytesIO(b"Host: x\r\nContent-Length: 3\r\nA:\r\n\r\nabc")
    found = FileHead(file, LINE, Limits())
    assert found.fields == [("Host", "x"), ("Content-Length", "3"), ("A", "")] and file.read() == b"abc"
    assert (found.length, found.persistent, found.expects_continue) == (3, True, False)
    assert head(b"Transfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n").length is None
    assert not head(b"Connection: close\r\n\r\n").persistent


@pytest.mark.parametrize(
    ("line", "rest", "error"),
    [
        (b"GET / HTTP %\r\n", b"", Refusal),
        (b"\r\n", b"", Refusal),
        (b"GET / HTTP/1.1\n", b"", Refusal),
        (LINE, b"A: b\n", Refusal),
        (LINE, b"A: " + b"b" * 8200 + b"\r\n", LineTooLong),
        (LINE, b"A: b\r\n" * 101, Refusal),
        (LINE, (b"A: " + b"b" * 8000 + b"\r\n") * 9, Refusal),
    ],
)
def test_a_malformed_head_is_refused_before_its_end_has_come(line: bytes, rest: bytes, error: type[Exception]) -> None:
    with pytest.raises(error):
        head(rest, line)


def test_lines_may_be_changed_before_they_are_parsed() -> None:
    both = b"Content-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n"
    with pytest.raises(Refusal):
        head(both)
    found = head(both, edit=lambda lines: [line for line in lines if b"Length" not in line])
    assert found.length is None and found.fields == [("Transfer-Encoding", "chunked")]


def test_a_client_that_leaves_in_the_middle_is_an_oserror() -> None:
    for read in (
        lambda: FileHead(io.BytesIO(b"A: b"), LINE, Limits()),
        lambda: FileBody(io.BytesIO(b""), 3).read(1),
        lambda: FileBody(io.BytesIO(b"3\r\n"), None).read(1),
    ):
        with pytest.raises(ConnectionResetError, match="in the middle"):
            read()


@pytest.mark.parametrize("limit", [1, 2, 5, 100])
def test_a_body_ends_where_its_framing_says(limit: int) -> None:
    for data, length in ((CHUNKS, None), (b"abcd\nef\n", 8)):
        file = io.BytesIO(data + b"GET /")
        body = FileBody(file, length)
        assert b"".join(iter(partial(body.read, limit), b"")) == b"abcd\nef\n"
        assert body.at_end and body.read(limit) == b"" and file.read() == b"GET /"


def test_a_read_takes_no_byte_behind_its_last_one() -> None:
    file = io.BytesIO(CHUNKS)
    assert FileBody(file, None).read(3) == b"abc" and file.tell() == 6  # the line end may not have come yet


def test_a_body_once_refused_stays_refused() -> None:
    body = FileBody(io.BytesIO(b"3\r\nabcX\n0\r\n\r\n"), None)
    assert body.read(9) == b"abc"
    for _ in range(2):
        with pytest.raises(Refusal):
            body.read(9)


def test_after_a_cancelled_read_the_body_has_no_end() -> None:
    """The file drops the bytes that it has received. So the next request would be read as the rest of the body."""
    here, there = socket.socketpair()
    with here, there, here.makefile("rb") as file:
        body = FileBody(file, 6)
        there.sendall(b"abc")
        with pytest.raises(TimeoutError), dhaga.Timeout(0.01):
            body.read(6)
        there.sendall(b"defGET /")
        with pytest.raises(Refusal, match="cancelled"):
            body.read(6)
        assert not body.at_end


@pytest.mark.parametrize("data", [b"1;" + b"x" * 9000, b"0\r\nname: " + b"x" * 9000, b"0\r\n" + b"name: x\r\n" * 3000])
def test_lines_without_end_are_refused(data: bytes) -> None:
    with pytest.raises(Refusal):
        FileBody(Trickle(data), None).read(1)


def test_names_that_could_pass_for_others_have_no_key() -> None:
    assert [environ_key(name) for name in ("X-User", "Content-Type", "X_User", "Proxy")] == [
        *("HTTP_X_USER", "CONTENT_TYPE", None, None)
    ]
