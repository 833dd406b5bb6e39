"""A snapshot is there whole or not at all."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from examples.backup.catalogue import PAGE_ROWS, Catalogue
from examples.backup.chunks import digest_of
from examples.backup.tree import DIRECTORY, FILE, MORE, Entry
from examples.backup.wire import BackupError, Refused
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


def test_a_discarded_draft_leaves_nothing_and_a_commit_cannot_be_discarded(unit: Unit, tmp_path: Path) -> None:
    catalogue = Catalogue(tmp_path / "db", unit)
    draft = catalogue.begin("draft", "host", "/source")
    assert draft is not None
    catalogue.add(draft, 0, ENTRIES)
    assert catalogue.digests(draft) == {A, B, C}
    catalogue.discard(draft)
    assert catalogue.digests(draft) == set()
    kept = committed(catalogue, "kept")
    catalogue.discard(kept)
    assert catalogue.page(kept, 0) == ENTRIES
    catalogue.close()


def test_a_name_is_committed_once(unit: Unit, tmp_path: Path) -> None:
    catalogue = Catalogue(tmp_path / "db", unit)
    first, second = catalogue.begin("one", "host", "/a"), catalogue.begin("one", "host", "/a")
    assert first is not None and second is not None
    catalogue.commit(first)
    assert catalogue.begin("one", "host", "/a") is None
    catalogue.add(second, 0, ENTRIES)
    catalogue.commit(second)
    (one,) = catalogue.snapshots()
    assert (catalogue.find("one"), one.files) == ((first, "one"), 0)
    assert catalogue.digests(second) == set()
    catalogue.close()


def test_a_snapshot_is_found_by_an_unambiguous_beginning(unit: Unit, tmp_path: Path) -> None:
    catalogue = Catalogue(tmp_path / "db", unit)
    with pytest.raises(Refused, match="there is no snapshot 'latest'"):
        catalogue.find("latest")
    keys = {name: committed(catalogue, name) for name in ("20240101", "20240102", "2024")}
    assert catalogue.find("20240101") == (keys["20240101"], "20240101")
    assert catalogue.find("2024") == (keys["2024"], "2024")
    assert catalogue.find("latest") == (keys["2024"], "2024")
    with pytest.raises(Refused, match="several snapshots begin with '202401"):
        catalogue.find("202401")
    with pytest.raises(Refused, match="there is no snapshot '%'"):
        catalogue.find("%")
    catalogue.close()


def test_pages_give_every_entry_once(unit: Unit, tmp_path: Path) -> None:
    catalogue = Catalogue(tmp_path / "db", unit)
    many = [Entry(b"%06d" % number, FILE, chunks=A * (number % 3)) for number in range(2 * PAGE_ROWS + 5)]
    many += [Entry(b"large%d" % number, FILE, chunks=A * 16_384) for number in range(5)]
    key = catalogue.begin("many", "host", "/source")
    assert key is not None
    catalogue.add(key, 0, many)
    catalogue.commit(key)
    found: list[Entry] = []
    sizes = []
    while page := catalogue.page(key, len(found)):
        found += page
        sizes.append(len(page))
    assert found == many
    assert sizes == [PAGE_ROWS, PAGE_ROWS, 7, 2, 1]
    catalogue.close()


FORMAT_0 = """
    CREATE TABLE snapshots (
        key INTEGER PRIMARY KEY, name TEXT NOT NULL, host TEXT NOT NULL, source TEXT NOT NULL,
        files INTEGER NOT NULL DEFAULT 0, bytes INTEGER NOT NULL DEFAULT 0, committed REAL);
    CREATE TABLE entries (
        snapshot INTEGER NOT NULL REFERENCES snapshots ON DELETE CASCADE, number INTEGER NOT NULL,
        path BLOB NOT NULL, kind TEXT NOT NULL, mode INTEGER NOT NULL, mtime_ns INTEGER NOT NULL,
        size INTEGER NOT NULL, target BLOB NOT NULL, chunks BLOB NOT NULL,
        PRIMARY KEY (snapshot, number)) WITHOUT ROWID;
    INSERT INTO snapshots VALUES (1, 'old', 'host', '/source', 1, 7, 1.5);
    INSERT INTO entries VALUES (1, 0, x'61', 'file', 420, 5, 7, x'', x'');
"""


def test_a_catalogue_from_before_owners_and_holes_is_read_and_written(unit: Unit, tmp_path: Path) -> None:
    db = sqlite3.connect(tmp_path / "db", isolation_level=None)
    db.executescript(FORMAT_0)
    db.close()
    for name in ("new", "newer"):
        catalogue = Catalogue(tmp_path / "db", unit)
        assert catalogue.page(catalogue.find("old")[0], 0) == [Entry(b"a", FILE, 0o644, 5, 7, uid=-1, gid=-1)]
        assert catalogue.page(committed(catalogue, name), 0) == ENTRIES
        catalogue.close()


def test_a_catalogue_of_a_later_format_is_refused(unit: Unit, tmp_path: Path) -> None:
    Catalogue(tmp_path / "db", unit).close()
    db = sqlite3.connect(tmp_path / "db", isolation_level=None)
    db.execute("PRAGMA user_version = 99")
    db.close()
    with pytest.raises(BackupError, match="is of format 99, and this server knows 1: use a newer one"):
        Catalogue(tmp_path / "db", unit)


def test_a_file_that_is_no_catalogue_is_refused(unit: Unit, tmp_path: Path) -> None:
    (tmp_path / "db").write_bytes(b"no database" * 100)
    with pytest.raises(BackupError, match="cannot open the catalogue"):
        Catalogue(tmp_path / "db", unit)
