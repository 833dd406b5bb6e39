"""The search for a similar name."""

from __future__ import annotations

import pytest

from dhaga._kernel.faces.similar_names import most_similar


@pytest.mark.parametrize(
    ("name", "meant"), [("PUER", "PURE"), ("CHUNK", "CHUNKS"), ("CHUNKS", "CHUNKS"), ("POSTGRES", None), ("", None)]
)
def test_a_name_is_similar_if_three_quarters_of_it_agree(name: str, meant: str | None) -> None:
    assert most_similar(name, {"PURE", "CHUNKS", "PREEMPT"}) == meant
