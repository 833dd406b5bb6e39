"""A collector for ``prometheus_client`` that exports ``dhaga.debug.stats()`` as metrics at each scrape.

To use it, run ``pip install 'dhaga[prometheus]'`` and call ``REGISTRY.register(Collector())``.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate, groupby

from .._kernel.faces.extras import missing_extra
from ..debug._stats import SchedulerStats, stats

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
    """Exports the metrics of all schedulers of this process. The label ``scheduler`` has the scheduler's name.

    If several schedulers have the same name, a sample is the sum of their values, and for ``dhaga_busy`` the mean.
    Prometheus accepts only one sample of a metric for each label value.
    ``dhaga_delay_seconds``, the delay between a dhaga's wake and its next run, has samples only while a watchdog runs
    (``dhaga.debug.watch()``).
    """

    def collect(self) -> Iterator[Metric]:
        """Yield the current metrics. Parks: never. From: any thread."""
        found = stats()
        named = {name: list(group) for name, group in groupby(found.schedulers, key=lambda each: each.name)}
        for field, words in GAUGES.items():
            gauge = GaugeMetricFamily(f"dhaga_{field}", words, labels=["scheduler"])
            for name, group in named.items():
                value = sum(getattr(each, field) for each in group)
                gauge.add_metric([name], value / len(group) if field == "busy" else value)
            yield gauge
        for field, words in COUNTERS.items():
            counter = CounterMetricFamily(f"dhaga_{field}", words, labels=["scheduler"])
            for name, group in named.items():
                counter.add_metric([name], sum(getattr(each, field) for each in group))
            yield counter
        histogram = HistogramMetricFamily("dhaga_delay_seconds", "Delay from wake to run", labels=["scheduler"])
        for name, group in named.items():
            if sampled := [each for each in group if each.delays]:
                seconds = sum(each.delay_seconds for each in sampled)
                histogram.add_metric([name], buckets_of(sampled, found.bounds), seconds)
        yield histogram


def buckets_of(group: list[SchedulerStats], bounds: tuple[float, ...]) -> list[tuple[str, float]]:
    """Return each bound with the number of delays up to this bound."""
    names = [*(f"{bound:g}" for bound in bounds), "+Inf"]
    counts = map(sum, zip(*(each.delays for each in group), strict=True))
    return list(zip(names, accumulate(map(float, counts)), strict=True))
