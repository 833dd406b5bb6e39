"""Shares of the time: held and computed, measured at each switch, and only while somebody asks."""

from __future__ import annotations

import time
from typing import Any

import pytest

import dhaga
from dhaga._kernel.process import preemption_watcher
from dhaga.debug._cpu_share import Share
from dhaga.debug._remote.client import InspectorClient


def ask_until(line: InspectorClient, found: Any) -> dict[str, Any]:
    """Ask for the table until it has what is looked for."""
    while not found(answer := line.ask("table")):
        time.sleep(0.01)
    return answer


def row_of(answer: dict[str, Any], name: str) -> dict[str, Any]:
    """Return the row of the one dhaga of a name."""
    (row,) = (row for row in answer["rows"] if row["name"] == name)
    return row


def test_shares_tell_who_ran(line: InspectorClient, observed: dhaga.Scheduler) -> None:
    def compute() -> None:
        while True:
            sum(range(10_000))
            dhaga.sleep(0)

    observed.spawn(compute, name="computes", daemon=True)
    observed.spawn(dhaga.sleep, 60, name="sleeps", daemon=True)
    assert not line.ask("table")["measured"]

    def is_told(answer: dict[str, Any]) -> bool:
        # Where another thread holds the interpreter lock and waits for a processor, an answer may show a block.
        return bool(answer["measured"] and row_of(answer, "computes")["share"] and not answer["blocks"])

    answer = ask_until(line, is_told)
    for column in ("held", "share"):
        of = {row["name"]: row[column] for row in answer["rows"]}
        assert of["computes"] > of["sleeps"]


def test_who_has_held_the_thread_since_before_the_question_has_all_of_the_time(
    line: InspectorClient, observed: dhaga.Scheduler
) -> None:
    let_go = []

    def hold() -> None:
        while not let_go:
            pass

    observed.spawn(hold, name="holds")
    ask_until(line, lambda answer: row_of(answer, "holds")["state"] == "RUNNING")
    assert row_of(line.ask("table"), "holds")["held"] == 1.0
    let_go.append(True)


@pytest.mark.parametrize("yields", [True, False])
def test_who_blocks_in_c_holds_the_thread_without_computing_and_is_named_with_the_cure(
    line: InspectorClient, observed: dhaga.Scheduler, yields: bool
) -> None:
    let_go: list[bool] = []

    def block() -> None:
        while not let_go:
            time.sleep(0.2)
            if yields:
                dhaga.sleep(0)

    observed.spawn(block, name="blocks")
    answer = ask_until(line, lambda answer: answer["blocks"] and "(at " in answer["blocks"][0][2])
    ((ident, name, text),) = answer["blocks"]
    row = row_of(answer, "blocks")
    assert (ident, name) == (row["ident"], "blocks") and row["held"] > 0.25 > row["share"]
    assert text.startswith("holds observed for ") and "from dhaga import time" in text
    assert text.endswith(" in block)")
    let_go.append(True)


@pytest.mark.parametrize(
    ("share", "blocks"),
    [
        (Share(0.9, 0.01), True),
        (Share(0.9, 0.01, delayed=0.8), False),  # it waits for a processor
        (Share(0.9, 0.5), False),
        (Share(0.1, 0.0), False),
        (Share(0.9, None), False),
    ],
)
def test_only_a_long_hold_that_neither_computes_nor_waits_for_a_processor_is_a_block(
    share: Share, blocks: bool
) -> None:
    assert share.blocks is blocks


def test_without_a_clock_of_the_thread_the_held_time_alone_is_known(
    line: InspectorClient, observed: dhaga.Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    observed.spawn(dhaga.sleep, 60, name="sleeps", daemon=True)
    monkeypatch.setattr(preemption_watcher, "cpu_clocks", {})

    def compute() -> None:
        while True:
            dhaga.sleep(0)

    observed.spawn(compute, name="computes", daemon=True)
    answer = ask_until(line, lambda answer: answer["measured"] and row_of(answer, "computes")["held"])
    assert row_of(answer, "computes")["share"] is None and not answer["blocks"]
