"""Pollers to choose from, and a scheduler that ends turns."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import dhaga
from dhaga._kernel.process import preemption_watcher

QUANTUM = 0.002


@pytest.fixture(params=["", "ioloop"])
def each_poller(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("DHAGA_POLLER", request.param)
    return str(request.param)


@pytest.fixture
def preemptive() -> Iterator[dhaga.Scheduler]:
    """A scheduler that is preemptive; the watcher ends with the test."""
    with dhaga.Scheduler(preempt=QUANTUM) as scheduler:
        yield scheduler
    preemption_watcher.turn_off()
