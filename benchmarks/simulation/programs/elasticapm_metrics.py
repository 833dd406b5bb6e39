"""A timer collects metrics while threads make new ones."""

import threading
import types

from elasticapm.metrics.base_metrics import MetricsSet

metrics = MetricsSet(types.SimpleNamespace(_ignore_patterns=[]))
metrics.counter("requests").inc()


def serve(name):
    for number in range(3):
        metrics.counter("requests", view=f"{name}{number}").inc()


threads = [threading.Thread(target=serve, args=(name,)) for name in ("a", "b")]
threads.append(threading.Thread(target=lambda: list(metrics.collect())))
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
