"""The scenarios of ``cancel_at_every_park`` lose nothing when a cancel comes at their events, where they compute.

Each run strikes three events of each scenario (``--dhaga-events``, see ``conftest.py``); this test strikes 60.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests._kernel.test_preemption_strikes import needs_events

TESTS = Path(__file__).parents[1]


@needs_events
@pytest.mark.slow
@pytest.mark.once
@pytest.mark.process
def test_no_scenario_loses_anything_at_any_of_its_events() -> None:
    files = [str(path) for path in sorted(TESTS.rglob("test_*.py")) if "cancel_at_every_park(" in path.read_text()]
    assert len(files) > 20
    command = [sys.executable, "-m", "pytest", "-q", "--dhaga-events", "60", "-m", "not slow and not process"]
    done = subprocess.run([*command, *files], cwd=TESTS.parent, env=os.environ, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-5000:]
