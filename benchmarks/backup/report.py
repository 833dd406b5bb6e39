"""Claims, tables, notes and charts, all computed from the samples."""

import statistics
from collections.abc import Callable, Iterator, Sequence
from math import isinf
from typing import Any

from matplotlib.axes import Axes

from benchmarks.backup.quantities import duration, in_words, rate
from benchmarks.backup.samples import RIVALS, Effort
from benchmarks.tables.charts import COLOURS, OURS, THEIRS, Chart, drawn
from benchmarks.tables.outcome import Claim, Table

Runs = Sequence[dict[str, Any]]

PUBLISHED = {"files": "3.1x (44 min against 14)", "programs": "2.5x (37 min against 15)"}
OLD, EQUAL, SPLIT, WHOLE, MANY = RIVALS  # 32 threads, 128 threads, 4 x 32, 1 x 128 and 1 x 1024 dhagas


def _ratios(one: Runs, other: Runs, figure: Callable[[dict[str, Any]], float]) -> list[float]:
    """Divide the figures of one rival by the figures of another, round by round."""
    return [figure(a) / figure(b) for a, b in zip(one, other, strict=True)]


def _seconds(run: dict[str, Any]) -> float:
    return float(run["seconds"])


def _cpu(run: dict[str, Any]) -> float:
    return float(run["cpu"])


def added(samples: dict[str, Any], rival: str, run: dict[str, Any]) -> float:
    """Return the bytes that a run's peak exceeds the peak of one worker of the same kind; at least 1."""
    alone = samples["alone"]["threads" if "threads" in rival else "dhagas"]
    return float(max(run["peak"] - alone["peak"], 1))


# ---- claims


def claims(samples: dict[str, Any], tree: str) -> Iterator[Claim]:
    """Yield claims about time for each line, and about CPU time and memory for the first line.

    CPU time and memory hardly differ between the lines.
    """
    for line, runs in samples["lines"].items():
        yield from _of_time(line, runs, PUBLISHED[tree])
    runs = next(iter(samples["lines"].values()))
    for rival in (SPLIT, WHOLE):
        ratios = _ratios(runs[rival], runs[EQUAL], _cpu)
        yield Claim(f"CPU seconds, {rival} to {EQUAL}", 0.8, False, ratios)
    for rival in (SPLIT, WHOLE):
        memory = [added(samples, rival, run) for run in runs[rival]]
        threads = [added(samples, EQUAL, run) for run in runs[EQUAL]]
        ratios = [ours / theirs for ours, theirs in zip(memory, threads, strict=True)]
        yield Claim(f"memory that concurrency adds, {rival} to {EQUAL}", 0.5, False, ratios)


def _of_time(line: str, runs: dict[str, Runs], published: str) -> Iterator[Claim]:
    def speed(ours: str, theirs: str, bound: float, published: str = "") -> Claim:
        ratios = _ratios(runs[theirs], runs[ours], _seconds)
        return Claim(f"{in_words(line)}: {ours} over {theirs}", bound, True, ratios, published=published)

    yield speed(SPLIT, OLD, 3.2, published)
    yield speed(SPLIT, EQUAL, 1.0)
    yield speed(WHOLE, EQUAL, 1.0)
    yield speed(MANY, SPLIT, 1.0)


# ---- tables


def tables(samples: dict[str, Any], files: int) -> list[Table]:
    """Return one table for each line."""
    return [_table(line, samples, files) for line in samples["lines"]]


def _table(line: str, samples: dict[str, Any], files: int) -> Table:
    head = ("who", "s", "files/s", "CPU s", "CPU s beside", "added MB", "peak MB", "line", "relay", "server")
    lines = [_cells(rival, runs, samples, files) for rival, runs in samples["lines"][line].items()]
    return Table(
        f"{files:,} files over {in_words(line)}: medians; line, relay and server as shares of what they could do",
        head,
        lines,
    )


def _cells(rival: str, runs: Runs, samples: dict[str, Any], files: int) -> list[str]:
    middle = {key: statistics.median(run[key] for run in runs) for key in runs[0] if key != "progress"}
    memory = statistics.median(added(samples, rival, run) for run in runs)
    return [
        rival,
        f"{middle['seconds']:.2f}",
        f"{files / middle['seconds']:,.0f}",
        f"{middle['cpu']:.2f}",
        f"{middle['cpu_beside']:.2f}",
        f"{memory / 1e6:.1f}",
        f"{middle['peak'] / 1e6:.1f}",
        *(f"{middle[part]:.0%}" for part in ("line", "relay", "server")),
    ]


# ---- notes


def notes(samples: dict[str, Any], effort: Effort) -> list[str]:
    """Return notes about the differences from the published runs, and about the limit of each line."""
    return [
        "Published are 12 files a second for 32 threads, so each took seconds, over a network and with a program that "
        f"are not described. Here a round trip takes {effort.rtt}, and a file two of them (which of these chunks have "
        "you got, then those it has not), one of more than 1 MiB two for each MiB. TCP's slow start and lost packets "
        "are not modelled; the handshake is.",
        *(_bound(line, runs, effort) for line, runs in samples["lines"].items()),
        *(_why(line, runs) for line, runs in samples["lines"].items()),
        "Seconds and CPU seconds are those from the first connection to the committed snapshot. What the client's "
        "process uses before and after, to import and to end, is beside; Dhaga and Tornado take longer to import.",
        "Memory is the peak of resident bytes, less that of one worker of the same kind who saves the same tree over a "
        "line that takes no time.",
        f"Every store was read through in the end: {effort.shape.files:,} files and {effort.shape.bytes:,} bytes, each "
        "chunk by its hash. The server runs on dhagas for all; it and the relay share the CPU that the client has not.",
    ]


