"""The charts that the documents show, each a file beside the JSON that it is drawn from, in the colours of the page."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.tables.charts import Chart
from benchmarks.tables.experiments import charts, measured
from benchmarks.tables.outcome import Outcome
from benchmarks.tables.svg import inline

FOLDER = "../../benchmarks/results"
"""Of the files, as seen from docs/reference."""


@dataclass(frozen=True)
class Picture:
    """One chart of an experiment: how its caption begins, and what the page says of it."""

    experiment: str
    caption: str
    words: str

    @property
    def file(self) -> str:
        """Return the name of its file."""
        return f"{self.experiment}.svg"

    def among(self, drawn: list[Chart]) -> Chart:
        """Find it. Raises: LookupError, if the experiment draws it no more."""
        for chart in drawn:
            if chart.caption.startswith(self.caption):
                return chart
        raise LookupError(f"{self.experiment} draws nothing called {self.caption}…, which `readme_charts.py` asks for")


SHOWN = (
    Picture(
        "rate_model",
        "Answers a second: 1,000/s to 9 upstreams of 20 ms, 1 that hangs",
        "answers a second while one of ten upstreams hangs",
    ),
    Picture("file_io", "What the caller of a durable write waits", "what the caller of a durable write waits"),
)


def there(folder: Path) -> Iterator[tuple[Picture, Outcome]]:
    """Return those whose experiments have been measured."""
    outcomes = {outcome.name: outcome for outcome in measured(folder)}
    return ((each, outcomes[each.experiment]) for each in SHOWN if each.experiment in outcomes)


def shown(folder: Path) -> str:
    """Return the pictures as the page has them, with what they show."""
    known = [picture for picture, _ in there(folder)]
    return "\n\n".join(
        f"{each.words[:1].upper()}{each.words[1:]}:\n\n```{{raw}} html\n:file: {FOLDER}/{each.file}\n```"
        for each in known
    )


def draw(folder: Path) -> None:
    """Write the files."""
    for picture, outcome in there(folder):
        chart = picture.among(charts(outcome))
        svg = inline(
            chart.svg, picture.experiment.replace("_", "-"), chart.caption, f"{picture.words}; tables have the figures"
        )
        (folder / picture.file).write_text(svg + "\n")
