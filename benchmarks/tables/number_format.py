"""Formats figures. Bounds are compared with the printed form of a figure."""

import math
from collections.abc import Sequence


def decimals(value: float) -> int:
    """Return the number of decimals to print: for three significant digits, or for two if the value is below 1."""
    if not value:
        return 0
    power = math.floor(math.log10(abs(value)))
    return max(0, 2 - power if power >= 0 else 1 - power)


def rounded(value: float) -> float:
    """Return the value as it is printed."""
    return round(value, decimals(value))


def printed(value: float) -> str:
    """Return a value as text, without a unit: 1.50, 27.9, 63,259."""
    return f"{value:,.{decimals(value)}f}"


def with_unit(text: str, unit: str) -> str:
    """Append a unit to one or more figures: 1.50x, 1.50x gevent, 70%, 153 MB."""
    return f"{text}{unit}" if unit.split(" ")[0] in ("x", "%") else f"{text} {unit}".rstrip()


def bounded(bound: float, at_least: bool, unit: str) -> str:
    """Return a bound as text, without zeros at its end: ≥ 1.5x."""
    text = printed(bound)
    short = text.rstrip("0").rstrip(".") if "." in text else text
    return f"{'≥' if at_least else '≤'} {with_unit(short, unit)}"


def spread(samples: Sequence[float]) -> str:
    """Return the least and the greatest sample as text: 1.40–1.61; an empty text for a single sample."""
    return f"{printed(min(samples))}–{printed(max(samples))}" if len(samples) > 1 else ""
