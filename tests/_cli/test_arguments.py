"""``dhaga._cli.arguments``: what validators of command line arguments take and refuse."""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Callable

import pytest

from dhaga._cli.arguments import count, or_none, process_id, seconds, seconds_between


@pytest.mark.parametrize(
    ("validate", "text", "value"),
    [
        (process_id, "1", 1),
        (count, "12", 12),
        (seconds, "0", 0.0),
        (seconds, "inf", float("inf")),
        (seconds_between(0.05, 3600), "0.05", 0.05),
        (or_none(seconds), "none", None),
        (or_none(seconds), "1.5", 1.5),
    ],
)
def test_what_is_taken(validate: Callable[[str], object], text: str, value: object) -> None:
    assert validate(text) == value


@pytest.mark.parametrize(
    ("validate", "text", "error"),
    [
        (process_id, "0", "'0' is not a process id"),
        (process_id, str(2**31), "is not a process id"),
        (count, "0", "'0' is not a whole number from 1"),
        (count, "-1", "'-1' is not a whole number from 1"),
        (seconds, "-0.1", "'-0.1' is not a number of seconds, 0 or more"),
        (seconds, "nan", "'nan' is not a number of seconds, 0 or more"),
        (seconds, "soon", "'soon' is not a number of seconds, 0 or more"),
        (seconds_between(0.05, 3600), "3601", "'3601' is not between 0.05 and 3600 seconds"),
        (seconds_between(0.05, 3600), "often", "'often' is not between 0.05 and 3600 seconds"),
        (or_none(count), "None", "'None' is not a whole number from 1"),
    ],
)
def test_what_is_refused(validate: Callable[[str], object], text: str, error: str) -> None:
    with pytest.raises(ArgumentTypeError, match=error):
        validate(text)
