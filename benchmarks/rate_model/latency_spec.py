"""Text forms of durations, such as "20ms", and of the latencies of upstreams, such as "20ms*9,30s"."""

import re
from collections import Counter
from collections.abc import Sequence
from itertools import groupby

UNITS = {"us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0}
HANGING = 10.0
"""Seconds of latency from which on an upstream counts as hanging, because a run takes less time."""

DURATION = re.compile(rf"(\d+(?:\.\d+)?)({'|'.join(UNITS)})")


def duration(text: str) -> float:
    """Read one duration. Returns: seconds. Raises: ValueError."""
    found = DURATION.fullmatch(text.strip())
    if not found:
        raise ValueError(f"{text!r} is not a duration: write a number and its unit, as 500us, 20ms or 30s")
    return float(found[1]) * UNITS[found[2]]


def latencies(text: str) -> list[float]:
    """Read one latency for each upstream, in their order; `20ms*9` stands for nine. Raises: ValueError."""
    found: list[float] = []
    for part in text.split(","):
        latency, star, times = part.partition("*")
        if star and not (times.strip().isdecimal() and int(times)):
            raise ValueError(f"{part.strip()!r}: after the * write how many upstreams there are, as in 20ms*9")
        found += [duration(latency)] * (int(times) if star else 1)
    return found


def spelled(latencies: Sequence[float]) -> str:
    """Return latencies as text that the function `latencies` can read."""
    runs = ((latency, len(list(same))) for latency, same in groupby(latencies))
    return ",".join(_one(latency) + (f"*{times}" if times > 1 else "") for latency, times in runs)


def in_words(rate: float, latencies: Sequence[float], real: bool = False) -> str:
    """Return in words the rate of the requests and the latencies of the upstreams; from `HANGING` on, one hangs."""
    (first, count), *more = Counter(latencies).items()
    parts = [f"{count} upstream{'s' * (count > 1)} {_answers(first, count)}"]
    parts += [f"{count} {_answers(seconds, count)}" for seconds, count in more]
    return f"{rate:,g}/s to {', '.join(parts)}{' (processes)' * real}"


def _answers(seconds: float, count: int) -> str:
    return f"of {_number_and_unit(seconds)}" if seconds < HANGING else "that hangs" if count == 1 else "that hang"


def _number_and_unit(seconds: float) -> str:
    return re.sub(r"(?<=\d)(?=[a-z])", " ", _one(seconds))


def _one(seconds: float) -> str:
    unit = next((unit for unit in ("s", "ms") if seconds >= UNITS[unit]), "us")
    return f"{seconds / UNITS[unit]:g}{unit}"
