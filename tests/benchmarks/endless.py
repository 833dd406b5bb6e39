"""An experiment that has to be interrupted, and a process of its which does not care."""

from __future__ import annotations

import subprocess
import sys
import time

from benchmarks.tables.outcome import Outcome, Tell
from tests.benchmarks.made_up import draw as draw

DEAF = "import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN); print(flush=True); time.sleep(60)"


def measure(quick: bool, tell: Tell) -> Outcome:
    with subprocess.Popen([sys.executable, "-c", DEAF], stdout=subprocess.PIPE) as deaf:
        assert deaf.stdout
        deaf.stdout.readline()
        tell(f"left: {deaf.pid}")
        time.sleep(60)
    raise AssertionError("nobody has interrupted")
