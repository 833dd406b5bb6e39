"""Responses against PEP 3333: framing, files, and apps that break the rules, or fail."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

import dhaga
from dhaga import socket
from dhaga.http._server.response import Response, ServerFields
from tests.http.wire import TEXT, Answer, answer, answers, ask, get, hello, returning, serving

Start = Callable[..., Any]


def sink_to(trace: list[Any]) -> Any:
    """Return the sink of a response on a connection that stays open; its sends are traced."""
    return SimpleNamespace(send=trace.append, keeps_alive=lambda: True, server_fields=ServerFields("x"))


# ---- responses


def test_an_only_piece_gets_its_length() -> None:
    for result in ([b"abc"], (b"abc",), {b"abc": 1}):
        found = answer(returning(result))
        assert (found.fields["content-length"], found.body) == ("3", b"abc")


@pytest.mark.parametrize("status", ["200 OK", "204 No Content", "205 Reset Content"])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_an_only_piece_of_its_length_is_one_send_also_from_an_iterator(method: str, status: str) -> None:
    """An iterator is asked for its end, too: werkzeug closes its context there."""
    trace: list[Any] = []

    def pieces() -> Iterator[bytes]:
        yield b"abc"
        trace.append("asked again")

    for result in ([b"abc"], pieces()):
        response = Response(sink_to(trace), method, "HTTP/1.1")
        response.start(status, [*TEXT, ("Content-Length", "3")])
        response.send_all(result)
        trace.append(response.size)
    (sent, size), (again, *end) = trace[:2], trace[2:]
    assert (again, end) == (sent, ["asked again", size])
    assert (sent.endswith(b"\r\n\r\nabc"), size) == ((True, 3) if (method, status) == ("GET", "200 OK") else (False, 0))


def test_several_pieces_are_chunks_for_1_1_and_end_the_connection_for_1_0() -> None:
    pieces = [b"", b"ab", b"", b"c", b""]
    for app in (returning(pieces), lambda environ, start: returning(iter(pieces))(environ, start)):
        found = answer(app)
        assert (found.fields["transfer-encoding"], found.body, found.rest) == ("chunked", b"abc", b"")
        found = answer(app, get("/", "Connection: keep-alive", version="1.0"))
        assert (found.fields["connection"], found.body, "transfer-encoding" in found.fields) == ("close", b"abc", False)


def test_an_empty_result_is_an_empty_body() -> None:
    for result in ([], [b""], iter([]), iter([b""])):
        assert answer(returning(result)).fields["content-length"] == "0"


@pytest.mark.parametrize("result", [[b"abc"], [b"a", b"bc"], [], [b""], iter([b""])])
def test_head_has_the_head_of_get_and_no_body(result: Any) -> None:
    told = isinstance(result, list) and any(result)
    with serving(returning(result, ("Content-Length", "3")) if told else returning(result)) as server:
        first = Answer(ask(server, get(method="HEAD") + get("/", method="HEAD")), "HEAD")
        assert first.fields.get("content-length") == ("3" if told else None)  # apps may leave out what GET would have
        assert first.rest.startswith(b"HTTP/1.1 200 OK") and first.rest.endswith(b"\r\n\r\n")


def test_statuses_without_a_body_send_none() -> None:
    for status in ("204 No Content", "304 Not Modified"):
        for fields in ((), (("Content-Length", "0"),)):
            with serving(returning([b""], *fields, status=status)) as server:
                first = Answer(ask(server, get() + get()))
                assert (first.status, first.body) == (status, b"")
                assert Answer(first.rest).status == status
                assert status[0] == "3" or "content-length" not in first.fields
                assert "transfer-encoding" not in first.fields


def test_date_and_server_are_added_unless_the_app_has_them() -> None:
    found = answer(hello)
    assert found.fields["date"].endswith(" GMT") and found.fields["server"] == "dhaga"
    found = answer(returning([b""], ("Date", "today"), ("SERVER", "me")))
    assert (found.fields["date"], found.fields["server"]) == ("today", "me")


def test_write_sends_at_once_and_the_result_follows() -> None:
    def app(environ: dict[str, Any], start_response: Start) -> list[bytes]:
        write = start_response("200 OK", list(TEXT))
        write(b"first ")
        dhaga.park("the client's turn", timeout=5, start=lambda: parked.append(dhaga.current()))
        return [b"second"]

    parked: list[Any] = []
    with serving(app) as server, socket.create_connection(server.address) as sock:
        sock.sendall(get("/", "Connection: close"))
        data = b""
        while b"first " not in data:
            data += sock.recv(65536)
        assert b"second" not in data
        parked[0].wake()
        while more := sock.recv(65536):
            data += more
    assert Answer(data).body == b"first second"


def test_an_error_before_the_body_replaces_the_response() -> None:
    def app(environ: dict[str, Any], start_response: Start) -> list[bytes]:
        start_response("200 OK", [("X-Old", "a")])
        try:
            raise KeyError("a")
        except KeyError:
            start_response("503 Later", list(TEXT), sys.exc_info())
        return [b"sorry"]

    found = answer(app)
    assert (found.status, found.body, "x-old" in found.fields) == ("503 Later", b"sorry", False)


class Result:
    """An iterable that must be closed, whatever happens."""

    closed = 0

    def __init__(self, *pieces: Any) -> None:
        self.pieces = pieces

    def __iter__(self) -> Iterator[bytes]:
        for piece in self.pieces:
            if isinstance(piece, Exception):
                raise piece
            yield piece

    def close(self) -> None:
        self.closed += 1


def test_every_result_is_closed_once() -> None:
    for method in ("GET", "HEAD"):
        result = Result(b"a", b"b")
        assert answer(returning(result), get(method=method)).status == "200 OK"
        assert result.closed == 1


# ---- apps that break the rules, or fail


BROKEN: dict[str, Any] = {
    "raises": lambda e, s: 1 / 0,
    "returns without start_response": lambda e, s: [b"abc"],
    "returns nothing": lambda e, s: s("200 OK", []) and None,
    "calls start_response twice": lambda e, s: s("200 OK", []) and s("200 OK", []),
    "status without a number": lambda e, s: s("OK", []) and [],
    "status without a reason": lambda e, s: s("200", []) and [],
    "status of bytes": lambda e, s: s(b"200 OK", []) and [],
    "informational status": lambda e, s: s("100 Continue", []) and [],
    "status of two lines": lambda e, s: s("200 OK\r\nA: b", []) and [],
    "LF in a value": lambda e, s: s("200 OK", [("A", "b\nc: d")]) and [],
    "CR LF in a value": lambda e, s: s("200 OK", [("A", "b\r\nc: d")]) and [],
    "CR in a value": lambda e, s: s("200 OK", [("A", "b\rc")]) and [],
    "NUL in a value": lambda e, s: s("200 OK", [("A", "b\0c")]) and [],
    "LF in a name": lambda e, s: s("200 OK", [("A\nB", "b")]) and [],
    "a space in a name": lambda e, s: s("200 OK", [("A B", "b")]) and [],
    "no name": lambda e, s: s("200 OK", [("", "b")]) and [],
    "a name of bytes": lambda e, s: s("200 OK", [(b"A", "b")]) and [],
    "a value of bytes": lambda e, s: s("200 OK", [("A", b"b")]) and [],
    "a value of an int": lambda e, s: s("200 OK", [("Content-Length", 3)]) and [b"abc"],
    "a value beyond Latin-1": lambda e, s: s("200 OK", [("A", "€")]) and [],
    "a hop-by-hop field": lambda e, s: s("200 OK", [("Transfer-Encoding", "chunked")]) and [],
    "Connection": lambda e, s: s("200 OK", [("connection", "close")]) and [],
    "two lengths": lambda e, s: s("200 OK", [("Content-Length", "3"), ("Content-Length", "4")]) and [b"abc"],
    "a length that is none": lambda e, s: s("200 OK", [("Content-Length", "-3")]) and [b"abc"],
    "a str as body": lambda e, s: s("200 OK", []) and ["abc"],
    "a str as result": lambda e, s: s("200 OK", []) and "abc",
    "an iterator that fails at once": lambda e, s: s("200 OK", []) and Result(KeyError("a")),
}


@pytest.mark.logs
@pytest.mark.parametrize("name", BROKEN)
def test_an_app_that_fails_gives_500_and_a_log_entry(name: str, caplog: pytest.LogCaptureFixture) -> None:
    found = answer(BROKEN[name])
    assert (found.status, found.fields["connection"]) == ("500 Internal Server Error", "close")
    assert found.body == b"500 Internal Server Error\n"
    (record,) = [r for r in caplog.records if r.levelno >= logging.ERROR]
    assert record.getMessage() == "the app failed at GET /" and record.exc_info


@pytest.mark.logs
def test_an_app_that_fails_in_its_body_is_cut_off(caplog: pytest.LogCaptureFixture) -> None:
    result = Result(b"abc", KeyError("a"))
    with serving(returning(result)) as server:
        assert ask(server, get() + get("/next")).endswith(b"\r\n\r\n3\r\nabc\r\n")
    assert result.closed == 1
    assert [r.getMessage() for r in caplog.records if r.levelno >= logging.ERROR] == ["the app failed at GET /"]


@pytest.mark.logs
def test_start_response_with_exc_info_after_the_head_raises_it(caplog: pytest.LogCaptureFixture) -> None:
    def app(environ: dict[str, Any], start_response: Start) -> Iterator[bytes]:
        start_response("200 OK", [])
        yield b"abc"
        try:
            raise KeyError("lost")
        except KeyError:
            start_response("500 Oops", [], sys.exc_info())

    with serving(app) as server:
        assert ask(server, get()).endswith(b"3\r\nabc\r\n")
    assert "lost" in caplog.text


class Repeated:
    """An iterable without a length."""

    def __init__(self, *pieces: bytes) -> None:
        self.pieces = pieces

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.pieces)


@pytest.mark.logs
def test_what_is_beyond_the_length_is_cut_off_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    for result in ([b"abcd"], [b"ab", b"cd", b"e"], Repeated(b"abc", b"d", b"")):
        with serving(returning(result, ("Content-Length", "3"))) as server:
            assert [each.body for each in answers(ask(server, get() + get()))] == [b"abc", b"abc"]
    assert caplog.text.count("more than its Content-Length, 3") == 6


@pytest.mark.logs
def test_less_than_the_length_ends_the_connection_and_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    for result in ([b"ab"], [b"a", b"b"], []):
        with serving(returning(result, ("Content-Length", "3"))) as server:
            assert ask(server, get() + get()).count(b"HTTP/1.1") == 1
    assert caplog.text.count("less than its Content-Length, 3") == 3


@pytest.mark.logs
def test_a_close_that_fails_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    result = Result(b"abc")
    result.close = lambda: 1 / 0
    assert answer(returning(result)).body == b"abc"
    assert "close() of the app's result failed" in caplog.text


def test_a_length_given_twice_is_sent_once() -> None:
    found = answer(returning([b"abc"], ("Content-Length", "3"), ("content-length", "3")))
    assert (found.body, found.status) == (b"abc", "200 OK")
    raw = []
    with serving(returning([b"abc"], ("Content-Length", "3"), ("content-length", "3"))) as server:
        raw.append(ask(server, get()))
    assert raw[0].lower().count(b"content-length") == 1


@pytest.mark.logs
@pytest.mark.parametrize("control", ["\x0b", "\x1c", "\x01", "\x7f", "\0", "\r", "\n"])
def test_a_control_character_in_a_value_is_refused(control: str) -> None:
    assert answer(returning([b"abc"], ("X-A", f"a{control}b"))).status == "500 Internal Server Error"


def test_a_tab_in_a_value_is_sent() -> None:
    assert answer(returning([b"abc"], ("X-A", "a\tb"))).fields["x-a"] == "a\tb"


def test_205_has_no_body_and_says_so() -> None:
    for result in ([b"abc"], [b"a", b"bc"], iter([b"abc"]), []):
        for fields in ((), (("Content-Length", "3"),)):
            with serving(returning(result, *fields, status="205 Reset Content")) as server:
                first, second = answers(ask(server, get() * 2))
            assert (first.fields["content-length"], first.body) == ("0", b"")
            assert second.status == "205 Reset Content"


def test_204_loses_its_length_and_no_other_field() -> None:
    trace: list[Any] = []
    response = Response(sink_to(trace), "GET", "HTTP/1.1")
    response.start("204 No Content", [("X-Content-Length", "3"), ("content-length", "3"), ("X-A", "b")])
    response.send_all([])
    assert trace[0].startswith(b"HTTP/1.1 204 No Content\r\nX-Content-Length: 3\r\nX-A: b\r\nServer: ")


# ---- fields that are known from the response before


def head_of(sink: Any, headers: Any, status: str = "200 OK") -> bytes:
    response = Response(sink, "GET", "HTTP/1.1")
    response.start(status, headers)
    return response.head(response.length or 0)


FIELDS = [
    [("A", "1")], [("A", "2")], [("A", "1"), ("B", "1")], [("A", "1"), ("Content-Length", "2")],
    [("Content-Length", "3")], [], [("A", "1"), ("Date", "now")], [("A", "1"), ("Server", "y")],
    [("Set-Cookie", "a=1")], [["A", "1"]],
]  # fmt: skip


@pytest.mark.parametrize("after", FIELDS)
@pytest.mark.parametrize("before", FIELDS)
def test_no_response_is_sent_otherwise_because_of_the_one_before(before: Any, after: Any) -> None:
    sink = sink_to([])
    for headers, status in ((before, "200 OK"), (after, "200 OK"), (after, "204 No Content"), (before, "200 OK")):
        found, alone = (head_of(each, headers, status) for each in (sink, sink_to([])))
        assert re.sub(rb"\r\nDate: \w{3},.*", b"", found) == re.sub(rb"\r\nDate: \w{3},.*", b"", alone)


def test_a_list_that_the_app_changes_afterwards_is_sent_as_it_is() -> None:
    sink = sink_to([])
    headers: list[Any] = [("A", "1"), ["B", "1"]]
    head_of(sink, headers)
    headers[1][1] = "2"
    assert b"\r\nB: 2\r\n" in head_of(sink, headers)
    headers[0] = ("A", "2")
    assert b"\r\nA: 2\r\n" in head_of(sink, headers)
    headers.append(("C", "\n"))
    with pytest.raises(RuntimeError, match="control character"):
        head_of(sink, headers)


def test_fields_from_an_iterator_are_never_known() -> None:
    sink = sink_to([])
    head_of(sink, iter([("A", "1")]))
    assert b"A: 1" not in head_of(sink, [])


def test_a_cookie_is_not_kept_after_its_response() -> None:
    sink = sink_to([])
    head_of(sink, [("A", "1"), ("set-cookie", "a=1")])
    assert sink.server_fields.known_start[1] == []
    head_of(sink, [("A", "1")])
    assert sink.server_fields.known_start[1] == [("A", "1")]


@pytest.mark.logs
def test_an_app_that_exits_is_named_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(SystemExit, match=r"^3$"), serving(lambda environ, start_response: sys.exit(3)) as server:
        client = dhaga.spawn(ask, server, get("/report"))
        server.serve_forever()
    assert client.result() == b""
    (record,) = [r for r in caplog.records if r.levelno >= logging.ERROR]
    assert record.getMessage() == "the app ends this process by sys.exit() at GET /report" and record.exc_info
