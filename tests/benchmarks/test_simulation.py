"""The published defects that a simulation finds, and its speed: the programs, the results, and the pages."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.simulation import published
from benchmarks.simulation.__main__ import BEGIN, END, RESULTS, TABLES, shown
from benchmarks.simulation.published import HERE, REPLAYS, SEEDS, cases

pytestmark = pytest.mark.once


def results() -> dict[str, dict[str, object]]:
    return json.loads((RESULTS / "simulation_published.json").read_text())["cases"]  # type: ignore[no-any-return]


def test_each_case_has_a_program_and_each_program_a_case() -> None:
    assert {path.stem for path in (HERE / "programs").glob("*.py")} == {case.name for case in cases()}
    assert all(case.title and case.report.startswith("https://") for case in cases())


def test_twelve_published_defects_are_found_and_replayed_each_time() -> None:
    found = [each for each in results().values() if each.get("replayed") == REPLAYS and int(str(each["runs"])) <= SEEDS]
    assert len(found) >= 12


@pytest.mark.parametrize("name", TABLES)
def test_the_page_shows_the_results(name: str) -> None:
    assert TABLES[name][0].read_text().split(BEGIN)[1].split(END)[0].strip() == shown(name)


LOST_UPDATE = """
import threading

total = 0


def add():
    global total
    seen = total
    total = seen + 1


threads = [threading.Thread(target=add) for _ in range(2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert total == 2
"""


def test_a_defect_is_searched_and_replayed_in_other_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "programs").mkdir()
    (tmp_path / "programs/lost.py").write_text(LOST_UPDATE)
    monkeypatch.setattr(published, "HERE", tmp_path)
    monkeypatch.setattr(published, "REPLAYS", 3)
    found = published.Case("lost", "https://example.com", "AssertionError", []).measure()
    assert (found["error"], found["replayed"]) == ("AssertionError", 3)
    assert 1 < found["runs"] <= SEEDS


def test_an_unknown_case_is_an_error() -> None:
    with pytest.raises(ValueError, match="there is no case bonk; there are urllib3_evicted_pool, "):
        cases(["bonk"])
