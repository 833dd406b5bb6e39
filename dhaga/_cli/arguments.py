"""Validators of command line arguments, for argparse's ``type``: each returns the value or raises ArgumentTypeError."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from typing import Any


def process_id(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) < 2**31:
        raise argparse.ArgumentTypeError(f"{text!r} is not a process id")
    return int(text)


def count(text: str) -> int:
    """Return a whole number from 1."""
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1")
    return int(text)


def seconds(text: str) -> float:
    """Return a number of seconds, 0 or more."""
    value = float_or_nan(text)
    if not value >= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds, 0 or more")
    return value


def seconds_between(lowest: float, highest: float) -> Callable[[str], float]:
    """Return a validator of seconds within these bounds, both included."""

    def validate(text: str) -> float:
        value = float_or_nan(text)
        if not lowest <= value <= highest:
            raise argparse.ArgumentTypeError(f"{text!r} is not between {lowest:g} and {highest:g} seconds")
        return value

    return validate


def float_or_nan(text: str) -> float:
    """Return the number, or a NaN, which no comparison of a validator accepts."""
    try:
        return float(text)
    except ValueError:
        return math.nan


def or_none(validator: Callable[[str], Any]) -> Callable[[str], Any]:
    """Return a validator that accepts ``none`` for None, and what ``validator`` accepts."""

    def validate(text: str) -> Any:
        return None if text == "none" else validator(text)

    return validate
