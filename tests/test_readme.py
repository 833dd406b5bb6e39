"""What README shows runs as it stands there, and what CONTRIBUTING.md names is there."""

from __future__ import annotations

import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from benchmarks.tables import readme, readme_charts
from tests import test_layers
from tests.kit.snippets import snippets

pytestmark = pytest.mark.once

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()
SNIPPETS = [snippet.code for snippet in snippets(README)]


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *command], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("number", range(len(SNIPPETS)))
def test_every_python_snippet_of_the_readme_runs(number: int) -> None:
    done = run("-c", SNIPPETS[number])
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout


def test_the_first_snippet_works_off_every_job() -> None:
    assert sorted(map(int, run("-c", SNIPPETS[0]).stdout.split())) == list(range(1000))


def test_the_second_snippet_prints_what_its_comments_say() -> None:
    assert run("-c", SNIPPETS[1]).stdout == "put away\n<Dhaga patient DONE>\n"


def programs_of_the_diff() -> list[str]:
    """Return the program before the swap and after it."""
    found = re.search(r"```diff\n(.*?)```", README, re.DOTALL)
    assert found
    lines = found[1].replace("…", "import sys; fetch = lambda number: sys.stdout.write(f'{number}\\n')").splitlines()
    return ["\n".join(line[1:] for line in lines if line[0] != other) for other in "+-"]


def test_the_swap_is_the_import_line() -> None:
    before, after = (sorted(run("-c", program).stdout.split()) for program in programs_of_the_diff())
    assert before == after == sorted(map(str, range(2000)))


def test_the_program_before_the_swap_runs_on_dhagas_unchanged() -> None:
    before, _ = programs_of_the_diff()
    tell = "\nimport dhaga\nprint(threading.Thread is dhaga.threading.Thread)"
    assert sorted(run("-m", "dhaga", "-c", before + tell).stdout.split()) == [*sorted(map(str, range(2000))), "True"]


def test_the_example_of_parking_runs() -> None:
    done = run("-m", "examples.park")
    assert (done.returncode, done.stdout) == (0, "through a pipe\nfrom a Future\n")


# ---- figures


@pytest.mark.parametrize("page", readme.PAGES, ids=lambda page: page.name)
def test_what_stands_between_markers_is_what_was_measured(page: Path) -> None:
    """Mend it with `python -m benchmarks.tables --readme`."""
    assert readme.rewritten(page.read_text()) == page.read_text()


@pytest.mark.parametrize(
    ("page", "others"), [(readme.README, []), (readme.BENCHMARKS, ["| work | dhagas beside others |"])]
)
def test_no_table_of_figures_is_typed(page: Path, others: list[str]) -> None:
    typed = readme.BLOCK.sub("", page.read_text())
    heads = [line for line, rule in pairwise(typed.splitlines()) if re.fullmatch(r"\|[-| :]+\|", rule)]
    assert heads == others


def test_every_block_is_shown_once_and_every_picture_is_there() -> None:
    texts = {page: page.read_text() for page in readme.PAGES}
    shown = [name for text in texts.values() for _, name, _ in readme.BLOCK.findall(text)]
    assert sorted(shown) == sorted(readme.BLOCKS)
    pictures = [
        page.parent / path
        for page, text in texts.items()
        for path in re.findall(r"!\[[^]]*\]\((?!http)([^)]+)\)", text)
    ]
    assert len(pictures) == len(readme_charts.SHOWN) and all(picture.is_file() for picture in pictures)


def test_the_readme_is_a_screen_and_a_half() -> None:
    assert len(README.splitlines()) <= 190


@pytest.mark.parametrize("name", ["kernel", "swap", "web"])
def test_a_measured_table_is_printed_again(name: str) -> None:
    done = run("-m", f"benchmarks.{name}", "--markdown", f"benchmarks/results/{name}.json")
    assert (done.returncode, done.stderr) == (0, "")
    assert re.search(r"^\| [^\n]* reached +\|$", done.stdout, re.MULTILINE)


# ---- CONTRIBUTING.md


def test_every_path_for_contributors_is_there() -> None:
    paths = re.findall(r"`((?:dhaga|tests|examples|benchmarks)/[\w/.]+)`", CONTRIBUTING)
    missing = {path for path in paths if not (ROOT / path).exists() and "NAME" not in path}
    assert len(paths) > 20 and not missing


def test_every_target_for_contributors_is_there() -> None:
    named = set(re.findall(r"(?:^|`)make ([a-z-]+)", CONTRIBUTING, re.MULTILINE))
    assert named <= set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def test_the_map_for_contributors_is_that_of_the_layers() -> None:
    rows = re.findall(r"^\| `(\w+)` \|.*\| ([^|]*) \|$", CONTRIBUTING, re.MULTILINE)
    base = {"the base": test_layers.BASE, "–": frozenset[str]()}
    words = {district: cell.replace("`", "").split(", ") for district, cell in rows}
    found = {d: frozenset[str]().union(*(base.get(each, {each}) for each in cells)) for d, cells in words.items()}
    assert found == test_layers.ALLOWED
