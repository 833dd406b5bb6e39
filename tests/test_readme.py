"""What README shows runs as it stands there."""

from __future__ import annotations

import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from benchmarks.tables import readme

pytestmark = pytest.mark.once

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
FOUND = re.findall(r"^```python\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
TESTS = [snippet for snippet in FOUND if "import pytest" in snippet]
SNIPPETS = [snippet for snippet in FOUND if snippet not in TESTS]


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *command], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("number", range(len(SNIPPETS)))
def test_every_python_snippet_of_the_readme_runs(number: int) -> None:
    done = run("-c", SNIPPETS[number])
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout


def test_the_tests_in_the_readme_pass(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    (snippet,) = TESTS
    pytester.makepyfile(snippet)
    done = pytester.runpytest_inprocess("-p", "dhaga.pytest_plugin", "-p", "no:faulthandler")
    done.assert_outcomes(passed=snippet.count("\ndef test_"))


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


def test_what_stands_between_markers_is_what_was_measured() -> None:
    """Mend it with `python -m benchmarks.tables --readme`."""
    assert readme.rewritten(README) == README


def test_no_table_of_figures_is_typed() -> None:
    typed = readme.BLOCK.sub("", README)
    heads = [line for line, rule in pairwise(typed.splitlines()) if re.fullmatch(r"\|[-| :]+\|", rule)]
    assert heads == ["| package | version | |", "| engine | hook | |"]


def test_every_block_is_shown_and_every_picture_is_there() -> None:
    assert sorted(name for _, name, _ in readme.BLOCK.findall(README)) == sorted(readme.BLOCKS)
    assert all((ROOT / path).is_file() for path in re.findall(r'(?:src|href)="([^"]+)"', README))


@pytest.mark.parametrize("name", ["kernel", "swap", "web"])
def test_a_measured_table_is_printed_again(name: str) -> None:
    done = run("-m", f"benchmarks.{name}", "--markdown", f"benchmarks/results/{name}.json")
    assert (done.returncode, done.stderr) == (0, "")
    assert re.search(r"^\| [^\n]* reached +\|$", done.stdout, re.MULTILINE)
