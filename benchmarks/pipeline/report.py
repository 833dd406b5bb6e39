"""Claims, tables and charts, computed from the samples of `benchmarks.pipeline`."""

import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence

from matplotlib.axes import Axes

from benchmarks.pipeline.samples import Page, Samples
from benchmarks.pipeline.servers import DHAGAS, GUNICORN_GEVENT, PYWSGI, RIVALS, THREADS, Rival
from benchmarks.tables.charts import COLOURS, Chart, drawn
from benchmarks.tables.number_format import printed, spread
from benchmarks.tables.outcome import Claim, Table

KEPT, OVER_THREADS, OVER_GEVENT = 60.0, 5.0, 2.0
"""The targets of dhagas: percent of the rate without a call, and times the rates of threads and of gevent."""


def ratios(ours: Iterable[float], theirs: Iterable[float]) -> list[float]:
    """Divide the figures of one rival by the figures of another, round by round."""
    return [mine / other for mine, other in zip(ours, theirs, strict=False)]


def kept(samples: Samples, rival: Rival) -> list[float]:
    """Return a rival's rate with a call, in percent of its rate without a call."""
    return [100 * part for part in ratios(samples.of(rival, "call"), samples.of(rival, "plain"))]


def kept_by_cpu(samples: Samples, rival: Rival) -> list[float]:
    """Return the same percentage, computed from the server's CPU time per page."""
    return [100 * part for part in ratios(samples.of(rival, "plain", "cpu"), samples.of(rival, "call", "cpu"))]


def call_cpu(samples: Samples, rival: Rival) -> list[float]:
    """Return the CPU time in µs that a call adds to a page."""
    pairs = zip(samples.of(rival, "call", "cpu"), samples.of(rival, "plain", "cpu"), strict=True)
    return [with_call - without for with_call, without in pairs]


def fastest(samples: Samples, rivals: Sequence[Rival]) -> list[float]:
    """Return the fastest rival's rate with a call, round by round."""
    rates = [found for rival in rivals if (found := samples.of(rival, "call"))]
    return [max(each) for each in zip(*rates, strict=True)]


# ---- claims


def claims(samples: Samples) -> Iterator[Claim]:
    """Yield the claims about the measured rivals."""
    dhagas = samples.of(DHAGAS, "call")
    if dhagas:
        yield Claim(
            *("dhagas that call keep of the rate without a call", KEPT, True),
            *(kept(samples, DHAGAS), "%", "75%: 30,000/s of 40,000"),
        )
    if over := ratios(dhagas, samples.of(THREADS, "call")):
        yield Claim(
            "dhagas beside 2 threads that block", OVER_THREADS, True, over, published="3.75x: 30,000/s to 8,000"
        )
    if over := ratios(dhagas, fastest(samples, (PYWSGI, GUNICORN_GEVENT))):
        yield Claim("dhagas beside the faster server on gevent", OVER_GEVENT, True, over)


# ---- tables


def _median(values: Sequence[float], form: Callable[[float], str]) -> str:
    return form(statistics.median(values)) if values else "–"


def _percent(value: float) -> str:
    return f"{value:.0f}%"


def _rate_line(samples: Samples, rival: Rival) -> list[str]:
    rates = samples.of(rival, "call")
    return [
        *(rival.name, rival.server, _median(samples.of(rival, "plain"), printed), _median(rates, printed)),
        *(spread(rates), _median(kept(samples, rival), _percent)),
        *(f"{statistics.median(samples.of(rival, 'call', key)) / 1e3:.1f}" for key in ("p50", "p99")),
    ]


def _shares(samples: Samples, rival: Rival, key: str) -> str:
    pages: tuple[Page, ...] = ("plain", "call")
    return " / ".join(_percent(100 * statistics.median(samples.of(rival, page, key))) for page in pages)


def _cpu_line(samples: Samples, rival: Rival) -> list[str]:
    return [
        *(rival.name, _median(samples.of(rival, "plain", "cpu"), printed)),
        *(_median(call_cpu(samples, rival), printed), _median(kept_by_cpu(samples, rival), _percent)),
        *(_shares(samples, rival, key) for key in ("share", "wrk", "backend")),
    ]


