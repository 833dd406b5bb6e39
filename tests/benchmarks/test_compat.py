"""`python -m benchmarks.compat`: programs in gevent's style, on gevent and on Dhaga under its name."""

from __future__ import annotations

import math

import pytest

from benchmarks.compat import __main__ as compat

pytestmark = pytest.mark.once


@pytest.mark.parametrize("program", compat.PROGRAMS)
def test_each_program_runs_on_dhaga(program: str) -> None:
    rate = compat.measure("dhaga", program, 1)
    assert rate is not None and rate > 0


def test_the_programs_are_those_that_there_are() -> None:
    pytest.importorskip("gevent", reason="the programs import it")
    from benchmarks.compat.programs import PROGRAMS

    assert (*PROGRAMS,) == compat.PROGRAMS


def test_what_is_below_the_target_or_could_not_be_measured_is_missed() -> None:
    found = {"queues": {"times": 1.29}, "results": {"times": 1.3}, "switches": {"times": math.nan}}
    assert compat.missed(found) == ["queues", "switches"]
