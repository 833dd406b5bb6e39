"""A snapshot is there whole or not at all."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from examples.backup.catalogue import Catalogue
from examples.backup.chunks import digest_of
from examples.backup.tree import DIRECTORY, FILE, MORE, Entry
from examples.backup.wire import Refused
from examples.backup.workers import Unit

A, B, C = (digest_of(name) for name in (b"a", b"b", b"c"))
ENTRIES = [Entry(b"", DIRECTORY), Entry(b"a", FILE, 0o644, 5, 7, b"", A + B), Entry(b"a", MORE, chunks=C)]


def committed(catalogue: Catalogue, name: str) -> int:
    """Commit a snapshot."""
    key = catalogue.begin(name, "host", "/source")
    assert key is not None
    catalogue.add(key, 0, ENTRIES[:1])
    catalogue.add(key, 1, ENTRIES[1:])
    catalogue.commit(key)
    return key


def test_a_snapshot_is_visible_from_its_commit_on(unit: Unit, tmp_path: Path) -> None:
    catalogue = Catalogue(tmp_path / "db", unit)
    key = catalogue.begin("one", "host", "/source")
    assert key is not None
    catalogue.add(key, 0, ENTRIES)
    assert catalogue.snapshots() == []
    assert catalogue.page(key, 0) == []
    with pytest.raises(Refused, match="there is no snapshot 'one'"):
        catalogue.find("one")
    catalogue.commit(key)
    (one,) = catalogue.snapshots()
    assert (one.name, one.host, one.source, one.files, one.bytes) == ("one", "host", "/source", 1, 7)
    assert catalogue.find("one") == (key, "one")
    assert catalogue.page(key, 0) == ENTRIES
    catalogue.close()


def test_what_waits_for_a_commit_is_committed_with_the_next_and_a_failure_is_of_one_alone(
    unit: Unit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalogue = Catalogue(tmp_path / "db", unit)
    keys = [catalogue.begin(f"s{number}", "host", "/source") for number in range(8)]
    lots: list[list[int]] = []
    commit = catalogue._commit

    def note(due: list[int]) -> None:
        lots.append(due)
        if len(lots) == 2:
            raise sqlite3.OperationalError("disk I/O error")
        commit(due)

    monkeypatch.setattr(catalogue, "_commit", note)
    group = unit.group(2, 8)
    with catalogue._lock:
        tasks = [group.start(catalogue.commit, keys[0])]
        wait_for(lambda: len(catalogue._due) == 1)
    unit.futures.wait(tasks, 20)
    with catalogue._lock:
        tasks += [group.start(catalogue.commit, key) for key in keys[1:]]
        wait_for(lambda: len(catalogue._due) == 7)
    unit.futures.wait(tasks, 20)
    failed = [task for task in tasks if task.exception()]
    group.stop(5)
    assert [len(lot) for lot in lots] == [1, 7, 6]
    assert len(failed) == 1
    assert len(catalogue.snapshots()) == 7
    catalogue.close()


def wait_for(condition: Callable[[], bool]) -> None:
    """Wait until something holds."""
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_drafts_of_a_killed_server_are_gone_and_commits_are_not(unit: Unit, tmp_path: Path) -> None:
    catalogue = Catalogue(tmp_path / "db", unit)
    kept = committed(catalogue, "kept")
    draft = catalogue.begin("draft", "host", "/source")
    assert draft is not None
    catalogue.add(draft, 0, ENTRIES)
    catalogue.close()
    catalogue = Catalogue(tmp_path / "db", unit)
    assert [one.name for one in catalogue.snapshots()] == ["kept"]
    assert catalogue.page(kept, 0) == ENTRIES
    assert catalogue.digests(draft) == set()
    catalogue.close()
