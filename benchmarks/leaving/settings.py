"""Settings that both rivals use."""

COUNTS = (100, 10_000, 100_000)
"""Numbers of dhagas or greenlets that wait for the same thing."""

LEAVERS = 500
"""Number of those that leave; at most half of the waiters leave."""

SPREAD_SECONDS = 1.0
"""Seconds over which 100,000 deadlines are spread."""

TICK = 0.001


def leaver_count(count: int) -> int:
    return min(LEAVERS, count // 2)


def seconds_until_all_wait(count: int) -> float:
    """Return the number of seconds after which all are waiting, so that deadlines may expire."""
    return 1.0 + count * 80e-6
