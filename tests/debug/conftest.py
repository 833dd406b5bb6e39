"""What the tests of the inspector share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import dhaga
from dhaga.debug import inspect
from dhaga.debug._remote.client import InspectorClient


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return tmp_path / "dhaga"


@pytest.fixture
def observed() -> Iterator[dhaga.Scheduler]:
    dhaga.sleep(0)  # from here on main code, which asks, is in each answer
    with dhaga.Scheduler("observed") as scheduler:
        yield scheduler


@pytest.fixture
def line() -> Iterator[InspectorClient]:
    with inspect(), InspectorClient(os.getpid()) as line:
        yield line
