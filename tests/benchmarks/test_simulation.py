"""The published defects that a simulation finds, and its speed: the programs, the results, and the pages."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.simulation import __main__ as main
from benchmarks.simulation import published
from benchmarks.simulation.__main__ import BEGIN, END, RESULTS, TABLES, shown
from benchmarks.simulation.published import HERE, REPLAYS, SEEDS, cases

pytestmark = pytest.mark.once


def results() -> dict[str, dict[str, object]]:
    return json.loads((RESULTS / "simulation_published.json").read_text())["cases"]


def test_each_case_has_a_program_and_each_program_a_case() -> None:
    assert {path.stem for path in (HERE / "programs").glob("*.py")} == {case.name for case in cases()}
    assert all(case.title and case.report.startswith("https://") for case in cases())


def test_thirty_published_defects_are_found_and_nearly_all_replayed_each_time() -> None:
    found = [each for each in results().values() if "replayed" in each and int(str(each["runs"])) <= SEEDS]
    assert len(found) >= 30
    assert sum(each["replayed"] == REPLAYS for each in found) >= len(found) - 2
    assert all(0 <= int(str(each["replayed"])) <= REPLAYS for each in found)


def test_a_measurement_of_some_cases_keeps_the_results_of_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "simulation_published.json").write_text(json.dumps({"cases": {"first": 1, "second": 2}}))
    monkeypatch.setattr(main, "RESULTS", tmp_path)
    case = published.Case("second", "https://example.com", "AssertionError", [])
    monkeypatch.setattr(case, "measure", lambda: 3)
    monkeypatch.setattr(main, "cases", lambda names: [case])
    main.published(["second"])
    written = json.loads((tmp_path / "simulation_published.json").read_text())
    assert written["cases"] == {"first": 1, "second": 3}


def test_the_table_shows_a_later_release_as_it_was_found() -> None:
    later = {"releases": ["waitress==2.1.2"], "runs": 500, "error": ""}
    assert published.later_release({"later": later}) == "2.1.2: passes, 500"
    assert published.later_release({"later": {**later, "error": "Deadlock", "runs": 103}}) == "2.1.2: Deadlock, 103"
    assert published.later_release({}) == ""


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
