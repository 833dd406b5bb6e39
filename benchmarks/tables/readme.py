"""Writes the tables and charts of README.md and the documents, between their markers, from the JSON files."""

import json
import re
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks import preemption
from benchmarks.cores import report as cores_report
from benchmarks.kernel.report import markdown as kernel_markdown
from benchmarks.kernel.runner import Results
from benchmarks.markdown import table
from benchmarks.samples import Results as CoresResults
from benchmarks.tables import claim_groups, overview, readme_charts
from benchmarks.tables.claims import COMMANDS, earlier
from benchmarks.tables.experiments import measured
from benchmarks.tables.outcome import CLAIMS, RESULTS, Outcome, score
from benchmarks.tables.provenance import sentence
from benchmarks.young import report as young_report

ROOT = RESULTS.parent.parent
README = ROOT / "README.md"
HOME = ROOT / "docs/index.md"
FAIRNESS = ROOT / "docs/explained/fairness.md"
WHY = ROOT / "docs/explained/why.md"
BENCHMARKS = ROOT / "docs/reference/benchmarks.md"
DETAILS = ROOT / "docs/reference/benchmarks-details.md"
CORES = ROOT / "docs/explained/all-cores.md"
PAGES = (README, HOME, FAIRNESS, WHY, CORES, BENCHMARKS, DETAILS)
BLOCK = re.compile(r"(<!-- (\w+): begin[^\n]* -->\n).*?(<!-- \2: end -->)", re.DOTALL)
WIDTH = 140
"""Maximum width of the lines of the pages."""

UNMEASURED = "Not measured yet: `make tables`."


# ---- the blocks


def _filled(text: str) -> str:
    return textwrap.fill(text, WIDTH, break_on_hyphens=False)


def beside(folder: Path) -> str:
    """Return the table of Dhaga's ratios to each rival."""
    return table(overview.HEAD, overview.lines(folder))


FIGURES = (
    (
        "Flask, SQLAlchemy, redis-py: 300 clients",
        "gevent",
        "the requests per second of gunicorn's gevent worker: Flask, SQLAlchemy and Redis, 300 clients",
        "services-under-load",
    ),
    (
        "spawn + join",
        "threads",
        "faster to start and join than OS threads",
        "each-kind-of-work",
    ),
    (
        "TCP echo 256 B, 1,000 connections",
        "asyncio",
        "the messages per second of asyncio's streams: an echo server with 1,000 connections",
        "each-kind-of-work",
    ),
)
"""The figures of the first pages: a work, a rival, the meaning of the figure, and the heading of its measurement."""


def _told(folder: Path, title: str, rival: str) -> str:
    """Return the ratio to a rival as text. Raises: KeyError if the work is no longer measured."""
    return overview.told({work.title: work for work in overview.works(folder)}[title].times[rival])


def figures(folder: Path) -> str:
    """Return the figures of README, side by side."""
    cells = [
        (f"**{_told(folder, title, rival)}**", f"{words} ([measured](docs/reference/benchmarks.md#{place}))")
        for title, rival, words, place in FIGURES
    ]
    heads, texts = zip(*cells, strict=True)
    return f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}\n| {' | '.join(texts)} |"


def home(folder: Path) -> str:
    """Return the figures of the site's first page, as cards."""
    cards = (
        f"- **{_told(folder, title, rival)}** [{words} ([measured](reference/benchmarks.md#{place}))]{{.words}}"
        for title, rival, words, place in FIGURES
    )
    return "\n".join(["{.figures}", *cards])


def beside_gevent(folder: Path) -> str:
    """Return a sentence about the works at which gevent was measured."""
    works = [work for work in overview.works(folder) if "gevent" in work.times]
    ahead = sum(work.times["gevent"] >= 1.005 for work in works)
    told = {work.title: overview.told(work.times["gevent"]) for work in works}
    words = (
        f"of the {len(works)} works at which both were measured, Dhaga is ahead in {ahead}: a yield is "
        f"{told['yield, 100 microthreads']} as fast, a contended lock {told['Lock, contended by 100']}, an echo server "
        f"{told['TCP echo 256 B, 1,000 connections']}; a Flask service with databases answers "
        f"{told['Flask, SQLAlchemy, redis-py: 300 clients']} as many requests a second."
    )
    return textwrap.fill(words, WIDTH, initial_indent="- ", subsequent_indent="  ", break_on_hyphens=False)


