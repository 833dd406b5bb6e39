"""Files for the tests, and main code that has a scheduler."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import dhaga
from dhaga._iowait import cached_reads
from dhaga._iowait.offloaded_file import BUFFER_SIZE
from tests.kit.files import LINES


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "lines"
    found.write_text("".join(LINES))
    assert found.stat().st_size > 3 * BUFFER_SIZE
    return found


@pytest.fixture
def pool() -> Iterator[dhaga.OffloadPool]:
    with dhaga.OffloadPool("files", threads=1) as found:
        yield found


@pytest.fixture
def no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have each read of a file offloaded, as where the file system does not tell what is in memory."""
    monkeypatch.setattr(cached_reads, "NOWAIT", 0)
