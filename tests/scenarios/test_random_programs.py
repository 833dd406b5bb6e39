"""Random programs come to the same on OS threads and on dhagas whose turns end at any of their events."""

from __future__ import annotations

import os
import queue
import sys
import threading

import pytest

import dhaga.io
import dhaga.os
import dhaga.queue
import dhaga.threading
from dhaga import testing
from dhaga.testing import preempt_everywhere
from tests.kit.random_programs import Program, Result

SEEDS = range(40)

pytestmark = pytest.mark.skipif(sys.version_info < (3, 12), reason="sys.monitoring came with Python 3.12")


class DhagaOs:
    """The functions of ``os`` that programs use, as the patch has them."""

    pipe, read, write, fdopen = os.pipe, dhaga.os.read, dhaga.os.write, dhaga.io.open


def on_dhagas(seed: int, locked: bool = True) -> Result:
    with preempt_everywhere(seed):
        return Program(seed, dhaga.threading, dhaga.queue, DhagaOs, locked).run()


@pytest.mark.parametrize("number", SEEDS)
def test_a_program_comes_to_the_same_on_threads_and_on_preempted_dhagas(number: int) -> None:
    seed = (testing.seed or 0) * len(SEEDS) + number
    assert on_dhagas(seed) == Program(seed, threading, queue, os).run()


def test_a_program_without_its_locks_loses_what_it_adds() -> None:
    """Else the comparison would show nothing: dhagas are switched between a read and the write after it."""
    assert any(on_dhagas(seed, locked=False).counters != on_dhagas(seed).counters for seed in SEEDS)
