"""One page with everything: claims, tables and charts of all outcomes, in a file that needs nothing else.

It is made from the outcomes alone, so that the same JSON gives the same bytes.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from benchmarks.tables.charts import Chart
from benchmarks.tables.outcome import Claim, Outcome, score
from benchmarks.tables.places import machines, text
from benchmarks.tables.svg import inline

FOLDER = Path(__file__).parent
WIDEST = 2.0
"""Powers of two that a strip shows on either side of the target."""


@dataclass(frozen=True)
class Part:
    """An outcome with its charts, and the command that repeats it."""

    outcome: Outcome
    charts: Sequence[Chart]
    command: str


def prose(text: str) -> Markup:
    """Escape a text, and print as code what stands in backticks."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))


def _place(claim: Claim, value: float) -> float:
    """Return where a value is beside the target, from -1 to 1; above 0 is better than asked."""
    quotient = value / claim.bound if claim.at_least else claim.bound / value if value else math.inf
    power = math.log2(quotient) if quotient > 0 else -math.inf
    return max(-1.0, min(1.0, power / WIDEST))


def strip(claim: Claim) -> dict[str, float] | None:
    """Return the places of the worst round, the median and the best; None for a target of nothing at all."""
    if claim.bound <= 0:
        return None
    low, high = sorted((_place(claim, min(claim.samples)), _place(claim, max(claim.samples))))
    return {"low": low, "high": high, "value": _place(claim, claim.value)}


def _drawn(part: Part, number: int, chart: Chart) -> Markup:
    key = f"{part.outcome.name}-{number}".replace("_", "-")
    return Markup(
        inline(chart.svg, key, chart.caption, f"A chart of {part.outcome.title}; the tables have its figures.")
    )


def page(experiments: Sequence[Part], earlier: Sequence[Part]) -> str:
    """Return the page."""
    environment = Environment(
        loader=FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"prose": prose, "text": text, "strip": strip, "score": score}
    environment.globals |= {"drawn": _drawn, "machines": machines}
    everything = [*experiments, *earlier]
    style = Markup((FOLDER / "report.css").read_text())
    return environment.get_template("report.html").render(
        experiments=experiments, earlier=earlier, everything=everything, style=style
    )
