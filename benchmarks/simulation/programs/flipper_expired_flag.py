"""Threads read a flag that is cached for 50 ms: it expires between the look whether it is cached and the read."""

import random
import threading
import time

from flipper.contrib.cached import CachedFeatureFlagStore
from flipper.contrib.memory import MemoryFeatureFlagStore

store = CachedFeatureFlagStore(MemoryFeatureFlagStore(), size=10, ttl=0.05)
store.create("colour", is_enabled=True)


def read():
    for _ in range(20):
        time.sleep(random.uniform(0, 0.02))
        assert store.get("colour").to_dict()["is_enabled"]


threads = [threading.Thread(target=read) for _ in range(3)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
