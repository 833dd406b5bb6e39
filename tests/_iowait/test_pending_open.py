"""Opening in an OS thread, and callers that are cancelled meanwhile."""

from __future__ import annotations

import threading

import pytest

import dhaga
from dhaga._iowait.pending_open import offload_open
from dhaga._workers.offload import OffloadPool
from tests.kit.parking import parked


@pytest.fixture
def pool() -> OffloadPool:
    return OffloadPool("opens", 1)


def test_what_is_opened_is_the_callers(pool: OffloadPool) -> None:
    closed: list[str] = []
    assert offload_open(pool, lambda: "file", closed.append) == "file"
    assert not closed
    pool.shutdown()


def test_what_is_opened_after_a_cancel_is_closed_once(pool: OffloadPool) -> None:
    closed: list[str] = []
    begun, gate = threading.Event(), threading.Event()

    def make() -> str:
        begun.set()
        gate.wait()
        return "file"

    opening = parked(offload_open, pool, make, closed.append)
    begun.wait()  # an open that has not begun is dropped
    opening.cancel()
    with pytest.raises(dhaga.Cancelled):
        opening.result()
    assert not closed
    gate.set()
    pool.shutdown()
    assert closed == ["file"]


def test_a_failed_open_closes_nothing_and_raises_its_error(pool: OffloadPool) -> None:
    def make() -> str:
        raise FileNotFoundError("nowhere")

    with pytest.raises(FileNotFoundError, match="nowhere"):
        offload_open(pool, make, pytest.fail)
    pool.shutdown()
