"""Groups of rows of the table: dhagas with the same state and reason are shown as one line with a count.

Rows that wait for the same object form a group. The other rows with the same state and reason, such as sleepers or
readers of many sockets, form another group. Deadlocked and busy dhagas are never grouped. Rows are grouped before the
table is cut to its maximum length, so that a large group cannot displace other rows. The expensive columns are read for
at most two rows of each group.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Container, Hashable, Iterable
from dataclasses import dataclass
from typing import Any

from .._kernel.wait.waiter import Waiter
from ._cpu_share import Share
from ._snapshot import kind_of
from ._table_row import DhagaRow, all_columns, stem

SMALLEST_GROUP = 3
"""Minimum number of rows of a group; fewer rows are shown separately."""

BUSY_SHARE = 0.05
"""A dhaga that holds its OS thread for at least this share of the time has its own row."""

MOST_NAMES = 3
"""Maximum number of different names in a group's line."""


@dataclass(frozen=True, slots=True, eq=False)
class RowGroup:
    """Rows that are shown as one line. ``key`` changes only with the state, reason or object of the rows."""

    key: str
    rows: list[DhagaRow]
    objects: int  # number of different objects for which the rows wait

    @property
    def share(self) -> Share:
        """The sums of the rows' shares."""
        computed = [row.share.cpu for row in self.rows if row.share.cpu is not None]
        known = len(computed) == len(self.rows)
        return Share(sum(row.share.held for row in self.rows), sum(computed) if known else None)


Line = DhagaRow | RowGroup


def into_groups(rows: Collection[DhagaRow], apart: Container[Waiter]) -> list[Line]:
    """Return the lines of the rows; a group is at the place of its first row. Rows in ``apart`` are never grouped."""
    quiet = [(row, id(row.waiter.waits_on)) for row in rows if row.waiter not in apart and row.share.held < BUSY_SHARE]
    of_object, others = large_buckets(((*alike(row), thing), row, thing) for row, thing in quiet)
    of_reason, _ = large_buckets((alike(row), row, thing) for row, thing in others)
    group_of = {row: group for group in [*of_object, *of_reason] for row in group.rows}
    lines: list[Line] = [group_of.get(row, row) for row in rows]
    return list(dict.fromkeys(lines))


def alike(row: DhagaRow) -> tuple[str, str, str]:
    """Return the values that all rows of a group share."""
    return kind_of(row.waiter), row.state, stem(row.reason)


def large_buckets(
    rows: Iterable[tuple[tuple[Hashable, ...], DhagaRow, int]],
) -> tuple[list[RowGroup], list[tuple[DhagaRow, int]]]:
    """Return groups of rows with the same key. Rows of smaller groups are returned separately, with their objects."""
    buckets: defaultdict[tuple[Hashable, ...], list[tuple[DhagaRow, int]]] = defaultdict(list)
    for key, row, thing in rows:
        buckets[key].append((row, thing))
    large = {key: bucket for key, bucket in buckets.items() if len(bucket) >= SMALLEST_GROUP}
    groups = [
        RowGroup(" ".join(map(str, key)), [row for row, _ in bucket], len({thing for _, thing in bucket}))
        for key, bucket in large.items()
    ]
    return groups, [each for key, bucket in buckets.items() if key not in large for each in bucket]


def columns_of_group(group: RowGroup) -> dict[str, Any]:
    """Return the columns of a group's line, with the group's ``key``, ``count``, longest wait and sums of shares."""
    first = all_columns(group.rows[0])
    longest = min((row for row in group.rows if row.since), key=lambda row: row.since, default=group.rows[0])
    apart = {} if group.objects == 1 else {"waits_on": f"{group.objects:,} different", "held_by": []}
    reasons, schedulers = {row.reason for row in group.rows}, {row.scheduler for row in group.rows}
    return {
        **first,
        "kind": "group",
        "ident": 0,
        "name": names_in_short([row.name for row in group.rows]),
        "reason": first["reason"] if len(reasons) == 1 else f"{stem(first['reason'])} …",
        "scheduler": first["scheduler"] if len(schedulers) == 1 else f"{len(schedulers)} different",
        "seconds": all_columns(longest)["seconds"],
        "held": group.share.held,
        "share": group.share.cpu,
        **apart,
        "key": group.key,
        "count": len(group.rows),
    }


def names_in_short(names: Collection[str]) -> str:
    """Return the most frequent names, without trailing numbers: ``worker-…, feeder``."""
    stems = Counter(map(stem, names))
    whole = set(names)
    shown = [each if each in whole else f"{each}…" for each, _ in stems.most_common(MOST_NAMES)]
    return ", ".join([*shown, "…"] if len(stems) > MOST_NAMES else shown)
