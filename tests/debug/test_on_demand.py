"""Costly probes run only while they are asked for."""

from __future__ import annotations

import greenlet
import pytest

import dhaga
from dhaga._kernel import hooks
from dhaga.debug import _on_demand
from dhaga.debug._remote.client import InspectorClient


def test_nothing_is_measured_or_traced_once_nobody_asks(
    line: InspectorClient, observed: dhaga.Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    line.ask("table")
    line.ask("trace")
    assert observed.spawn(greenlet.gettrace).result() is not None
    assert hooks.on_wake is not None
    monkeypatch.setattr(_on_demand, "KEEP_SECONDS", 0)
    while observed.spawn(greenlet.gettrace).result() is not None or hooks.on_wake is not None:
        dhaga.sleep(0.01)
