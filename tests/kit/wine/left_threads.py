"""A pytest plugin that ends a process which outlives its run, and names the threads that a test has left."""

from __future__ import annotations

import faulthandler
import os
import sys
import threading
import time

SECONDS = float(os.environ.get("LEFT_THREADS_SECONDS", "60"))
"""Seconds for which the process may live after its last test."""


def pytest_unconfigure() -> None:
    threading.Thread(target=end, name="left_threads", daemon=True).start()


def end() -> None:
    """Wait, and end the process with the stacks and the names of its threads. From: a daemon thread."""
    time.sleep(SECONDS)
    faulthandler.dump_traceback()
    left = [thread.name for thread in threading.enumerate() if not thread.daemon and thread.name != "MainThread"]
    print(f"HUNG at the end of the run: the threads {', '.join(left)} have not ended", file=sys.stderr, flush=True)
    os._exit(1)
