"""Checks of settings: numbers of seconds, ranges to draw from, and shares."""

from __future__ import annotations

from typing import Any

Range = tuple[float, float]


def is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def range_of(name: str, value: Any, least: float | None = 0.0) -> Range:
    """Return a range of seconds from a number or a pair of numbers.

    Raises: ValueError if the value is neither, or if the pair is infinite, out of order, or begins below ``least``.
    """
    pair = (value, value) if is_number(value) else value
    if not (isinstance(pair, (tuple, list)) and len(pair) == 2 and all(map(is_number, pair))):
        raise ValueError(f"{name} is a number of seconds, or a range (lowest, highest), and not {value!r}")
    low, high = float(pair[0]), float(pair[1])
    lowest = float("-inf") if least is None else least
    if not (lowest <= low <= high < float("inf") and low > float("-inf")):
        bound = "" if least is None else f" from {least:g}"
        raise ValueError(f"{name} is a range (lowest, highest) of seconds{bound}, and not {value!r}")
    return low, high


def check_share(name: str, value: object) -> None:
    if not (is_number(value) and 0 <= value <= 1):  # type: ignore[operator]
        raise ValueError(f"{name} is a share, from 0 to 1, and not {value!r}")


def check_seconds(seconds: object) -> None:
    """Check that a duration is a finite number above 0, or None. Raises: ValueError."""
    if seconds is not None and not (is_number(seconds) and 0 < seconds < float("inf")):  # type: ignore[operator]
        raise ValueError(f"seconds is a number above 0, or None, and not {seconds!r}")
