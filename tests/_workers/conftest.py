"""A dhaga for the main code."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import dhaga
from dhaga._workers.offload import OffloadPool


@pytest.fixture
def main_dhaga() -> None:
    """Give the main code a scheduler: before that it is a plain thread."""
    dhaga.spawn(int).join()


@pytest.fixture
def wal() -> Iterator[OffloadPool]:
    with OffloadPool("wal", threads=1) as pool:
        yield pool
