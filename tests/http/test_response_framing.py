"""The framing of one body: what is sent of it, by status, length and version."""

from __future__ import annotations

import pytest

from dhaga.http._server.response_framing import Framing


class Counted(Framing):
    """Counts the reports of an excess."""

    def __init__(self, method: str = "GET") -> None:
        super().__init__(method)
        self.excesses = 0

    def excess(self) -> None:
        self.excesses += 1


@pytest.mark.parametrize(
    ("length", "version", "sent", "closes"),
    [
        (None, "HTTP/1.1", b"2\r\nab\r\n", False),
        (None, "HTTP/1.0", b"ab", True),
        (2, "HTTP/1.1", b"ab", False),
        (2, "HTTP/1.0", b"ab", False),
    ],
)
def test_a_body_ends_by_its_length_its_chunks_or_the_connection(
    length: int | None, version: str, sent: bytes, closes: bool
) -> None:
    framing = Counted()
    assert framing.settle("200 OK", length, version) is closes
    assert (framing.frame(b"ab"), framing.size, framing.lacks()) == (sent, 2, False)


@pytest.mark.parametrize("version", ["HTTP/1.1", "HTTP/1.0"])
@pytest.mark.parametrize("length", [None, 1, 9])
@pytest.mark.parametrize(("method", "status"), [("HEAD", "200 OK"), ("GET", "204 None"), ("GET", "304 Old")])
def test_without_a_body_nothing_is_sent_and_the_connection_stays(
    method: str, status: str, length: int | None, version: str
) -> None:
    framing = Counted(method)
    assert not framing.settle(status, length, version)
    assert (framing.frame(b"ab"), framing.size, framing.chunked) == (b"", 0, False)
    assert (framing.lacks(), framing.excesses) == (False, 0)


def test_an_excess_is_cut_off_and_reported_once_and_a_lack_is_told() -> None:
    framing = Counted()
    framing.settle("200 OK", 3, "HTTP/1.1")
    assert (framing.frame(b"ab"), framing.lacks()) == (b"ab", True)
    assert [framing.frame(b"cd"), framing.frame(b"ef")] == [b"c", b""]
    assert (framing.size, framing.excesses, framing.lacks()) == (3, 1, False)
