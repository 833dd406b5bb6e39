"""The tables and charts of README.md, from the JSON files: whatever stands between two markers is written here."""

import re
import textwrap
from collections.abc import Callable
from pathlib import Path

from benchmarks.kernel.report import markdown as kernel_markdown
from benchmarks.kernel.runner import Results
from benchmarks.markdown import table
from benchmarks.tables import glance, kinds, pictures
from benchmarks.tables.claims import COMMANDS, earlier
from benchmarks.tables.experiments import measured
from benchmarks.tables.outcome import CLAIMS, RESULTS, score
from benchmarks.tables.places import sentence

ROOT = RESULTS.parent.parent
README = ROOT / "README.md"
BLOCK = re.compile(r"(<!-- (\w+): begin[^\n]* -->\n).*?(<!-- \2: end -->)", re.DOTALL)
WIDTH = 140
"""Of README's lines."""

UNMEASURED = "Not measured yet: `make tables`."


# ---- the blocks


def _filled(text: str) -> str:
    return textwrap.fill(text, WIDTH, break_on_hyphens=False)


def beside(folder: Path) -> str:
    """Return how many times as much Dhaga does as each rival."""
    return table(glance.HEAD, glance.lines(folder))


def claims(folder: Path) -> str:
    """Return the claims of the experiments, and where they were measured."""
    outcomes = measured(folder)
    lines = [[f"`{each.name}`", *claim.cells] for each in outcomes for claim in each.claims]
    return f"{table(('experiment', *CLAIMS), lines)}\n\n{_filled(sentence(outcomes))}" if lines else UNMEASURED


def kernel(folder: Path) -> str:
    """Return the score of the kernel, its table to unfold, and where it was measured."""
    reached = score(each for each in earlier(folder) if each.name == "kernel")
    parts = kernel_markdown(Results.load_from(folder / "kernel.json")).split("\n\n")
    rows = next(part for part in parts if part.startswith("| work"))
    summary = f"<summary>{reached} targets reached; all rows</summary>"
    return f"<details>\n{summary}\n\n{rows}\n\n{_filled(parts[0])}\n\n</details>"


def parts(folder: Path) -> str:
    """Return what the benchmarks of the parts claim; nothing of them was published by others."""
    outcomes = [each for each in earlier(folder) if each.claims and each.name != "kernel"]
    lines = (
        [what, *cells, f"`{COMMANDS[each.name]}`"] for each in outcomes for what, _, *cells in kinds.lines(each.claims)
    )
    return f"{table(('claim', 'target', 'ours', 'reached', 'repeat it'), lines)}\n\n{_filled(sentence(outcomes))}"


BLOCKS: dict[str, Callable[[Path], str]] = {
    "beside": beside,
    "claims": claims,
    "kernel": kernel,
    "parts": parts,
    "charts": lambda folder: pictures.shown(folder) or UNMEASURED,
}


# ---- writing


def rewritten(text: str, folder: Path = RESULTS) -> str:
    """Return a text with what is between its markers written anew."""
    return BLOCK.sub(lambda found: f"{found[1]}{BLOCKS[found[2]](folder)}\n{found[3]}", text)


def write() -> None:
    """Write README.md and the charts that it shows."""
    README.write_text(rewritten(README.read_text()))
    pictures.draw(RESULTS)
