"""What both rivals keep to."""

COUNTS = (100, 10_000, 100_000)
"""How many wait for the same thing."""

LEAVERS = 500
"""How many of them leave, at most half."""

SPREAD_SECONDS = 1.0
"""The stretch over which 100,000 deadlines are spread."""

TICK = 0.001


def leaver_count(count: int) -> int:
    return min(LEAVERS, count // 2)


def seconds_until_all_wait(count: int) -> float:
    """Return the seconds after which all wait, and deadlines may expire."""
    return 1.0 + count * 80e-6
