"""The report: claims, tables and charts of all outcomes, in one self-contained file.

It depends only on the outcomes, so the same JSON gives the same bytes.
"""

import re
import statistics
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from benchmarks.tables.beside_target import distance, place, ticks
from benchmarks.tables.charts import Chart
from benchmarks.tables.outcome import Outcome, score
from benchmarks.tables.overview import RIVALS, Work, told
from benchmarks.tables.provenance import machines, text
from benchmarks.tables.svg import inline

FOLDER = Path(__file__).parent
LEAST, MOST = 1 / 8, 128.0
"""Ratios at the ends of the overview's bars. Bars use the scale of the claims, so that 1.05x and 100x are visible."""

ROOT = FOLDER.parent.parent
SITE = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]["Documentation"] + "/"
"""The URL of the page's links to the site. The site's own copy has relative links: docs/_ext/report_page.py."""

MARK = ROOT / "docs/_static/mark.svg"
"""The logo beside the name, as on the site."""

AHEAD = 1.005
"""The ratio from which on Dhaga counts as ahead, because it is printed as 1.01x. Below the inverse, it is behind."""


@dataclass(frozen=True)
class Part:
    """An outcome with its charts, and the command that repeats it."""

    outcome: Outcome
    charts: Sequence[Chart]
    command: str


def prose(text: str) -> Markup:
    """Escape a text, and mark parts in backticks as code."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))


def _drawn(part: Part, number: int, chart: Chart) -> Markup:
    key = f"{part.outcome.name}-{number}".replace("_", "-")
    return Markup(
        inline(chart.svg, key, chart.caption, f"A chart of {part.outcome.title}; the tables have its figures.")
    )


def bar(times: float) -> float:
    """Return the length of a bar of the overview, at most 100; negative if Dhaga is behind."""
    return 100 * place(max(LEAST, times), MOST)


@dataclass(frozen=True)
class Standing:
    """Dhaga compared with one rival, over all works that both do."""

    rival: str
    middle: float  # how many times as fast or as small: the median of the works
    ahead: int
    level: int
    works: int


def standings(works: Sequence[Work]) -> list[Standing]:
    """Return the comparison of Dhaga with each rival that was measured."""
    found = []
    for rival in RIVALS:
        if times := [work.times[rival] for work in works if rival in work.times]:
            ahead, level = (sum(map(test, times)) for test in (lambda each: each >= AHEAD, _is_level))
            found.append(Standing(rival, statistics.median(times), ahead, level, len(times)))
    return found


def _is_level(times: float) -> bool:
    return 1 / AHEAD < times < AHEAD


def counted(part: Part) -> str:
    """Return a text about a section: how many targets it has and reaches, or its number of rows if it has none."""
    outcome = part.outcome
    if outcome.claims:
        return f"{score([outcome])} targets"
    rows = sum(len(table.lines) for table in outcome.tables)
    return f"{rows} row{'s' * (rows != 1)}, no targets"


def page(experiments: Sequence[Part], earlier: Sequence[Part], works: Sequence[Work] = ()) -> str:
    """Return the page. `works`: the comparison of Dhaga with its rivals, which comes first."""
    environment = Environment(
        loader=FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"prose": prose, "text": text, "distance": distance, "score": score, "counted": counted}
    environment.filters |= {"told": told, "bar": bar}
    environment.globals |= {"drawn": _drawn, "machines": machines, "ticks": ticks(), "RIVALS": RIVALS}
    environment.globals |= {"SITE": SITE, "mark": Markup(MARK.read_text().strip())}
    everything = [*experiments, *earlier]
    style = Markup((FOLDER / "report.css").read_text())
    return environment.get_template("report.html").render(
        experiments=experiments,
        earlier=earlier,
        everything=everything,
        works=works,
        standings=standings(works),
        style=style,
    )
