"""`python -m benchmarks.tables`: experiments in processes of their own, and the report of what they measured."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from benchmarks.tables import __main__, experiments, outcome, overview, readme, readme_charts
from benchmarks.tables.overview import Work
from benchmarks.tables.report import Part, bar, page
from tests.benchmarks import made_up
from tests.kit.browser import browsing

pytestmark = pytest.mark.once

ROOT = Path(__file__).parents[2]


@pytest.fixture
def experimenting(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Have these made-up experiments in the place of the real ones, and run the program with arguments."""
    real = dict(experiments.EXPERIMENTS)

    def main(names: str, *arguments: str) -> object:
        experiments.EXPERIMENTS.clear()
        experiments.EXPERIMENTS.update({name: f"tests.benchmarks.{name}" for name in names.split()})
        monkeypatch.setattr(sys, "argv", ["python -m benchmarks.tables", *arguments])
        try:
            __main__.main()
        except SystemExit as exit:
            return exit.code
        return 0

    yield main
    experiments.EXPERIMENTS.clear()
    experiments.EXPERIMENTS.update(real)


@cache
def made() -> str:
    """Return the page of two outcomes that differ in nothing but their names."""
    parts = []
    for name in ("made_up", "the_same"):
        outcome = made_up.outcome(name)
        parts.append(Part(outcome, made_up.draw(outcome), f"python -m benchmarks.tables {name}"))
    return page(parts, [])


def gone(pid: int) -> bool:
    """Wait until a process is no more than a zombie."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX":
                return True
        except OSError:
            return True
        time.sleep(0.01)
    return False


linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks at /proc")


# ---- running


@pytest.mark.slow
def test_experiments_are_measured_saved_told_and_reported_whichever_fails(
    experimenting: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert experimenting("broken made_up", "--quick", "--results", str(tmp_path)) == "FAILED: broken"
    assert {path.name for path in tmp_path.iterdir()} == {"made_up.json", "report.html"}
    out, err = capfd.readouterr()
    assert "RuntimeError: no luck today" in err
    assert gone(int(err.split("left: ")[1].split()[0]))
    assert re.search(r"^ +\d+ s  measure quickly$", err, re.MULTILINE)
    assert "1 of 2 of the experiments' targets reached" in err
    assert "| time of 32 threads over that of dhagas | 2.1x \\| in 2013 " in out
    assert "1.70x (1.60–1.90)" in out
    assert "161 MB (159–163)" in out
    assert "CPython" in out


def test_an_outcome_that_is_not_whole_has_failed_and_is_not_kept(
    experimenting: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert experimenting("made_badly", "--quick", "--results", str(tmp_path)) == "FAILED: made_badly"
    assert {path.name for path in tmp_path.iterdir()} == {"report.html"}
    assert "lines longer or shorter than the head: Askew" in capfd.readouterr().err


def test_the_report_is_made_again_without_measuring(experimenting: Any, tmp_path: Path) -> None:
    made_up.outcome().save(tmp_path)
    assert experimenting("made_up endless", "--report", "--results", str(tmp_path)) == 0
    first = (tmp_path / "report.html").read_bytes()
    assert experimenting("made_up endless", "--report", "--results", str(tmp_path)) == 0
    assert (tmp_path / "report.html").read_bytes() == first


@pytest.mark.slow
@linux
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_it_at_once_and_leaves_no_process_behind(tmp_path: Path, number: int) -> None:
    program = (
        "from benchmarks.tables import __main__, experiments, isolated_process\n"
        "isolated_process.GRACE = 0.1\n"
        "experiments.EXPERIMENTS.clear()\n"
        "experiments.EXPERIMENTS.update({name: f'tests.benchmarks.{name}' for name in ('endless', 'made_up')})\n"
        "__main__.main()\n"
    )
    command = [sys.executable, "-c", program, "--quick", "--results", str(tmp_path)]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr
        left = next(line for line in process.stderr if "left: " in line)
        began = time.monotonic()
        process.send_signal(number)
        rest = process.stderr.read()
    assert (process.returncode, rest) == (130, "interrupted\n")
    assert time.monotonic() - began < 10
    assert gone(int(left.split("left: ")[1]))
    assert not any(tmp_path.iterdir())


# ---- the page


class Elements(HTMLParser):
    """Every element with its attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attributes)))

    def of(self, *tags: str) -> list[dict[str, str | None]]:
        return [attributes for tag, attributes in self.found if tag in tags]


def test_the_same_outcomes_give_the_same_bytes() -> None:
    assert made() == made.__wrapped__()


def test_the_page_needs_nothing_but_itself() -> None:
    elements = Elements(made())
    assert not elements.of("script", "img", "iframe", "object")
    assert [each["href"] for each in elements.of("link")] == ["data:,"]
    assert "@import" not in made()


def test_claims_stand_beside_what_was_published() -> None:
    row = re.search(r"<tr>\s*<th scope=\"row\">time of 32 threads.*?</tr>", made(), re.DOTALL)
    assert row
    cells = [re.sub(r"<[^>]*>", "", cell).strip() for cell in re.findall(r"<td.*?</td>", row[0], re.DOTALL)]
    assert cells == ["2.1x | in 2013", "≥ 1.5x", "1.70x", "1.60–1.90", "13 % above", "yes"]


