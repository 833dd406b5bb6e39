"""Deadlocks that are reported at once, and the lines of their reports."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

import dhaga
from dhaga._kernel.wait import deadlock
from dhaga.testing import other_threads
from tests.kit.socket_cases import eventually


@pytest.fixture(autouse=True)
def quick_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the interval of checks. Wait for the threads of earlier tests, which would prevent each report."""
    eventually(lambda: other_threads() == {threading.main_thread()})
    monkeypatch.setattr(deadlock, "RECHECK_SECONDS", 0.01)


def lines_of(wait: Callable[[], object]) -> list[str]:
    """Return the lines of a deadlock's report, without places and circles."""
    return [line for line in all_lines_of(wait) if not line.startswith(("at ", "in a circle: "))]


def all_lines_of(wait: Callable[[], object]) -> list[str]:
    with pytest.raises(dhaga.Deadlock) as info:
        wait()
    first, *rest = str(info.value).splitlines()
    assert first == "every dhaga waits, and nothing in this process could wake one:"
    return [line.strip() for line in rest]
