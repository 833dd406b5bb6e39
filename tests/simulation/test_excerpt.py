"""The beginning of data in reports."""

from __future__ import annotations

import pytest

from dhaga.simulation._base.excerpt import LONGEST, Excerpt


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_an_excerpt_is_cut_and_keeps_no_data_of_the_program(kind: type) -> None:
    data = bytearray(b"GET /")
    excerpt = Excerpt(kind(data) if kind is not memoryview else memoryview(data))
    data[:] = b"....."
    assert str(excerpt) == "b'GET /'"
    assert str(Excerpt(b"x" * LONGEST)) == repr(b"x" * LONGEST)
    assert str(Excerpt(b"x" * (LONGEST + 1))) == repr(b"x" * LONGEST) + "…"