def test_the_page_in_a_browser(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    part = Part(made_up.outcome(), made_up.draw(made_up.outcome()), "again")
    work = Work("memory of a parked one, 100,000", {"threads": 99.5, "gevent": 1.0, "asyncio": 0.01, "uvloop": 2.5})
    path.write_text(page([part], [Part(made_up.outcome("second"), part.charts, "again")], [work]))
    with browsing(tmp_path / "profile", performance="ALL") as browser:
        browser.get(path.as_uri())
        for width in (1200, 400):
            browser.execute_cdp_cmd(
                "Emulation.setDeviceMetricsOverride",
                {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 600},
            )
            shown = browser.execute_script("return [innerWidth, document.documentElement.scrollWidth]")
            assert shown[0] == width >= shown[1]
            sizes = browser.execute_script(
                "return [...document.querySelectorAll('figure svg')].map(svg => svg.getBoundingClientRect())"
            )
            assert len(sizes) == 4
            assert all(size["width"] > 350 and size["height"] > 150 for size in sizes)
            bars = browser.execute_script(
                "return [...document.querySelectorAll('.times .bar')].map(bar => bar.getBoundingClientRect().width)"
            )
            assert bars[0] > bars[3] > bars[1] and bars[2] > bars[3]
        colours = []
        for theme in ("light", "dark"):
            features = {"features": [{"name": "prefers-color-scheme", "value": theme}]}
            browser.execute_cdp_cmd("Emulation.setEmulatedMedia", features)
            colours.append(
                browser.execute_script(
                    "return ['body', 'figure .wide', 'header h1', 'figure svg'].map("
                    "each => getComputedStyle(document.querySelector(each)))"
                    ".map((style, at) => at < 2 ? style.backgroundColor : style.color)"
                )
            )
        assert all(by_day != by_night for by_day, by_night in zip(*colours, strict=True))
        assert browser.get_log("browser") == []
        asked = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    sent = [each["params"] for each in asked if each["method"] == "Network.requestWillBeSent"]
    urls = {each["request"]["url"] for each in sent if each["documentURL"] == path.as_uri()}
    assert {url for url in urls if not url.startswith("data:")} == {path.as_uri()}


def figures_of(html: str) -> str:
    """Return the page without its charts, which another release of the drawing library draws with other bytes."""
    return re.sub(r'<div class="charts">.*?</figure>\n</div>\n', "", html, flags=re.DOTALL)


def test_the_report_shows_what_was_measured() -> None:
    """Mend it with `python -m benchmarks.tables --report`."""
    report = outcome.RESULTS / "report.html"
    if not report.exists():
        pytest.skip("a source distribution, which leaves the report out")
    parts = __main__.parts(outcome.RESULTS, lambda each: ())
    assert figures_of(page(*parts, list(overview.works(outcome.RESULTS)))) == figures_of(report.read_text())


@pytest.mark.parametrize("shown", [1.01, 1.3, 0.9, 153])
def test_a_bar_is_wide_enough_to_be_seen(shown: float) -> None:
    """Of 168 units in 110 px at least; 3 px is the width of the line from which bars start."""
    assert abs(bar(shown)) * 110 / 168 >= 2.5


# ---- README


def test_what_stands_between_markers_is_written_anew(tmp_path: Path, experimenting: Any) -> None:
    made_up.outcome().save(tmp_path)
    experiments.EXPERIMENTS["made_up"] = "tests.benchmarks.made_up"
    text = "Before.\n<!-- claims: begin, by hand -->\nold\n<!-- claims: end -->\nAfter.\n"
    written = readme.rewritten(text, tmp_path)
    assert written.startswith("Before.\n<!-- claims: begin, by hand -->\n| experiment ")
    assert written.endswith("<!-- claims: end -->\nAfter.\n")
    assert "| `made_up`  | time of 32 threads over that of dhagas | 2.1x \\| in 2013 | ≥ 1.5x" in written
    assert "\n\nRounds: 3. CPython" in written
    assert readme.rewritten(written, tmp_path) == written


def test_a_page_shows_charts_of_what_was_measured(
    tmp_path: Path, experimenting: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    picture = readme_charts.Picture("made_up", "The same", "seconds of all rounds")
    monkeypatch.setattr(readme_charts, "SHOWN", (picture,))
    assert readme_charts.shown(tmp_path) == ""
    made_up.outcome().save(tmp_path)
    experiments.EXPERIMENTS["made_up"] = "tests.benchmarks.made_up"
    readme_charts.draw(tmp_path)
    assert "The same, as often as one likes." in (tmp_path / "made_up.svg").read_text()
    assert readme_charts.shown(tmp_path) == (
        f"Seconds of all rounds:\n\n```{{raw}} html\n:file: {readme_charts.FOLDER}/made_up.svg\n```"
    )
    monkeypatch.setattr(readme_charts, "SHOWN", (readme_charts.Picture("made_up", "Another", ""),))
    with pytest.raises(LookupError, match="made_up draws nothing called Another"):
        readme_charts.draw(tmp_path)