def measured(samples: Samples) -> list[Rival]:
    """Return the rivals that have samples."""
    return [rival for rival in RIVALS if rival.name in samples.rivals]


def _bare_line(samples: Samples) -> list[str]:
    return ["a bare epoll loop", "–", printed(statistics.median(sample["cpu"] for sample in samples.bare)), *["–"] * 4]


def tables(samples: Samples) -> list[Table]:
    """Return the tables of rates and CPU times."""
    rivals = measured(samples)
    return [
        Table(
            "Pages a second without a call and with one",
            ["who calls", "server", "without", "with", "from–to", "kept", "p50 ms", "p99 ms"],
            [_rate_line(samples, rival) for rival in rivals],
        ),
        Table(
            "CPU time of the server for a page; shares of a CPU that were used without / with the call",
            ["who calls", "page, µs", "call, µs", "kept by CPU", "server", "wrk", "backend"],
            [*(_cpu_line(samples, rival) for rival in rivals), _bare_line(samples)],
        ),
    ]


# ---- charts


def charts(samples: Samples) -> list[Chart]:
    """Draw rates, and CPU time."""
    rivals = measured(samples)
    return [
        drawn(
            "Pages a second without a call of the backend (pale) and with one; the lines span all rounds",
            lambda axes: _draw_rates(axes, samples, rivals),
        ),
        drawn(
            "CPU time of the server for a page (pale), and what the call adds: as in a bare epoll loop, and the rest "
            "(full)",
            lambda axes: _draw_cpu(axes, samples, rivals),
        ),
    ]


def _name_rows(axes: Axes, rivals: Sequence[Rival]) -> None:
    axes.set_yticks(range(len(rivals)), [rival.name for rival in rivals])
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")


def _draw_rates(axes: Axes, samples: Samples, rivals: Sequence[Rival]) -> None:
    _name_rows(axes, rivals)
    for place, rival in enumerate(rivals):
        _draw_rate(axes, place - 0.2, samples.of(rival, "plain"), rival, alpha=0.35)
        _draw_rate(axes, place + 0.2, samples.of(rival, "call"), rival, alpha=1.0)
    axes.set_xlabel("pages a second")
    axes.margins(x=0.12)
    axes.xaxis.set_major_formatter("{x:,.0f}")


def _draw_rate(axes: Axes, place: float, rates: Sequence[float], rival: Rival, alpha: float) -> None:
    middle = statistics.median(rates)
    axes.barh(place, middle, 0.36, color=COLOURS[rival.colour], alpha=alpha)
    axes.errorbar(middle, place, xerr=[[middle - min(rates)], [max(rates) - middle]], color="black", capsize=2)
    axes.annotate(printed(middle), (max(rates), place), (4, 0), textcoords="offset points", va="center", fontsize=8)


def _draw_cpu(axes: Axes, samples: Samples, rivals: Sequence[Rival]) -> None:
    _name_rows(axes, rivals)
    least = statistics.median(sample["cpu"] for sample in samples.bare)
    for place, rival in enumerate(rivals):
        page = statistics.median(samples.of(rival, "plain", "cpu"))
        call = statistics.median(call_cpu(samples, rival))
        bare = min(least, max(call, 0.0))
        _stack(axes, place, (page, bare, max(call, 0.0) - bare), rival)
        text = f"{printed(page)} + {printed(call)}"
        axes.annotate(text, (page + call, place), (4, 0), textcoords="offset points", va="center", fontsize=8)
    axes.set_xlabel("µs")
    axes.margins(x=0.15)


def _stack(axes: Axes, place: int, parts: Iterable[float], rival: Rival) -> None:
    left = 0.0
    for part, alpha in zip(parts, (0.35, 0.65, 1.0), strict=True):
        axes.barh(place, part, 0.6, left=left, color=COLOURS[rival.colour], alpha=alpha)
        left += part
