"""How figures are printed; whether a bound is reached is judged by what is printed."""

import math
from collections.abc import Sequence


def decimals(value: float) -> int:
    """Return the decimals worth printing: three figures that count, two of what is below 1."""
    if not value:
        return 0
    power = math.floor(math.log10(abs(value)))
    return max(0, 2 - power if power >= 0 else 1 - power)


def rounded(value: float) -> float:
    """Return the value as it is printed."""
    return round(value, decimals(value))


def printed(value: float) -> str:
    """Print without a unit: 1.50, 27.9, 63,259."""
    return f"{value:,.{decimals(value)}f}"


def with_unit(text: str, unit: str) -> str:
    """Append a unit to one or more figures: 1.50x, 1.50x gevent, 70%, 153 MB."""
    return f"{text}{unit}" if unit.split(" ")[0] in ("x", "%") else f"{text} {unit}".rstrip()


def bounded(bound: float, at_least: bool, unit: str) -> str:
    """Print a bound, without zeros at its end: ≥ 1.5x."""
    text = printed(bound)
    short = text.rstrip("0").rstrip(".") if "." in text else text
    return f"{'≥' if at_least else '≤'} {with_unit(short, unit)}"


def spread(samples: Sequence[float]) -> str:
    """Print the least and the greatest: 1.40–1.61; nothing for a single one."""
    return f"{printed(min(samples))}–{printed(max(samples))}" if len(samples) > 1 else ""
