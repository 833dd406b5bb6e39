"""Tables and charts of README.md and the documents, from the JSON files: all that stands between two markers."""

import re
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.kernel.report import markdown as kernel_markdown
from benchmarks.kernel.runner import Results
from benchmarks.markdown import table
from benchmarks.tables import claim_groups, overview, readme_charts
from benchmarks.tables.claims import COMMANDS, earlier
from benchmarks.tables.experiments import measured
from benchmarks.tables.outcome import CLAIMS, RESULTS, Outcome, score
from benchmarks.tables.provenance import sentence

ROOT = RESULTS.parent.parent
README = ROOT / "README.md"
BENCHMARKS = ROOT / "docs/reference/benchmarks.md"
PAGES = (README, BENCHMARKS)
BLOCK = re.compile(r"(<!-- (\w+): begin[^\n]* -->\n).*?(<!-- \2: end -->)", re.DOTALL)
WIDTH = 140
"""Of the lines of both pages."""

UNMEASURED = "Not measured yet: `make tables`."


# ---- the blocks


def _filled(text: str) -> str:
    return textwrap.fill(text, WIDTH, break_on_hyphens=False)


def beside(folder: Path) -> str:
    """Return how many times as much Dhaga does as each rival."""
    return table(overview.HEAD, overview.lines(folder))


def claims(folder: Path) -> str:
    """Return the claims of the experiments, and where they were measured."""
    outcomes = measured(folder)
    lines = [[f"`{each.name}`", *claim.cells] for each in outcomes for claim in each.claims]
    return f"{table(('experiment', *CLAIMS), lines)}\n\n{_filled(sentence(outcomes))}" if lines else UNMEASURED


def service(folder: Path) -> str:
    """Return how services fare under load, what is asked of them, and where it was measured."""
    outcomes = [each for each in earlier(folder) if each.name == "service"]
    tables = [table(each.head, each.lines) for outcome in outcomes for each in outcome.tables]
    return "\n\n".join([*tables, _claims_in_few_lines(outcomes)]) if outcomes else UNMEASURED


def kernel(folder: Path) -> str:
    """Return the score of the kernel, its table to unfold, and where it was measured."""
    reached = score(each for each in earlier(folder) if each.name == "kernel")
    parts = kernel_markdown(Results.load_from(folder / "kernel.json")).split("\n\n")
    rows = next(part for part in parts if part.startswith("| work"))
    summary = f"<summary>{reached} targets reached; all rows</summary>"
    return f"<details>\n{summary}\n\n{rows}\n\n{_filled(parts[0])}\n\n</details>"


def parts(folder: Path) -> str:
    """Return what the benchmarks of the parts claim; nothing of them was published by others."""
    return _claims_in_few_lines(
        [each for each in earlier(folder) if each.claims and each.name not in ("kernel", "service")]
    )


def _claims_in_few_lines(outcomes: Sequence[Outcome]) -> str:
    lines = (
        [what, *cells, f"`{COMMANDS[each.name]}`"]
        for each in outcomes
        for what, _, *cells in claim_groups.lines(each.claims)
    )
    return f"{table(('claim', 'target', 'ours', 'reached', 'repeat it'), lines)}\n\n{_filled(sentence(outcomes))}"


BLOCKS: dict[str, Callable[[Path], str]] = {
    "beside": beside,
    "service": service,
    "claims": claims,
    "kernel": kernel,
    "parts": parts,
    "charts": lambda folder: readme_charts.shown(folder) or UNMEASURED,
}


# ---- writing


def rewritten(text: str, folder: Path = RESULTS) -> str:
    """Return a text with what is between its markers written anew."""
    return BLOCK.sub(lambda found: f"{found[1]}{BLOCKS[found[2]](folder)}\n{found[3]}", text)


def write() -> None:
    """Write the pages and the charts that they show."""
    for page in PAGES:
        page.write_text(rewritten(page.read_text()))
    readme_charts.draw(RESULTS)
