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
from tests.kit import mirror
from tests.kit.links import dead_links, link_targets
from tests.kit.snippets import Snippet, snippets

pytestmark = pytest.mark.once

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()
SNIPPETS = snippets(README)


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *command], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("snippet", SNIPPETS, ids=lambda snippet: snippet.line)
def test_every_python_snippet_of_the_readme_runs(snippet: Snippet, tmp_path: Path) -> None:
    assert snippet.output is not None
    snippet.check(tmp_path)


def test_the_first_program_differs_from_one_of_threads_by_its_import_line(tmp_path: Path) -> None:
    first = SNIPPETS[0]
    swapped = re.sub(r"from dhaga (import .*)  # was: \1", r"\1", first.code)
    assert "dhaga" not in swapped
    first._replace(code=swapped).check(tmp_path)
    first._replace(code=swapped, kind="patched", output=None).check(tmp_path)


def test_the_example_of_parking_runs() -> None:
    done = run("-m", "examples.park")
    assert (done.returncode, done.stdout) == (0, "through a pipe\nfrom a Future\n")


# ---- figures


@pytest.mark.parametrize("page", readme.PAGES, ids=lambda page: page.name)
def test_what_stands_between_markers_is_what_was_measured(page: Path) -> None:
    """Mend it with `python -m benchmarks.tables --readme`."""
    assert readme.rewritten(page.read_text()) == page.read_text()


@pytest.mark.parametrize(
    "page", [page for page in readme.PAGES if page not in (readme.WHY, readme.CORES)], ids=lambda page: page.name
)
def test_no_table_of_figures_is_typed(page: Path) -> None:
    typed = readme.BLOCK.sub("", page.read_text())
    heads = [line for line, rule in pairwise(typed.splitlines()) if re.fullmatch(r"\|[-| :]+\|", rule)]
    assert heads == []


def test_every_block_is_shown_and_every_picture_is_there() -> None:
    texts = {page: page.read_text() for page in readme.PAGES}
    shown = {name for text in texts.values() for _, name, _ in readme.BLOCK.findall(text)}
    assert shown == set(readme.BLOCKS)
    pictures = [
        page.parent / "".join(path)
        for page, text in texts.items()
        for path in re.findall(r"!\[[^]]*\]\((?!http)([^)]+)\)|^:file: (.+)$", text, re.MULTILINE)
    ]
    assert len(pictures) == 2 + len(readme_charts.SHOWN) and all(picture.is_file() for picture in pictures)


# ---- the way in


def test_the_readme_shows_what_one_gets_on_a_screen_and_a_half() -> None:
    """A screen is 50 lines."""
    lines = README.splitlines()
    assert lines.index("## Running programs") <= 85 and len(lines) <= 180


def test_the_first_screen_has_the_two_commands_and_what_each_takes() -> None:
    commands = dict(re.findall(r"^(make [a-z]+) +# (.+)$", "\n".join(README.splitlines()[:40]), re.MULTILINE))
    assert commands.keys() == {"make demo", "make test"}
    assert all(re.search(r"minute|second", what) and "download" in what for what in commands.values())


def test_each_link_of_the_readme_leads_to_a_place_in_the_checkout() -> None:
    assert dead_links(ROOT / "README.md") == []
    assert [target for target in link_targets(README) if "readthedocs" in target or "github" in target] == []


def test_a_link_without_its_file_or_heading_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# A `name` here\n[a](#a-name-here) [b](#b) [c](other.md) ![d](page.md) `[e](f)`\n```\n[g](h)\n```\n"
    )
    assert dead_links(page) == ["#b", "other.md"]


def test_every_page_can_be_reached_from_the_readme_by_links() -> None:
    """A toctree counts as links: it is how a page names the pages below it."""
    reached: set[Path] = set()
    waiting = [ROOT / "README.md"]
    while waiting:
        page = waiting.pop().resolve()
        if page in reached or page.suffix != ".md" or not page.exists():
            continue
        reached.add(page)
        waiting += [page.parent / target.partition("#")[0] for target in link_targets(page.read_text())]
        trees = re.findall(r"```{toctree}\n(.*?)```", page.read_text(), re.DOTALL)
        waiting += [page.parent / f"{line}.md" for tree in trees for line in tree.splitlines()]
    pages = {path for path in (ROOT / "docs").rglob("*.md") if not {"_build", "api"} & set(path.parts)}
    assert {path.relative_to(ROOT).as_posix() for path in pages - reached} == {"docs/404.md"}


