"""Threads set values in a full cache: each set looks for expired ones while the others add theirs."""

import threading

from cachelib import SimpleCache

cache = SimpleCache(threshold=3)


def fill(name):
    for number in range(4):
        cache.set(f"{name}{number}", number)


threads = [threading.Thread(target=fill, args=(name,)) for name in ("a", "b", "c")]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
