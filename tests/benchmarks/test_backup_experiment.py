"""The backup experiment: what it makes of its samples, and that a run which has lost something does not count."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from benchmarks.backup import __main__ as backup
from benchmarks.backup import report
from benchmarks.backup.run import BackupRun, LinkProfile, WrongBackup, back_up
from benchmarks.backup.samples import RIVALS, Effort
from benchmarks.backup.tree import TreeShape, plant
from benchmarks.tables.outcome import Outcome
from benchmarks.tables.validation import problems

pytestmark = pytest.mark.once

SMALL = TreeShape(5, 100_000)


def run(seconds: float, cpu: float, peak: float) -> dict[str, Any]:
    return asdict(
        BackupRun(seconds, cpu, 0.2, int(peak * 1e6), 37_000_000, 0.5, 0.1, 0.2, [(0.1, 0), (1.0, 37_000_000)])
    )


def samples(*rates: str) -> dict[str, Any]:
    """Two rounds: 4 x 32 are 4 and 2 times as fast as 32 threads, with 0.5 of the CPU time of 128."""
    rounds = {
        "32 threads": [run(8, 1, 50), run(8, 1, 50)],
        "128 threads": [run(2, 2, 110), run(2, 4, 110)],
        "4 x 32 dhagas": [run(2, 1, 45), run(4, 2, 45)],
        "1 x 128 dhagas": [run(1, 1, 40), run(1, 1, 40)],
        "1 x 1024 dhagas": [run(1, 1, 60), run(1, 1, 60)],
    }
    return {"lines": dict.fromkeys(rates, rounds), "alone": {"threads": run(9, 1, 30), "dhagas": run(9, 1, 35)}}


def outcome(*rates: str) -> Outcome:
    found = samples(*rates)
    effort = Effort(rates=rates)
    claims, tables = list(report.claims(found, "files")), report.tables(found, 3200)
    return Outcome("backup", "t", "s", {"w": 1}, {"k": 1}, found, claims, tables, report.notes(found, effort))


def test_ratios_are_taken_within_a_round_and_memory_over_one_worker() -> None:
    values = {claim.what: list(claim.samples) for claim in outcome("100mbit").claims}
    assert values == {
        "100 Mbit/s: 4 x 32 dhagas over 32 threads": [4.0, 2.0],
        "100 Mbit/s: 4 x 32 dhagas over 128 threads": [1.0, 0.5],
        "100 Mbit/s: 1 x 128 dhagas over 128 threads": [2.0, 2.0],
        "100 Mbit/s: 1 x 1024 dhagas over 4 x 32 dhagas": [2.0, 4.0],
        "CPU seconds, 4 x 32 dhagas to 128 threads": [0.5, 0.5],
        "CPU seconds, 1 x 128 dhagas to 128 threads": [0.5, 0.25],
        "memory that concurrency adds, 4 x 32 dhagas to 128 threads": [0.125, 0.125],
        "memory that concurrency adds, 1 x 128 dhagas to 128 threads": [0.0625, 0.0625],
    }


@pytest.mark.parametrize("rates", [("20mbit", "100mbit", "1gbit"), ("unlimited",)])
def test_it_is_whole_for_any_lines_and_draws_from_what_was_saved(rates: tuple[str, ...], tmp_path: Path) -> None:
    loaded = Outcome.load(outcome(*rates).save(tmp_path))
    assert problems(loaded, backup.draw(loaded)) == []


def test_the_notes_say_what_the_line_allows() -> None:
    (said,) = [note for note in outcome("100mbit").notes if "No rival" in note]
    assert "take 32 workers 8.0 s" in said and "37 MB" in said and "in 3.0 s" in said and "2.7 times" in said


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("backup") / "tree"
    assert len(list(plant(root, SMALL))) == SMALL.files
    return root


def test_a_backup_through_the_relay_arrives_whole(tree: Path) -> None:
    found = back_up(tree, SMALL, RIVALS["4 x 32 dhagas"], LinkProfile("2ms", "100mbit", None))
    assert 0 < found.sent < found.progress[-1][1] and 0 < found.line < 1
    assert found.seconds > 0.008  # handshake, greeting, have, put: four round trips at least
    assert found.peak > 10_000_000 and found.cpu > 0 and found.cpu_beside > 0


def test_a_backup_that_is_not_what_was_to_be_saved_does_not_count(tree: Path) -> None:
    with pytest.raises(WrongBackup, match=r"files=5, .* of TreeShape.files=6"):
        back_up(tree, TreeShape(6, 100_000), "--workers threads --threads 1", LinkProfile("0", "unlimited", None))
    assert [path.name for path in tree.parent.iterdir()] == ["tree"]
