"""The last lines that touch the names of the failed statement."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from dhaga.simulation import Outcome, Settings, search, shrink
from dhaga.simulation._world.report import failure_text
from dhaga.simulation._world.touches import last_touches


class Table:
    def __init__(self) -> None:
        self.rows: list[int] = []


def counts_before_a_wait() -> None:
    table = Table()

    def add() -> None:
        number = len(table.rows)
        time.sleep(1)
        table.rows.append(number)

    threads = [threading.Thread(target=add, name=name) for name in ("one", "two")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert table.rows == [0, 1]


def test_a_failure_in_plain_order_shows_who_touched_the_names_last() -> None:
    settings = Settings()
    text = failure_text(shrink(counts_before_a_wait, settings, search(counts_before_a_wait, seeds=1).failures[0]))
    _, _, touches = text.partition("the last lines that touch rows, table:\n")
    words = [line.split() for line in touches.partition("\n\n")[0].splitlines()]
    count, append = "number = len(table.rows)", "table.rows.append(number)"
    assert [(name, " ".join(source)) for name, _, *source in words][-4:] == [
        *(("one", count), ("two", count)),
        *(("one", append), ("two", append)),
    ]


def fails_before_a_cleanup() -> None:
    try:
        counts_before_a_wait()
    finally:
        rest = [1, 2, 3]
        rest.clear()


def test_lines_that_run_after_the_failed_statement_do_not_count() -> None:
    settings = Settings()
    failed = search(fails_before_a_cleanup, seeds=1).failures[0]
    text = failure_text(shrink(fails_before_a_cleanup, settings, failed))
    assert "the last lines that touch rows, table:\n" in text and "rest.clear()" not in text


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ([], "no lines were kept"),
        ([(0, 1), (0, 2), (0, 3)], "one member only"),
        ([(0, 1), (1, 4), (0, 3)], "the others touch other names"),
    ],
)
def test_no_table_without_two_members_at_one_name(tmp_path: Path, lines: list[tuple[int, int]], why: str) -> None:
    file = tmp_path / "bank.py"
    file.write_text("total = 0\ntotal += 1\nassert total == 2\nother = 1\n")
    outcome = Outcome(0, kind="AssertionError", names=["main code", "one"])
    outcome.lines = [(member, str(file), line) for member, line in lines]
    assert last_touches(outcome) == "", why
