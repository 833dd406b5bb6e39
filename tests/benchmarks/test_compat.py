"""`python -m benchmarks.compat`: programs in the style of gevent and eventlet, and Dhaga under these names."""

from __future__ import annotations

import math
import subprocess
import sys

import pytest

from benchmarks.compat import __main__ as compat

pytestmark = pytest.mark.once


@pytest.mark.parametrize(
    ("package", "program"), [(each, name) for each in compat.PROGRAMS for name in compat.PROGRAMS[each]]
)
def test_each_program_runs_on_dhaga(package: str, program: str) -> None:
    rate = compat.measure("dhaga", package, program, 1)
    assert rate is not None and rate > 0


@pytest.mark.parametrize("package", compat.PROGRAMS)
def test_the_programs_are_those_that_there_are(package: str) -> None:
    code = f"""
import dhaga.compat
dhaga.compat.install({package!r})
from benchmarks.compat.{package}_programs import PROGRAMS
print(*PROGRAMS)
"""
    told = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert (*told.split(),) == compat.PROGRAMS[package]


def test_what_is_below_the_target_or_could_not_be_measured_is_missed() -> None:
    found = {"queues": {"times": 1.29}, "results": {"times": 1.3}, "switches": {"times": math.nan}}
    assert compat.missed(found, 1.3) == ["queues", "switches"]
