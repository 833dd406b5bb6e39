"""An experiment that measures nothing, and looks as those do that measure something."""

from __future__ import annotations

from matplotlib.axes import Axes

from benchmarks.machine import surroundings
from benchmarks.tables.charts import COLOURS, Chart, drawn
from benchmarks.tables.outcome import Claim, Outcome, Table, Tell


def outcome(name: str = "made_up") -> Outcome:
    claims = [
        Claim("time of 32 threads over that of dhagas", 1.5, True, [1.9, 1.6, 1.7], published="2.1x | in 2013"),
        Claim("memory of `10,000` waiting", 100, False, [161.0, 159.0, 163.0], "MB", "<b>a tenth</b>"),
    ]
    table = Table("Calls a second", ("rival", "calls"), (("dhaga", "1,200"), ("threads", "700")))
    where = surroundings("matplotlib", rounds=3)
    knobs = {"files": 2000, "pause": 0.25, "links": ["slow", "fast"]}
    samples = {"dhaga": [1.0, 2.0, 1.5], "threads": [1.9, 3.2, 2.5]}
    story = "Two sentences about <it>. And `code`."
    return Outcome(name, "Made up & measured", story, where, knobs, samples, claims, [table], ["A note."])


def measure(quick: bool, tell: Tell) -> Outcome:
    tell(f"measure {'quickly' if quick else 'in full'}")
    return outcome()


def draw(outcome: Outcome) -> list[Chart]:
    def lines(axes: Axes) -> None:
        for rival, samples in outcome.samples.items():
            axes.plot(samples, color=COLOURS[rival], label=rival)
        axes.legend()

    return [drawn("Seconds, round by round.", lines), drawn("The same, as often as one likes.", lines)]
