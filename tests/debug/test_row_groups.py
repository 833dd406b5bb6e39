"""Groups of rows: what is alike, what stands alone, and how a group is named."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import dhaga
from dhaga._sync.event import Event
from dhaga.debug import _row_groups
from dhaga.debug._cpu_share import Share
from dhaga.debug._row_groups import RowGroup, columns_of_group, into_groups
from dhaga.debug._table_row import row_of
from dhaga.testing import settle, virtual_clock


@pytest.fixture
def clock() -> Iterator[None]:
    with virtual_clock():
        yield


def test_waiters_for_one_object_are_a_group_and_those_for_different_ones_another(clock: None) -> None:
    common, others = Event(), [Event() for _ in range(4)]
    dhagas = [dhaga.spawn(common.wait, name=f"common-{n}") for n in range(3)]
    dhagas += [dhaga.spawn(event.wait, name=f"other-{n}") for n, event in enumerate(others)]
    dhagas += [dhaga.spawn(dhaga.sleep, 5) for _ in range(2)]
    settle()
    rows = [row_of(each, "s", {}) for each in dhagas]
    first, second, *single = into_groups(rows, ())
    assert isinstance(first, RowGroup) and first.rows == rows[:3]
    assert isinstance(second, RowGroup) and second.rows == rows[3:7]
    assert single == rows[7:]  # two are no group
    shown = columns_of_group(second)
    assert (shown["name"], shown["count"], shown["waits_on"]) == ("other-…", 4, "4 different")
    assert columns_of_group(first)["waits_on"] == repr(common)
    assert (shown["held"], shown["share"]) == (0.0, 0.0)
    for event in [common, *others]:
        event.set()
    for each in dhagas:
        each.join()


def test_busy_and_deadlocked_dhagas_stand_alone(clock: None) -> None:
    sleepers = [dhaga.spawn(dhaga.sleep, 5, name="s") for _ in range(6)]
    settle()
    rows = [row_of(each, "s", {sleepers[1].ident: Share(_row_groups.BUSY_SHARE, 0.0)}) for each in sleepers]
    lines = into_groups(rows, {sleepers[0]})
    assert lines[:2] == rows[:2]
    (group,) = lines[2:]
    assert isinstance(group, RowGroup) and group.rows == rows[2:]
    for each in sleepers:
        each.join()


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        (["same", "same"], "same"),
        (["w-1", "w-2", "feeder"], "w-…, feeder"),
        (["1", "2"], "…"),
        (["a-1", "a-2", "b-1", "c", "d"], "a-…, b-…, c, …"),
    ],
)
def test_names_are_shortened_to_what_they_share(names: list[str], shown: str) -> None:
    assert _row_groups.names_in_short(names) == shown
