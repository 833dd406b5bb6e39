"""CPU shares: measured at each switch, and only while somebody asks."""

from __future__ import annotations

import dhaga
from dhaga.debug._remote.client import InspectorClient


def test_shares_tell_who_ran(line: InspectorClient, observed: dhaga.Scheduler) -> None:
    def compute() -> None:
        while True:
            sum(range(10_000))
            dhaga.sleep(0)

    observed.spawn(compute, name="computes", daemon=True)
    observed.spawn(dhaga.sleep, 60, name="sleeps", daemon=True)
    assert not line.ask("table")["measured"]
    while not (answer := line.ask("table"))["measured"] or not answer["rows"][0]["share"]:
        pass
    of = {row["name"]: row["share"] for row in answer["rows"]}
    assert of["computes"] > of["sleeps"]


def test_who_has_held_the_thread_since_before_the_question_has_all_of_the_time(
    line: InspectorClient, observed: dhaga.Scheduler
) -> None:
    let_go = []

    def hold() -> None:
        while not let_go:
            pass

    observed.spawn(hold, name="holds")
    while line.ask("table")["states"] != {"RUNNING": 1}:
        pass
    (row,) = line.ask("table")["rows"]
    assert (row["name"], row["share"]) == ("holds", 1.0)
    let_go.append(True)
