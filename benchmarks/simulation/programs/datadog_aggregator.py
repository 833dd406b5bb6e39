"""Threads add points while another flushes: the flush iterates the dict that they add intervals to."""

import threading

from datadog.threadstats.metrics import Counter, MetricsAggregator

aggregator = MetricsAggregator()


def add(start):
    for number in range(3):
        aggregator.add_point("hits", None, start + 10 * number, 1, Counter)


def flush():
    for _ in range(3):
        aggregator.flush(1000)


threads = [threading.Thread(target=add, args=(start,)) for start in (100, 200)] + [threading.Thread(target=flush)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
