"""A collector for ``prometheus_client``: the figures of ``dhaga.debug.stats()``, read at each scrape.

``pip install 'dhaga[prometheus]'``, then ``REGISTRY.register(Collector())``.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate

from .._kernel.faces.extras import missing_extra
from ..debug._stats import SchedulerStats, Stats, stats

try:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
    from prometheus_client.registry import Collector as Standard
except ModuleNotFoundError as error:
    raise missing_extra("dhaga.integrations.prometheus", "prometheus", error) from None

GAUGES = {
    "live": "Dhagas that have not ended",
    "parked": "Waiting dhagas",
    "runnable": "Entries of the run queues",
    "timers": "Armed timers",
    "busy": "Share of the time since the start in which dhagas ran",
}
COUNTERS = {
    "switches": "Switches to dhagas",
    "preemptions": "Turns ended by preemption",
    "laps": "Event loop iterations that ran dhagas",
    "events": "File descriptor events",
    "timers_fired": "Timers that fired",
}


class Collector(Standard):
    """Figures of every scheduler of this process, each under the label ``scheduler``.

    ``dhaga_delay_seconds``, from wake to run, has samples only while a watchdog runs: ``dhaga.debug.watch()``.
    """

    def collect(self) -> Iterator[Metric]:
        """Return the current figures. Parks: never. From: any thread."""
        found = stats()
        for field, words in GAUGES.items():
            gauge = GaugeMetricFamily(f"dhaga_{field}", words, labels=["scheduler"])
            for each in found.schedulers:
                gauge.add_metric([each.name], getattr(each, field))
            yield gauge
        for field, words in COUNTERS.items():
            counter = CounterMetricFamily(f"dhaga_{field}", words, labels=["scheduler"])
            for each in found.schedulers:
                counter.add_metric([each.name], getattr(each, field))
            yield counter
        yield delays_of(found)


def delays_of(found: Stats) -> Metric:
    """Return the histogram of the delays from wake to run."""
    histogram = HistogramMetricFamily("dhaga_delay_seconds", "Delay from wake to run", labels=["scheduler"])
    for each in found.schedulers:
        if each.delays:
            histogram.add_metric([each.name], buckets_of(each, found.bounds), each.delay_seconds)
    return histogram


def buckets_of(each: SchedulerStats, bounds: tuple[float, ...]) -> list[tuple[str, float]]:
    """Return each bound with the cumulative count up to it."""
    names = [*(f"{bound:g}" for bound in bounds), "+Inf"]
    return list(zip(names, accumulate(map(float, each.delays)), strict=True))
