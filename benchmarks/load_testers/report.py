"""Computes from the samples the users that a core holds, ratios within a round, and tables."""

import statistics
from collections.abc import Sequence

from benchmarks.load_testers.samples import Sample
from benchmarks.tables.outcome import Claim, Table

Rows = dict[str, dict[str, list[Sample]]]
"""For each row and rival, by their names, one sample per round."""

ALIKE = {"dhaga": "HttpUser", "dhaga light": "FastHttpUser"}
"""For each client of `examples/load`, the class of Locust to compare it with."""

PAUSE = 1.0  # seconds of a user between an answer and the next request
FULL, ENOUGH, LATE = 0.9, 0.95, 0.250
"""Users are held at up to this fraction of the core, at least this fraction of the rate, and up to this p99 (seconds).
"""

FLAT_OUT = "without a pause"


def row_of(users: int) -> str:
    """Return the name of the row with this number of users."""
    return f"{users:,} users"


def sizes(rows: Rows) -> list[int]:
    """Return the numbers of users that have a row."""
    return sorted(int(row.split()[0].replace(",", "")) for row in rows if row != FLAT_OUT)


def is_held(users: int, one: Sample) -> bool:
    """Return whether one core has held this number of users."""
    return not one.failed and one.p99 <= LATE and one.rate >= ENOUGH * users / PAUSE and one.busy <= FULL


def users_held(rows: Rows, rival: str, number: int) -> float:
    """Return how many users a core holds in one round. Extrapolate from the most that it held, or from the fewest."""
    rungs = [(users, rows[row_of(users)][rival][number]) for users in sizes(rows) if rival in rows[row_of(users)]]
    held = [rung for rung in rungs if is_held(*rung)]
    users, one = held[-1] if held else rungs[0]
    return min(users, one.rate * PAUSE) * FULL / one.busy


def claims(rows: Rows) -> list[Claim]:
    """Return the claims about ratios to Locust, if Locust was measured."""
    found = []
    rivals = rows[FLAT_OUT]
    for ours, theirs in ((ours, theirs) for ours, theirs in ALIKE.items() if theirs in rivals):
        pairs = list(zip(rivals[ours], rivals[theirs], strict=True))
        held = [users_held(rows, ours, number) / users_held(rows, theirs, number) for number in range(len(pairs))]
        rates = [mine.rate_by_cpu / other.rate_by_cpu for mine, other in pairs]
        found.append(Claim(f"users that a core holds, {ours} over Locust's {theirs}", 1.0, True, held))
        found.append(Claim(f"highest rate by CPU time, {ours} over Locust's {theirs}", 1.0, True, rates))
    return found


def median(samples: Sequence[Sample], key: str) -> float:
    """Return the median over the rounds."""
    return statistics.median(float(getattr(one, key)) for one in samples)


def table_of_users(rows: Rows) -> Table:
    """Return the table of the cost of users who send a request once per second."""
    head = ("users", "tester", "requests/s", "of a CPU", "CPU µs a request", "p99 ms", "KB a user", "held")
    lines = [
        [f"{users:,}", rival, *_costs(samples), f"{sum(is_held(users, one) for one in samples)} of {len(samples)}"]
        for users in sizes(rows)
        for rival, samples in rows[row_of(users)].items()
    ]
    return Table("Users who ask once a second; held: in so many rounds by one core", head, lines)


def _costs(samples: Sequence[Sample]) -> list[str]:
    return [
        f"{median(samples, 'rate'):,.0f}",
        f"{median(samples, 'busy'):.0%}",
        f"{1e6 / median(samples, 'rate_by_cpu'):,.0f}",
        f"{1e3 * median(samples, 'p99'):,.0f}",
        f"{median(samples, 'memory') / 1e3:,.0f}",
    ]


def table_of_rates(rows: Rows) -> Table:
    """Return the table of the highest rates, and of the users that a core holds."""
    lines = []
    for rival, samples in rows[FLAT_OUT].items():
        held = statistics.median(users_held(rows, rival, number) for number in range(len(samples)))
        rates = [f"{median(samples, key):,.0f}" for key in ("rate", "rate_by_cpu")]
        lines.append([rival, *rates, f"{1e3 * median(samples, 'p99'):,.0f}", f"{held:,.0f}"])
    head = ("tester", "requests/s", "by CPU second", "p99 ms", "users that a core holds")
    return Table("Users who ask without a pause, and what follows of the table above", head, lines)
