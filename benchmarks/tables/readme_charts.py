"""The charts in the documents. Each is a file beside the JSON from which it is drawn, in the colours of the page."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.tables.charts import Chart
from benchmarks.tables.experiments import charts, measured
from benchmarks.tables.outcome import Outcome
from benchmarks.tables.svg import inline

FOLDER = "../../benchmarks/results"
"""The folder of the files, relative to docs/reference."""


@dataclass(frozen=True)
class Picture:
    """One chart of an experiment: the beginning of its caption, and the page's text about it."""

    experiment: str
    caption: str
    words: str

    @property
    def file(self) -> str:
        """Return the name of the chart's file."""
        return f"{self.experiment}.svg"

    def among(self, drawn: list[Chart]) -> Chart:
        """Return this chart from an experiment's charts. Raises: LookupError if the experiment no longer draws it."""
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
    """Yield the pictures whose experiments have an outcome in the folder, each with the outcome."""
    outcomes = {outcome.name: outcome for outcome in measured(folder)}
    return ((each, outcomes[each.experiment]) for each in SHOWN if each.experiment in outcomes)


def shown(folder: Path) -> str:
    """Return the pictures in the page's form, with the texts about them."""
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
