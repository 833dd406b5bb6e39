"""Quantities as people write and read them: durations, percentages, counts."""

from __future__ import annotations

import re

UNITS = {"us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
NUMBER = r"\d+(?:\.\d+)?"


def seconds(text: str) -> float:
    """Read a duration: 500ms, 10s, 2m, 1h; a bare number is seconds. Raises: ValueError."""
    match = re.fullmatch(rf"({NUMBER})\s*(us|µs|ms|s|m|h|)", text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not a duration: write one like 500ms, 10s or 2m")
    return float(match[1]) * UNITS[match[2] or "s"]


def share(text: str) -> float:
    """Read a percentage: 1% or 0.5%. Returns: 0 to 1. Raises: ValueError."""
    match = re.fullmatch(rf"({NUMBER})\s*%", text.strip())
    if match is None or float(match[1]) > 100:
        raise ValueError(f"{text!r} is no percentage: write one like 1% or 0.5%")
    return float(match[1]) / 100


def number(text: str) -> float:
    """Read a number that is not negative. Raises: ValueError."""
    if not re.fullmatch(NUMBER, text.strip()):
        raise ValueError(f"{text!r} is not a number: write one like 500 or 0.5")
    return float(text)


def told(duration: float) -> str:
    """Write a duration in the unit that suits it, to three digits."""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if duration >= 0.9995 * size:
            return f"{duration / size:,.{digits(duration / size)}f} {unit}"
    return f"{duration * 1e6:.0f} µs"


def digits(value: float) -> int:
    """Return how many decimals show three digits of a value."""
    return 2 if value < 9.995 else 1 if value < 99.95 else 0


def percent(part: float) -> str:
    """Write a share."""
    if part in (0.0, 1.0):
        return f"{part:.0%}"
    return f"{100 * part:.{2 if part < 0.0995 else 1}f}%"