def rates(folder: Path) -> str:
    """Return the table of the requests that each server answers, and the machine."""
    lines = list(overview.rates(folder))
    return f"{table(overview.RATES, lines)}\n\n{_filled(sentence(_of_service(folder)))}" if lines else UNMEASURED


def _of_service(folder: Path) -> list[Outcome]:
    return [each for each in earlier(folder) if each.name == "service"]


def claims(folder: Path) -> str:
    """Return the claims of the experiments, and the machine."""
    outcomes = measured(folder)
    lines = [[f"`{each.name}`", *claim.cells] for each in outcomes for claim in each.claims]
    return f"{table(('experiment', *CLAIMS), lines)}\n\n{_filled(sentence(outcomes))}" if lines else UNMEASURED


def service(folder: Path) -> str:
    """Return the tables of services under load, their targets, and the machine."""
    outcomes = _of_service(folder)
    tables = [table(each.head, each.lines) for outcome in outcomes for each in outcome.tables]
    return "\n\n".join([*tables, _claims_in_few_lines(outcomes)]) if outcomes else UNMEASURED


def preempted(folder: Path) -> str:
    """Return the tables of clients' waits while a thread computes, and while views compute."""
    file = folder / "preemption.json"
    return preemption.summary(json.loads(file.read_text())) if file.exists() else UNMEASURED


def cores(folder: Path) -> str:
    """Return how works scale with the number of OS threads, and the machine."""
    file = folder / "cores.json"
    if not file.exists():
        return UNMEASURED
    outcomes = [each for each in earlier(folder) if each.name == "cores"]
    results = CoresResults(**json.loads(file.read_text()))
    free = f"Without the lock: {results.where['without the lock']}."
    return "\n\n".join([cores_report.summary(results), _claims_in_few_lines(outcomes), _filled(free)])


def young(folder: Path) -> str:
    """Return the table of the works of young frameworks, and the machine."""
    results = json.loads((folder / "young.json").read_text())
    where = results["where"]
    return f"{young_report.frameworks(results)}\n\n{where['python']}, {where['cpus']} x {where['processor']}."


def young_simulations(folder: Path) -> str:
    """Return the table of what young simulation tools find."""
    return young_report.simulations(json.loads((folder / "young.json").read_text()))


def kernel(folder: Path) -> str:
    """Return the kernel's number of reached targets, its table in a collapsible block, and the machine."""
    reached = score(each for each in earlier(folder) if each.name == "kernel")
    parts = kernel_markdown(Results.load_from(folder / "kernel.json")).split("\n\n")
    rows = next(part for part in parts if part.startswith("| work"))
    summary = f"<summary>{reached} targets reached; all rows</summary>"
    return f"<details>\n{summary}\n\n{rows}\n\n{_filled(parts[0])}\n\n</details>"


def parts(folder: Path) -> str:
    """Return the claims of the benchmarks of the parts. Others have published no figures for these."""
    return _claims_in_few_lines(
        [each for each in earlier(folder) if each.claims and each.name not in ("kernel", "service", "cores")]
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
    "figures": figures,
    "home": home,
    "beside_gevent": beside_gevent,
    "rates": rates,
    "service": service,
    "claims": claims,
    "preemption": preempted,
    "cores": cores,
    "kernel": kernel,
    "parts": parts,
    "young": young,
    "young_simulations": young_simulations,
    "charts": lambda folder: readme_charts.shown(folder) or UNMEASURED,
}


# ---- writing


def rewritten(text: str, folder: Path = RESULTS) -> str:
    """Return a text in which the parts between markers are replaced by new ones."""
    return BLOCK.sub(lambda found: f"{found[1]}{BLOCKS[found[2]](folder)}\n{found[3]}", text)


def write() -> None:
    """Write the pages, and the charts that they show."""
    for page in PAGES:
        page.write_text(rewritten(page.read_text()))
    readme_charts.draw(RESULTS)
