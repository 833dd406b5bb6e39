"""An experiment that fails, and leaves a process behind that would run on."""

from __future__ import annotations

import subprocess
import sys

from benchmarks.tables.outcome import Outcome, Tell
from tests.benchmarks.made_up import draw as draw


def measure(quick: bool, tell: Tell) -> Outcome:
    left = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    tell(f"left: {left.pid}")
    raise RuntimeError("no luck today")
