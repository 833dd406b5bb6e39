"""The table of all dhagas: counts, filter, order, circles."""

from __future__ import annotations

import pytest

import dhaga
from dhaga._kernel.wait.thread_waiter import OSThread
from dhaga._sync.lock import Lock
from dhaga.debug import _dhaga_table
from dhaga.debug._cpu_share import Share
from dhaga.debug._remote.client import InspectorClient
from dhaga.debug._row_groups import RowGroup
from dhaga.debug._table_row import DhagaRow
from tests.kit.inspectors import park_all


def test_a_table_counts_all_and_shows_those_in_which_the_filter_is_found(
    line: InspectorClient, observed: dhaga.Scheduler
) -> None:
    lock = Lock()

    def hold() -> None:
        with lock:
            dhaga.sleep(60)

    park_all(observed, observed.spawn(hold, name="holder"))
    waiters = [observed.spawn(lock.acquire, name=name) for name in ("beta", "alpha")]
    park_all(observed, *waiters)
    answer = line.ask("table", sort="name")
    assert (answer["total"], answer["states"]) == (4, {"RUNNING": 1, "WAITING": 3})  # with main code, which asks
    assert answer["headline"] == "3 dhagas and main code: 3 waiting, 1 running"
    assert answer["reasons"] == [["lock.acquire", 2], ["sleep", 1]]
    assert [row["name"] for row in answer["rows"]] == ["alpha", "beta", "holder", "main code"]
    answer = line.ask("table", filter="LOCK.acq", sort="age", most=1)
    assert (answer["total"], answer["matching"]) == (4, 2)
    (row,) = answer["rows"]
    assert (row["name"], row["held_by"], row["scheduler"]) == ("beta", ["holder"], "observed")
    assert row["seconds"] >= 0
    observed.call(observed.cancel_all)


@pytest.mark.parametrize(
    ("kinds", "states", "said"),
    [
        ({}, {}, "0 dhagas"),
        ({"dhaga": 1}, {"RUNNING": 1}, "1 dhaga: 1 running"),
        ({"dhaga": 1200}, {"NEW": 1, "WAITING": 1199}, "1,200 dhagas: 1,199 waiting, 1 new"),
        (
            {"dhaga": 2, "main code": 1, "OS thread": 1},
            {"WAITING": 4},
            "2 dhagas, main code and 1 OS thread, all waiting",
        ),
        (
            {"dhaga": 45, "main code": 1},
            {"WAITING": 45, "RUNNING": 1},
            "45 dhagas and main code: 45 waiting, 1 running",
        ),
        ({"main code": 2}, {"WAITING": 2}, "main code of 2 threads, all waiting"),
    ],
)
def test_the_headline_says_what_it_counts(kinds: dict[str, int], states: dict[str, int], said: str) -> None:
    assert _dhaga_table.headline(kinds, states) == said


@pytest.mark.parametrize("sort", _dhaga_table.SORTS)
def test_rows_come_in_any_order_that_is_offered(line: InspectorClient, observed: dhaga.Scheduler, sort: str) -> None:
    for _ in range(3):
        observed.spawn(dhaga.sleep, 60)
    assert line.ask("table", sort=sort)["matching"] == 4  # with main code
    observed.call(observed.cancel_all)


def test_those_who_wait_for_each_other_are_named(line: InspectorClient, observed: dhaga.Scheduler) -> None:
    locks = Lock(), Lock()

    def cross(first: Lock, second: Lock) -> None:
        with first:
            while not second.locked():
                dhaga.sleep(0)
            second.acquire()

    both = [observed.spawn(cross, *locks, name="left"), observed.spawn(cross, *locks[::-1], name="right")]
    park_all(observed, *both)
    while line.ask("table")["cycles"] != [["left", "right"]]:
        pass
    assert "deadlock: left waits for right waits for left" in line.ask("dump")["text"]
    for _ in range(3):
        observed.spawn(dhaga.sleep, 60, name="a")
    for sort in _dhaga_table.SORTS:  # the two come first, so that no cut hides them
        answer = line.ask("table", sort=sort, most=1)
        assert (answer["matching"], sorted(row["name"] for row in answer["rows"])) == (6, ["left", "right"])
    observed.call(observed.cancel_all)


def test_rows_are_grouped_before_they_are_cut(line: InspectorClient, observed: dhaga.Scheduler) -> None:
    lock = Lock()

    def hold() -> None:
        with lock:
            dhaga.sleep(60)

    sleepers = [observed.spawn(dhaga.sleep, 60, name=f"sleeper-{n}") for n in range(60)]
    holder = observed.spawn(hold, name="holder")
    park_all(observed, *sleepers, holder)
    park_all(observed, *(observed.spawn(lock.acquire, name=f"last-{n}") for n in range(30)))
    plain = line.ask("table", sort="age", most=50)
    assert [row["name"] for row in plain["rows"]] == [f"sleeper-{n}" for n in range(50)]
    assert plain["hidden"] == 42  # with main code
    answer = line.ask("table", sort="age", most=2, grouped=True)
    shown = [(row["kind"], row["count"], row["name"], row["open"]) for row in answer["rows"]]
    assert shown == [("group", 61, "sleeper-…, holder", False), ("group", 30, "last-…", False)]
    assert [row["waits_on"] for row in answer["rows"]] == [None, "<Lock held by holder, 30 parked>"]
    assert (answer["hidden"], line.ask("table", most=1, grouped=True)["hidden"]) == (1, 91)
    key = answer["rows"][1]["key"]
    opened = line.ask("table", sort="age", most=2, grouped=True, opened=[key, "no key"])
    assert [row["name"] for row in opened["rows"]] == ["sleeper-…, holder", "last-…", "last-0", "last-1"]
    assert [row.get("member") for row in opened["rows"]] == [None, None, True, True]
    observed.call(observed.cancel_all)


@pytest.mark.parametrize("sort", ["held", "share"])
def test_by_a_share_a_group_counts_with_the_sum_of_its_rows(sort: str) -> None:
    lines = [row_with(1, 0.2), *(row_with(ident, 0.04) for ident in range(2, 12))]
    group, alone = _dhaga_table.lines_of(lines, (), sort)
    assert isinstance(group, RowGroup) and len(group.rows) == 10 and alone is lines[0]
    assert _dhaga_table.lines_of(lines, (), "age")[0] is lines[0]
    deadlocked = {lines[5].waiter}
    assert _dhaga_table.lines_of(lines, deadlocked, sort)[0] is lines[5]


def row_with(ident: int, share: float) -> DhagaRow:
    return DhagaRow(OSThread(), ident, f"d-{ident}", "WAITING", "sleep", 1.0, "s", Share(share, share))