@pytest.mark.parametrize("name", ["kernel", "swap", "web"])
def test_a_measured_table_is_printed_again(name: str) -> None:
    done = run("-m", f"benchmarks.{name}", "--markdown", f"benchmarks/results/{name}.json")
    assert (done.returncode, done.stderr) == (0, "")
    assert re.search(r"^\| [^\n]* reached +\|$", done.stdout, re.MULTILINE)


# ---- CONTRIBUTING.md


def test_the_annotated_semaphore_is_the_one_that_runs() -> None:
    [block] = [snippet.code for snippet in snippets(CONTRIBUTING) if "class Semaphore" in snippet.code]
    numbers = re.findall(r"#(?: (\d+),)? (\d+)$", block, re.MULTILINE)
    rows = re.findall(r"^\| (\d+) \| ", CONTRIBUTING, re.MULTILINE)
    assert [number for pair in numbers for number in pair if number] == rows[: len(rows) - 1]  # the last one: of locks
    source = (line.strip() for line in (ROOT / "dhaga/_sync/semaphore.py").read_text().splitlines())
    for line in re.sub(r"  #(?: \d+,)? \d+$", "", block, flags=re.MULTILINE).splitlines():
        if line:  # each in turn: `in` goes on in the source where the last one was found
            assert any(re.sub(r"  # in C .*", "", each) == line.strip() for each in source), line


def test_the_list_of_c_names_has_all_that_the_twin_of_the_semaphore_takes_from_other_files() -> None:
    folder = ROOT / "dhaga/_kernel/fast/fast_paths"
    twin = (folder / "semaphore.h").read_text()
    others = "".join(file.read_text() for file in folder.glob("*.h") if file.name != "semaphore.h")
    defined = set(re.findall(r"^(?:#define )?(\w+)\(|^static int (\w+);", others, re.MULTILINE))
    taken = {name for names in defined for name in names if name in re.findall(r"\w+", twin)} - {"release"}
    table = re.findall(r"^   \| (`.*?) \| ", CONTRIBUTING, re.MULTILINE)
    assert set(re.findall(r"`(\w+)`", " ".join(table))) == taken | {"PASS_GUARD"}


def test_the_modules_that_one_is_told_to_check_have_tests() -> None:
    named = set(re.findall(r"make check MODULE=([\w/]+)", CONTRIBUTING)) - {"NAME"}
    assert len(named) > 1 and all(mirror.tests_of(Path(f"{module}.py")) for module in named)


def test_make_help_lists_first_what_a_first_change_needs() -> None:
    listed = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True).stdout
    first, rest = listed.split("\n\n")
    assert re.findall(r"^make (\w+)", first, re.MULTILINE) == ["demo", "check", "test", "format"]
    assert len(rest.splitlines()) > 30 and "make docs " in rest


def test_every_path_for_contributors_is_there() -> None:
    paths = re.findall(r"`((?:dhaga|tests|examples|benchmarks)/[\w/.]+)`", CONTRIBUTING)
    missing = {path for path in paths if not (ROOT / path).exists() and "NAME" not in path}
    assert len(paths) > 20 and not missing


def test_every_target_for_contributors_is_there() -> None:
    named = set(re.findall(r"(?:^|`)make ([a-z0-9-]+)", CONTRIBUTING, re.MULTILINE))
    assert named <= set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def test_the_map_for_contributors_is_that_of_the_layers() -> None:
    rows = re.findall(r"^\| `(\w+)` \|.*\| ([^|]*) \|$", CONTRIBUTING, re.MULTILINE)
    base = {"the base": test_layers.BASE, "–": frozenset[str]()}
    words = {district: cell.replace("`", "").split(", ") for district, cell in rows}
    found = {d: frozenset[str]().union(*(base.get(each, {each}) for each in cells)) for d, cells in words.items()}
    assert found == test_layers.ALLOWED
