"""What an app of eventlet's WSGI server says, as bytes."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from dhaga.compat.eventlet._http_input import Input
from dhaga.compat.eventlet._http_response import Response
from dhaga.compat.eventlet.timeout import Timeout


class Client:
    """Takes what is sent."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []

    def sendall(self, data: bytes) -> None:
        self.pieces.append(data)


def response(command: str = "GET", version: str = "HTTP/1.1", **environ: Any) -> tuple[Response, Client, Any]:
    client = Client()
    protocol = SimpleNamespace(
        command=command,
        request_version=version,
        protocol_version="HTTP/1.1",
        capitalize_response_headers=True,
        minimum_chunk_size=10,
        close_connection=False,
        asked_to_keep=False,
        connection=client,
        wfile=SimpleNamespace(write=client.sendall),
        is_handled=lambda: False,
        server=SimpleNamespace(keepalive=True),
    )
    body = Input(None, 0, client)
    return Response(protocol, {"eventlet.input": body, **environ}), client, protocol


def parts(client: Client) -> tuple[str, bytes]:
    head, _, body = b"".join(client.pieces).partition(b"\r\n\r\n")
    return head.decode("latin-1"), body


def test_small_pieces_are_gathered() -> None:
    made, client, _ = response()
    made.start("200 OK", [("x-mine", 1)])
    made.send_all(iter([b"12345", b"", "67890", b"1", b"2"]))
    assert parts(client)[1] == b"a\r\n1234567890\r\n2\r\n12\r\n0\r\n\r\n" and len(client.pieces) == 3
    assert "X-Mine: 1" in parts(client)[0] and made.size == 12
    made, client, _ = response(**{"eventlet.minimum_write_chunk_size": 1})
    made.start("200 OK", [])
    made.send_all(iter([b"a", b"b"]))
    assert parts(client)[1] == b"1\r\na\r\n1\r\nb\r\n0\r\n\r\n"


def test_a_write_that_is_cancelled_ends_the_connection() -> None:
    made, _, protocol = response()

    def write(data: bytes) -> None:
        raise Timeout

    protocol.wfile.write = write
    made.start("200 OK", [])
    with pytest.raises(Timeout):
        made.write(b"abc")
    assert protocol.close_connection and not made.sink.client_gone


def test_the_length_of_a_list_is_told() -> None:
    made, client, _ = response()
    made.start("200 OK", {})
    made.send_all([b"ab", b"c"])
    assert "Content-Length: 3" in parts(client)[0] and parts(client)[1] == b"abc"


def test_an_old_client_gets_no_chunks_and_the_end_of_the_connection() -> None:
    made, client, protocol = response(version="HTTP/1.0")
    made.start("200 OK", [])
    made.send_all(iter([b"abc"]))
    assert parts(client)[1] == b"abc" and "Connection: close" in parts(client)[0] and protocol.close_connection


@pytest.mark.parametrize(
    ("command", "status"), [("GET", "204 No Content"), ("GET", "304 Not Modified"), ("HEAD", "200 OK")]
)
def test_where_there_is_no_body_none_is_sent(command: str, status: str) -> None:
    made, client, _ = response(command)
    made.start(status, [])
    made.write(b"")
    made.send_all(iter([b"body"]))
    head, body = parts(client)
    assert body == b"" and ("Transfer-Encoding" in head) is (command == "HEAD")


def test_a_response_that_is_shorter_than_its_length_ends_the_connection() -> None:
    made, _, protocol = response()
    made.start("200 OK", [("Content-Length", "9")])
    made.send_all([b"short"])
    assert protocol.close_connection


def test_a_field_cannot_bring_another_one() -> None:
    made, client, _ = response()
    made.start("200 OK", [("X-Mine", "a\r\nSet-Cookie: b")])
    with pytest.raises(ValueError, match="CR or LF"):
        made.write(b"")
    made.fail("500 Internal Server Error", b"trouble")
    assert "500 Internal" in parts(client)[0] and "Set-Cookie" not in parts(client)[0]


def test_an_error_replaces_the_response_unless_it_has_begun() -> None:
    made, client, _ = response()
    with pytest.raises(AssertionError, match="before it has called"):
        made.write(b"")
    made.start("200 OK", [])
    with pytest.raises(AssertionError, match="takes exc_info"):
        made.start("200 OK", [])
    try:
        raise KeyError("k")
    except KeyError:
        made.start("500 Oops", [], sys.exc_info())
        made.write(b"x")
        with pytest.raises(KeyError):
            made.start("500 Again", [], sys.exc_info())
    made.fail("500 Internal Server Error", b"too late")
    assert parts(client)[0].startswith("HTTP/1.1 500 Oops\r\n") and b"too late" not in parts(client)[1]


def test_a_body_is_cut_at_its_length_and_framed_by_the_server_alone() -> None:
    made, client, protocol = response()
    protocol.server.log = SimpleNamespace(error=lambda line: None)
    made.start("200 OK", [("Content-Length", "4"), ("Transfer-Encoding", "chunked")])
    made.send_all([b"long", b"er than it says", b"HTTP/1.1 200 Forged\r\n\r\n"])
    sent = b"".join(client.pieces)
    assert sent.endswith(b"\r\n\r\nlong") and b"Transfer-Encoding" not in sent and protocol.close_connection


def test_the_fields_have_eventlets_order() -> None:
    made, client, _ = response(version="HTTP/1.0")
    made.start("200 OK", [("x-a", "1"), ("x-b", "2")])
    made.send_all(iter([b"abc"]))
    names = [line.partition(":")[0] for line in parts(client)[0].split("\r\n")[1:]]
    assert names == ["X-A", "X-B", "Date", "Connection"]


def test_205_has_no_body_and_says_so() -> None:
    for command in ("GET", "HEAD"):
        made, client, _ = response(command)
        made.start("205 Reset Content", [("Content-Length", "3")])
        made.send_all([b"abc"])
        head, body = parts(client)
        assert head.count("Content-Length: 0") == head.count("Content-Length") == 1 and body == b""
        assert "Transfer-Encoding" not in head
