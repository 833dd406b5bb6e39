"""Two threads call a function whose time is measured: the measures share the time of their begin."""

import threading
import time

import prometheus_client

registry = prometheus_client.CollectorRegistry()
summary = prometheus_client.Summary("work", "seconds of work", registry=registry)


@summary.time()
def work():
    time.sleep(1)


def start_late(delay):
    time.sleep(delay)
    work()


threads = [threading.Thread(target=start_late, args=(delay,)) for delay in (0, 0.5)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert round(registry.get_sample_value("work_sum")) == 2
