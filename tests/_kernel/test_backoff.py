"""Growing pauses: how they grow."""

from __future__ import annotations

from itertools import islice

from dhaga._kernel.backoff import backoff


def test_pauses_double_up_to_the_longest() -> None:
    assert list(islice(backoff(1, 6), 5)) == [1, 2, 4, 6, 6]
