"""The request parser under hypothesis: no cut changes what is understood, and no byte is worth much work."""

from __future__ import annotations

import re
import sys
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dhaga.http._server import request_parser
from dhaga.http.limits import Limits
from tests.http.framings import REFUSED
from tests.http.wire import chunked, get, parse, post

LIMITS = Limits(line=200, head=1000, fields=10, body=2000)


def cut(data: bytes, places: list[int]) -> list[bytes]:
    cuts = sorted({0, len(data), *(place % (len(data) + 1) for place in places)})
    return [data[begin:end] for begin, end in pairwise(cuts)]


# ---- what is sent: requests, the cases of smuggling, and both damaged

TOKENS = [
    *(b"\r\n", b"\n", b"\r", b" ", b"\t", b":", b"0", b"\0", b"\r\n\r\n", b"HTTP/1.1", b"\xff", b",", b";", b"*", b"#"),
    *(b"Transfer-Encoding: chunked\r\n", b"Content-Length: 3\r\n", b"Upgrade: x\r\nConnection: upgrade\r\n"),
    *(b"0\r\n\r\n", b"5\r\nhello\r\n", b"9" * 25, b"0" * 4400, b"A" * 250, b"Expect: 100-continue\r\n", b"x" * 1100),
]
SEEDS = [
    *(data for data, _ in REFUSED.values()),
    *(
        get("/a"),
        post(b"abc"),
        chunked(b"abc", b"\r\n\r\n0\r\n\r\n", b"x" * 50),
        chunked(b"", end=b"0\r\nA: b\r\n\r\n"),
    ),
]


@st.composite
def streams(draw: st.DrawFn) -> bytes:
    """Draw some requests in a row, with up to four bytes, tokens or pieces inserted, removed or replaced."""
    data = b"".join(draw(st.lists(st.sampled_from(SEEDS), min_size=1, max_size=3)))
    for _ in range(draw(st.integers(0, 4))):
        place = draw(st.integers(0, len(data)))
        new = draw(st.sampled_from(TOKENS) | st.binary(max_size=3))
        data = data[:place] + new + data[place + draw(st.integers(0, 6)) :]
    return data


@settings(max_examples=300, deadline=None)
@given(streams(), st.lists(st.integers(0, 1 << 16), max_size=8))
def test_no_cut_changes_what_is_understood(data: bytes, places: list[int]) -> None:
    """Nothing but Refusal is raised, and wherever the bytes are cut the same requests, or the same refusal, follow."""
    whole = parse([data], LIMITS)
    assert parse(cut(data, places), LIMITS) == whole
    assert parse([data[n : n + 1] for n in range(len(data))], LIMITS) == whole


# ---- work


class Counted(bytes):
    """Bytes that count how many of them a search looks at."""

    scanned = 0

    def find(self, *args: Any) -> int:
        found = super().find(*args)
        begin, end = args[1] if len(args) > 1 else 0, args[2] if len(args) > 2 else len(self)
        Counted.scanned += max(0, (end if found < 0 else found + len(args[0])) - begin)
        return found

    def __getitem__(self, key: Any) -> Any:
        found = super().__getitem__(key)
        return Counted(found) if isinstance(key, slice) else found

    def __add__(self, other: bytes) -> Counted:
        return Counted(super().__add__(other))

    def __radd__(self, other: bytes) -> Counted:
        return Counted(other + bytes(self))


class CountedPattern:
    """A pattern that counts how many bytes it looks at: up to the end of the match, or of what it could search."""

    def __init__(self, pattern: re.Pattern[bytes]) -> None:
        self.pattern = pattern

    def match(self, data: bytes, begin: int = 0) -> Any:
        found = self.pattern.match(data, begin)
        Counted.scanned += found.end() - begin if found else 1
        return found

    def fullmatch(self, data: bytes) -> Any:
        return self.pattern.fullmatch(data)

    def search(self, data: bytes, begin: int = 0) -> Any:
        found = self.pattern.search(data, begin)
        Counted.scanned += (found.end() if found else len(data)) - begin
        return found


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in vars(request_parser).items():
        if isinstance(value, re.Pattern):
            monkeypatch.setattr(request_parser, name, CountedPattern(value))


def work(segments: list[bytes], limits: Limits) -> tuple[float, float]:
    """Parse. Returns: bytes searched, and calls of functions made, for each byte that came."""
    size = sum(map(len, segments))
    calls = [0]

    def count(frame: object, event: str, arg: object) -> None:
        calls[0] += event in ("call", "c_call")

    Counted.scanned = 0
    before = sys.getprofile()
    sys.setprofile(count)
    try:
        outcome = parse([Counted(segment) for segment in segments], limits)
    finally:
        sys.setprofile(before)
    assert not outcome[1]
    return Counted.scanned / size, calls[0] / size


LINE = b"X-%04d: " + b"a" * 600 + b"\r\n"
HEAD = b"GET / HTTP/1.1\r\nHost: x\r\n" + b"".join(LINE % n for n in range(90)) + b"\r\n"
SIZE = 1 << 16
BODIES: dict[str, bytes] = {
    "x": chunked(b"x" * SIZE),
    "CRLF": chunked(b"\r\n" * (SIZE // 2)),
    "text with blank lines": chunked((b"a" * 60 + b"\r\n\r\n") * (SIZE // 64)),
    "ends of chunked bodies": chunked(b"\r\n0\r\n\r\n" * (SIZE // 7)),
    "trailers": chunked(b"x" * 1000, end=b"0\r\n" + b"A: b\r\n" * 500 + b"\r\n"),
    "a length": post(b"\r\n" * (SIZE // 2)),
}


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("piece", [SIZE, 1460, 100])
@pytest.mark.usefixtures("counted")
def test_a_body_costs_little_a_byte(name: str, piece: int) -> None:
    data = BODIES[name]
    searched, calls = work([data[n : n + piece] for n in range(0, len(data), piece)], Limits())
    assert (searched <= 4, calls <= 0.5) == (True, True), (searched, calls)


@pytest.mark.usefixtures("counted")
def test_the_smallest_chunks_cost_a_bounded_number_of_calls() -> None:
    data = chunked(*[b"x"] * 5000)
    searched, calls = work([data], Limits())
    assert (searched <= 4, calls <= 3) == (True, True), (searched, calls)


@pytest.mark.parametrize("piece", [1, 7, 1460, SIZE])
@pytest.mark.usefixtures("counted")
def test_a_head_costs_little_a_byte_however_it_comes(piece: int) -> None:
    searched, calls = work([HEAD[n : n + piece] for n in range(0, len(HEAD), piece)], Limits())
    assert (searched <= 24, calls <= 24) == (True, True), (searched, calls)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.sampled_from([b"\r\n", b"\r\n\r\n", b"0\r\n", b"x" * 40, b"5\r\n"]), max_size=200), st.integers(20, 400)
)
def test_no_body_costs_much_a_byte(parts: list[bytes], piece: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in list(vars(request_parser).items()):
            if isinstance(value, re.Pattern):
                patch.setattr(request_parser, name, CountedPattern(value))
        data = chunked(b"".join(parts) + b"x" * 500)
        searched, calls = work([data[n : n + piece] for n in range(0, len(data), piece)], Limits())
    assert (searched <= 6, calls <= 2) == (True, True), (searched, calls)
