"""Which poller a scheduler gets."""

from __future__ import annotations

from typing import Any

import pytest

import dhaga
from dhaga._kernel import originals
from dhaga._kernel.run.edge_pollers import Epoll, Kqueue
from dhaga._kernel.run.ioloop_poller import IOLoopPoller
from dhaga._kernel.run.new_poller import new_poller
from dhaga.testing import virtual_clock
from tests.kit.pollers import poller_here

PLATFORMS_OWN = Kqueue if originals.epoll is None else Epoll


@pytest.mark.skipif(originals.epoll is originals.kqueue is None, reason="this platform has neither epoll nor kqueue")
@pytest.mark.parametrize("value", [None, ""])
def test_the_platforms_own_is_chosen_unless_told_otherwise(value: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DHAGA_POLLER", raising=False)
    if value is not None:
        monkeypatch.setenv("DHAGA_POLLER", value)
    with virtual_clock():
        assert type(poller_here()) is PLATFORMS_OWN and repr(poller_here()) == f"<{PLATFORMS_OWN.__name__} with 0 fds>"


def test_the_portable_one_is_chosen_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DHAGA_POLLER", "ioloop")
    with virtual_clock():
        assert type(poller_here()) is IOLoopPoller
    with dhaga.Scheduler() as scheduler:
        assert type(scheduler.poller) is IOLoopPoller


@pytest.mark.parametrize("value", ["epoll", "IOLOOP", "0", " "])
def test_any_other_name_is_refused(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DHAGA_POLLER", value)
    ioloop: Any = None
    with pytest.raises(ValueError, match="DHAGA_POLLER"):
        new_poller(ioloop, lambda fd, events: None)
