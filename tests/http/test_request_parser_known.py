"""Fields that a client repeats are parsed twice, then known: what is understood never depends on what came before."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dhaga.http._server.request_environ import REQUEST_KEYS
from dhaga.http._server.request_parser import KNOWN_BYTES, RequestParser
from dhaga.http.limits import Limits, Refusal
from tests.http.wire import get

LIMITS = Limits(line=200, head=600, fields=6)
Read = tuple[Any, ...]
"""What a parser has understood of a head, or the refusal's status."""


def read(parser: RequestParser, data: bytes) -> Read:
    parser.buffer = data
    try:
        environ = parser.head({"wsgi.url_scheme": "http"})
    except Refusal as refusal:
        return (refusal.status,)
    chunked = parser.chunk_sizes is not None
    return environ, parser.complete, parser.persistent, parser.expects_continue, chunked, parser.buffer


def known(data: bytes, limits: Limits = LIMITS) -> RequestParser:
    """Return a parser that has read a head as often as it takes to know its fields."""
    parser = RequestParser(limits)
    for _ in range(2):
        read(parser, data)
    return parser


def test_fields_are_known_once_a_second_head_repeats_them() -> None:
    parser = RequestParser(LIMITS)
    read(parser, get("/a", "A: 1"))
    assert not parser.known_fields
    read(parser, get("/b", "A: 2"))
    assert not parser.known_fields
    read(parser, get("/c", "A: 2"))
    assert parser.known_block == b"Host: x\r\nA: 2\r\n\r\n"
    fields = {key: value for key, value in parser.known_fields.items() if key.startswith("HTTP_")}
    assert fields == {"HTTP_HOST": "x", "HTTP_A": "2"}


def test_httptools_does_not_see_known_fields_again() -> None:
    parser = known(get())
    parser.close()
    environ = read(parser, get("/c?d", method="HEAD"))[0]
    assert (environ["REQUEST_METHOD"], environ["PATH_INFO"], environ["QUERY_STRING"]) == ("HEAD", "/c", "d")
    with pytest.raises(AttributeError):
        read(parser, get("/c", "A: 1"))


def test_an_environ_that_the_app_has_changed_is_not_that_of_the_next_request() -> None:
    parser = known(get())
    read(parser, get())[0].update(HTTP_HOST="y", HTTP_A="1")
    assert read(parser, get()) == read(RequestParser(LIMITS), get())


@pytest.mark.parametrize("code", [*range(0x80), 0xFF])
def test_each_character_of_a_target_is_understood_as_by_a_fresh_parser(code: int) -> None:
    data = get(f"/a{chr(code)}b")
    assert read(known(get()), data) == read(RequestParser(LIMITS), data)


@settings(max_examples=500, deadline=None)
@given(st.text("/?%#&=.~\x20\x7f\xff!2fz", max_size=12), st.sampled_from(["GET", "HEAD"]))
def test_each_target_is_understood_as_by_a_fresh_parser(target: str, method: str) -> None:
    data = get(f"/{target}", method=method)
    assert read(known(get()), data) == read(RequestParser(LIMITS), data)


def test_a_url_overrides_the_known_host_for_its_request_alone() -> None:
    parser = RequestParser(LIMITS)
    for _ in range(3):
        assert read(parser, get("http://y/"))[0]["HTTP_HOST"] == "y"
        assert not parser.known_block
    for _ in range(3):
        assert read(parser, get())[0]["HTTP_HOST"] == "x"
    assert parser.known_block
    assert read(parser, get("http://y/"))[0]["HTTP_HOST"] == "y"
    assert read(parser, get())[0]["HTTP_HOST"] == "x"


@pytest.mark.parametrize(
    "field",
    ["Content-Length: 0", "Transfer-Encoding: chunked", "Expect: 100-continue", "Upgrade: x", "Connection: close"],
)
def test_fields_that_decide_on_framing_are_never_known(field: str) -> None:
    assert not known(get("/", field)).known_block


def test_large_fields_are_not_remembered() -> None:
    limits = Limits()
    assert known(get("/", "A: " + "a" * (KNOWN_BYTES - 30)), limits).known_block
    assert not known(get("/", "A: " + "a" * KNOWN_BYTES), limits).known_block


def test_known_fields_after_a_long_request_line_are_measured_with_it() -> None:
    parser = known(get("/", "A: " + "a" * 150))
    assert parser.known_block
    assert read(parser, get("/" + "b" * 200, "A: " + "a" * 150)) == ("414 URI Too Long",)


@pytest.mark.parametrize("base", [{}, dict.fromkeys(REQUEST_KEYS)])
def test_known_fields_are_understood_when_they_arrive_in_parts_and_with_the_next_head(base: dict[str, Any]) -> None:
    data = get("/a?b", "A: 1")
    parser, fresh = known(get("/", "A: 1")), RequestParser(LIMITS)
    for cut in range(len(data)):
        parser.buffer = data[:cut]
        assert parser.head(base) is None
        parser.buffer += data[cut:] + data[:9]
        fresh.buffer = data
        assert parser.head(base) == fresh.head(base)
        assert parser.buffer == data[:9]


LINES = [
    *("GET / HTTP/1.1", "HEAD /b?c HTTP/1.1", "POST / HTTP/1.1", "GET / HTTP/1.0", "OPTIONS * HTTP/1.1"),
    *("GET http://y/ HTTP/1.1", "CONNECT y:1 HTTP/1.1", "NONE / HTTP/1.1", "GET / HTTP/1.2", "GET /a#b HTTP/1.1"),
    *(
        "GET / HTTP/1.1",
        "GET http://y/ HTTP/1.1",
        "GET /a HTTP/1.1",
        "\r\nGET / HTTP/1.1",
        "GET  / HTTP/1.1",
        "GET /" + "a" * 190 + " HTTP/1.1",
    ),
]
BLOCKS = [
    *("Host: x", "Host: y\r\nA: 1", "Host: x\r\nHost: x", "A: 1", "", "Host: x\r\nConnection: keep-alive"),
    *("Host: x\r\nConnection: close", "Host: x\r\nContent-Length: 0", "Host: x\r\nContent-Length: 3", "Host: x y"),
    *("Host: x\r\nTransfer-Encoding: chunked", "Host: x\r\nUpgrade: x\r\nConnection: upgrade", "Host: x\r\nB_C: d"),
    *("Host: x\r\nExpect: 100-continue", "Host: x\r\nProxy: y", "Host: x\r\nA: " + "a" * 150, "Host: x\r\nA:\n1"),
    "\r\n".join(["Host: x", *(f"A{n}: 1" for n in range(6))]),
]


@st.composite
def requests(draw: st.DrawFn) -> list[bytes]:
    """Draw heads in a row that have few different blocks of fields."""
    blocks = st.sampled_from(draw(st.lists(st.sampled_from(BLOCKS), min_size=1, max_size=2)))
    heads = draw(st.lists(st.tuples(st.sampled_from(LINES), blocks), max_size=8))
    return ["\r\n".join([line, *([block] if block else []), "\r\n"]).encode() for line, block in heads]


@settings(max_examples=500, deadline=None)
@given(requests())
def test_no_request_is_understood_otherwise_because_of_those_before(heads: list[bytes]) -> None:
    parser = RequestParser(LIMITS)
    for data in heads:
        found = read(parser, data)
        assert found == read(RequestParser(LIMITS), data)
        if len(found) == 1 or not (parser.complete and parser.persistent):
            return  # the connection ends, or continues with a body
