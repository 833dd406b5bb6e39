"""Times and rates in the form in which they are written on a command line."""

import argparse
import math
import re

SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
BITS = {"kbit": 1e3, "mbit": 1e6, "gbit": 1e9}
UNLIMITED = math.inf


def _read(text: str, units: dict[str, float]) -> float | None:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z]+)", text.strip().lower())
    return float(match[1]) * units[match[2]] if match and match[2] in units else None


def duration(text: str) -> float:
    """Read a time, such as 40ms or 0.5s. Returns: seconds."""
    seconds = 0.0 if text == "0" else _read(text, SECONDS)
    if seconds is None or seconds > 60:
        raise argparse.ArgumentTypeError(f"{text!r} is no time up to a minute: write one like 40ms or 0.5s")
    return seconds


def rate(text: str) -> float:
    """Read the bandwidth of a line, such as 100mbit or 1gbit, or `unlimited`. Returns: bytes per second."""
    if text == "unlimited":
        return UNLIMITED
    bits = _read(text, BITS)
    if not bits:
        raise argparse.ArgumentTypeError(f"{text!r} is not a rate: write one like 100mbit or 1gbit, or unlimited")
    return bits / 8


def in_words(text: str) -> str:
    """Return a rate that `rate` reads as words for a reader, such as 100 Mbit/s."""
    return re.sub(
        r"^([\d.]+)\s*([a-z]*)bit$", lambda found: f"{found[1]} {found[2].title()}bit/s", text.strip().lower()
    )
