"""What README shows runs as it stands there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.once

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
SNIPPETS = re.findall(r"^```python\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


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


@pytest.mark.parametrize(
    ("name", "heading"),
    [("kernel", r"\| work"), ("swap", r"\| work"), ("web", r"\| row +\| ratio"), ("web", r"\| server")],
)
def test_the_tables_of_the_readme_are_those_measured(name: str, heading: str) -> None:
    printed = run("-m", f"benchmarks.{name}", "--markdown", f"benchmarks/results/{name}.json").stdout
    table = next(part for part in map(str.strip, printed.split("\n\n")) if re.match(heading, part))
    assert table in README
