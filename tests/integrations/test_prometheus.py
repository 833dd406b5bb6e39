"""The figures as Prometheus reads them."""

from __future__ import annotations

import pytest

import dhaga
from dhaga import debug
from dhaga.testing import settle, virtual_clock

prometheus = pytest.importorskip("prometheus_client")


def scraped() -> dict[str, float]:
    from prometheus_client.parser import text_string_to_metric_families

    from dhaga.integrations.prometheus import Collector

    registry = prometheus.CollectorRegistry()
    registry.register(Collector())
    text = prometheus.generate_latest(registry).decode()
    families = list(text_string_to_metric_families(text))
    samples = [sample for each in families for sample in each.samples]
    found = {
        ",".join(filter(None, (each.name, each.labels["scheduler"], each.labels.get("le")))): each.value
        for each in samples
    }
    assert len(found) == len(samples)  # Prometheus rejects two samples of one series
    return found


def test_each_scheduler_has_its_figures() -> None:
    with virtual_clock():
        dhagas = [dhaga.spawn(dhaga.sleep, 1) for _ in range(3)]
        settle()
        found = scraped()
        for each in dhagas:
            each.join()
    assert found["dhaga_live,virtual"] == found["dhaga_parked,virtual"] == found["dhaga_timers,virtual"] == 3
    assert found["dhaga_switches_total,virtual"] >= 3


def test_delays_are_a_histogram_that_adds_up() -> None:
    def yields() -> None:
        while not any(debug.stats().schedulers[0].delays):
            dhaga.sleep(0)

    with debug.watch(0.02):
        dhaga.spawn(yields).join()
        found = scraped()
    assert found["dhaga_delay_seconds_bucket,MainThread,+Inf"] == found["dhaga_delay_seconds_count,MainThread"] > 0
    assert found["dhaga_delay_seconds_sum,MainThread"] > 0


def test_schedulers_of_one_name_are_one_series() -> None:
    with dhaga.Scheduler("twin") as one, dhaga.Scheduler("twin") as other, debug.watch(0.02):
        sleepers = [each.spawn(dhaga.sleep, 60) for each in (one, one, other)]
        while not all(any(each.delays) for each in debug.stats().schedulers if each.name == "twin"):
            for each in (one, other):
                each.spawn(dhaga.sleep, 0).join()
        found = scraped()
        for sleeper in sleepers:
            sleeper.cancel()
            sleeper.join()
    assert found["dhaga_live,twin"] == 3
    assert 0 <= found["dhaga_busy,twin"] <= 1
    assert found["dhaga_delay_seconds_bucket,twin,+Inf"] == found["dhaga_delay_seconds_count,twin"] >= 2
