"""Where a chunked body ends, whatever its data look like and wherever its bytes are cut."""

from __future__ import annotations

import pytest

from dhaga.http._server.chunk_sizes import CHUNKS_PER_PART, HEAD_END, SIZE_LINE_BYTES, ChunkSizes
from dhaga.http.limits import Refusal

NEXT = b"GET / HTTP/1.1\r\n"
BODIES = {
    "empty": b"0\r\n\r\n",
    "one chunk": b"3\r\nabc\r\n0\r\n\r\n",
    "data like an end": b"9\r\n\r\n0\r\n\r\n\r\n\r\n0\r\n\r\n",
    "extensions": b"3;a=b;c\r\nabc\r\n0;d\r\n\r\n",
    "trailers": b"3\r\nabc\r\n0\r\nA: b\r\nC: d\r\n\r\n",
    "upper and lower case": b"A\r\n0123456789\r\na\r\n0123456789\r\n0\r\n\r\n",
}


def length_of_body(pieces: list[bytes]) -> int:
    """Return the number of bytes up to the end of the body, or of all pieces."""
    sizes, length, data = ChunkSizes(), 0, b"".join(pieces)
    for piece in pieces:
        while piece:
            end = sizes.end_of_part(piece)
            length += end
            if sizes.in_trailers and data[:length].endswith(HEAD_END):
                return length
            piece = piece[end:]
    return length


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_a_body_ends_at_its_last_byte_wherever_it_is_cut(body: bytes) -> None:
    data = body + NEXT
    assert length_of_body([data]) == len(body)
    assert length_of_body([data[i : i + 1] for i in range(len(data))]) == len(body)
    for first in range(len(data)):
        for second in range(first, len(data)):
            assert length_of_body([data[:first], data[first:second], data[second:]]) == len(body)


def test_a_part_has_a_bounded_number_of_chunks() -> None:
    chunk = b"1\r\nx\r\n"
    sizes = ChunkSizes()
    assert sizes.end_of_part(chunk * (2 * CHUNKS_PER_PART)) == len(chunk) * CHUNKS_PER_PART


@pytest.mark.parametrize(
    "line", [b"g\r\n", b"\r\n", b"-1\r\n", b" 1\r\n", b"1\rx\r\n", b"1" * SIZE_LINE_BYTES + b"\r\n"]
)
def test_an_invalid_size_is_refused_also_byte_for_byte(line: bytes) -> None:
    for pieces in ([line], [line[i : i + 1] for i in range(len(line))]):
        with pytest.raises(Refusal, match="invalid chunk size"):
            length_of_body(pieces)


def test_the_bytes_left_of_a_chunk_include_its_line_end() -> None:
    sizes = ChunkSizes()
    assert sizes.end_of_part(b"5\r\nab") == 5
    assert sizes.left == 5
    assert sizes.end_of_part(b"cde\r\n") == 5
    assert sizes.left == 0
