"""One thread collects metrics while others register instruments."""

import threading

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

reader = InMemoryMetricReader()
meter = MeterProvider([reader], shutdown_on_exit=False).get_meter("simulated")
meter.create_counter("first").add(1)


def register(name):
    for number in range(3):
        meter.create_counter(f"{name}{number}").add(1)


threads = [threading.Thread(target=register, args=(name,)) for name in ("a", "b")]
threads.append(threading.Thread(target=lambda: [reader.get_metrics_data() for _ in range(2)]))
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
