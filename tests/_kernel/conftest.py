"""Pollers to choose from."""

from __future__ import annotations

import pytest


@pytest.fixture(params=["", "ioloop"])
def each_poller(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("DHAGA_POLLER", request.param)
    return str(request.param)
