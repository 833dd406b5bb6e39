"""Let eventlet's own tests, and the programs that they start, import Dhaga's ``eventlet``."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import dhaga.compat

dhaga.compat.install("eventlet")
site = str(Path(__file__).with_name("eventlet_site"))
sys.path.append(site)  # what the tests give on to their programs
os.environ["PYTHONPATH"] = site