def _bound(line: str, runs: dict[str, Runs], effort: Effort) -> str:
    """Return a note about the times that no number of workers can shorten."""
    sent = statistics.median(run["sent"] for run in runs[OLD])
    trips = 2 * duration(effort.rtt) * effort.shape.files / 32
    said = f"{in_words(line)}: the round trips alone take 32 workers {trips:.1f} s"
    if isinf(rate(line)):
        return f"{said}."
    least = sent / rate(line)
    measured = statistics.median(map(_seconds, runs[OLD]))
    return (
        f"{said}, and the line carries the {sent / 1e6:.0f} MB that the files pack to in {least:.1f} s. No rival can "
        f"be more than {measured / least:.1f} times as fast over it as 32 threads were."
    )


def _why(line: str, runs: dict[str, Runs]) -> str:
    """Return a note about what slows many dhagas down."""
    middle = {key: statistics.median(run[key] for run in runs[MANY]) for key in ("line", "cpu", "seconds", "server")}
    return (
        f"{in_words(line)}: {MANY} make as many connections first, two round trips and the work of both ends for each. "
        f"They fill {middle['line']:.0%} of the line, {middle['cpu'] / middle['seconds']:.0%} of the client's CPU and "
        f"{middle['server']:.0%} of the server's."
    )


# ---- charts


def charts(samples: dict[str, Any]) -> list[Chart]:
    """Draw time, CPU time, added memory and progress."""

    def of(figure: Callable[[str, dict[str, Any]], float]) -> dict[str, dict[str, list[float]]]:
        lines: dict[str, dict[str, Runs]] = samples["lines"]
        return {
            line: {rival: [figure(rival, run) for run in each] for rival, each in runs.items()}
            for line, runs in lines.items()
        }

    return [
        drawn(
            "Time of a backup: the median, the fastest and the slowest",
            _bars(of(lambda _, run: _seconds(run)), "seconds"),
        ),
        drawn("CPU time of the client", _bars(of(lambda _, run: _cpu(run)), "CPU seconds")),
        drawn(
            "Memory that concurrency adds to that of one worker",
            _bars(of(lambda rival, run: added(samples, rival, run) / 1e6), "MB"),
        ),
        *(
            drawn(f"What had gone up a line of {in_words(line)}", _progress(runs))
            for line, runs in samples["lines"].items()
        ),
    ]


def _colour(rival: str) -> str:
    return COLOURS["threads" if "threads" in rival else "dhaga"]


def _look(rival: str) -> dict[str, Any]:
    """Return the style of a rival's line in the chart. The widest line is 4 x 32 dhagas, which was published."""
    if "threads" in rival:
        return {"color": _colour(rival), "linewidth": THEIRS, "zorder": 2.2}
    return {"color": _colour(rival), "linewidth": OURS if rival == SPLIT else OURS / 2, "zorder": 2.1}


def _bars(groups: dict[str, dict[str, list[float]]], unit: str) -> Callable[[Axes], None]:
    """Draw a bar for each rival in each group; later groups are paler."""

    def draw(axes: Axes) -> None:
        width = 0.8 / len(groups)
        for number, (group, values) in enumerate(groups.items()):
            middles = [statistics.median(each) for each in values.values()]
            below = [middle - min(each) for middle, each in zip(middles, values.values(), strict=True)]
            above = [max(each) - middle for middle, each in zip(middles, values.values(), strict=True)]
            places = [place + (number - (len(groups) - 1) / 2) * width for place in range(len(values))]
            colours = [_colour(rival) for rival in values]
            axes.bar(
                *(places, middles, 0.9 * width),
                color=colours,
                alpha=1 - number / len(groups),
                yerr=(below, above),
                capsize=3,
                label=in_words(group),
            )
        axes.set_xticks(range(len(RIVALS)), [_in_two(rival) for rival in RIVALS])
        axes.set_ylabel(unit)
        if len(groups) > 1:
            axes.legend(title="over a line of", ncols=2, frameon=False, loc="lower right", bbox_to_anchor=(1, 1))

    return draw


def _in_two(rival: str) -> str:
    return "\n".join(rival.rsplit(" ", 1))


def _progress(runs: dict[str, Runs]) -> Callable[[Axes], None]:
    """Draw the progress in the first round of each rival."""

    def draw(axes: Axes) -> None:
        for (rival, each), style in zip(runs.items(), ("-", "--", "-", "--", ":"), strict=True):
            times, counts = zip(*each[0]["progress"], strict=True)
            axes.plot(times, [count / 1e6 for count in counts], style, label=rival, **_look(rival))
        axes.set_xlabel("seconds since the client was started")
        axes.set_ylabel("MB, packed")
        axes.legend()

    return draw
