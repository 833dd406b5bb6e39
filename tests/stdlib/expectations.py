"""What is expected of CPython's test modules under the patch: the data beside this file."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests.stdlib.run import Limits

HERE = Path(__file__).parent
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"


def read(name: str) -> dict[str, Any]:
    return tomllib.loads((HERE / name).read_text())


@dataclass(frozen=True)
class Loss:
    """Why a test fails under the patch."""

    reason: str
    flaky: bool = False
    hangs: bool = False
    """It is not even tried."""


def known_losses(python: str = PYTHON) -> dict[str, Loss]:
    """Return what ``known.toml`` tells of a Python, by test."""
    return {
        test: Loss(entry["reason"], entry.get("flaky", False), entry.get("hangs", False))
        for entry in read("known.toml").get("loss", [])
        if python in entry.get("pythons", [python])
        for test in entry["tests"]
    }


def lost_by_gevent(python: str = PYTHON) -> set[str] | None:
    """Return the tests that pass unpatched and did not with gevent; None if that was not recorded on this Python."""
    file = HERE / f"gevent-{python}.txt"
    if not file.exists():
        return None
    return {line for line in file.read_text().splitlines() if line and not line.startswith("#")}


@dataclass(frozen=True)
class Set:
    """The modules of a run, what is left out of them, and what they may use."""

    modules: tuple[str, ...]
    left_out: tuple[str, ...]
    limits: Limits

    @classmethod
    def named(cls, name: str) -> Set:
        data = read("sets.toml")
        own = data[name]
        left_out = {**data["left_out"], **own.get("left_out", {})}
        limits = Limits(own["test_seconds"], resources=tuple(own["resources"]))
        return cls(tuple(data["modules"]), tuple(left_out), limits)

    def only(self, modules: Sequence[str]) -> Set:
        """Return the same of these modules alone; of all, if there are none."""
        return replace(self, modules=tuple(modules) or self.modules)
