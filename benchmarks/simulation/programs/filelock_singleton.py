"""Threads make a lock that is to be one for all: each gets its own."""

import tempfile
import threading
from pathlib import Path

import filelock

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "lock"
    made = []

    def make():
        made.append(filelock.FileLock(path, is_singleton=True))

    threads = [threading.Thread(target=make) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert made[0] is made[1]
