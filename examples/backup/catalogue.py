"""The server's snapshots in SQLite.

A snapshot begins as a draft that only its writer sees. A single transaction commits it and makes it visible. The
transaction uses a write-ahead log with synchronous=FULL, so the snapshot and all earlier writes are on disk when
`commit` returns. Drafts that wait while another draft is committed are committed together. A draft is discarded when
its writer's connection ends, or at the next start if the server was killed. Writing a draft never waits for the disk.
Chunks are in `store`.
"""

from __future__ import annotations

import sqlite3
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from .chunks import digests_in
from .tree import FILE, Entry
from .wire import BackupError, Refused
from .workers import Unit

Result = TypeVar("Result")

PAGE_ROWS: Final = 5000
PAGE_BYTES: Final = 1024 * 1024  # a page ends after this; one more row stays well below the limit of a frame

LATEST: Final = "latest"  # finds the last snapshot, so no snapshot may have this name

FORMAT: Final = 1
"""The format of the database. A database of format 0 has no owners and holes; opening it adds the columns."""

_TO_FORMAT_1: Final = """
    BEGIN;
    ALTER TABLE entries ADD COLUMN uid INTEGER NOT NULL DEFAULT -1;
    ALTER TABLE entries ADD COLUMN gid INTEGER NOT NULL DEFAULT -1;
    ALTER TABLE entries ADD COLUMN holes BLOB NOT NULL DEFAULT x'';
    COMMIT;
"""
_SCHEMA: Final = """
    CREATE TABLE IF NOT EXISTS snapshots (
        key INTEGER PRIMARY KEY, name TEXT NOT NULL, host TEXT NOT NULL, source TEXT NOT NULL,
        files INTEGER NOT NULL DEFAULT 0, bytes INTEGER NOT NULL DEFAULT 0, committed REAL);
    CREATE UNIQUE INDEX IF NOT EXISTS committed_once ON snapshots (name) WHERE committed IS NOT NULL;
    CREATE INDEX IF NOT EXISTS snapshots_by_name ON snapshots (name);
    CREATE TABLE IF NOT EXISTS entries (
        snapshot INTEGER NOT NULL REFERENCES snapshots ON DELETE CASCADE, number INTEGER NOT NULL,
        path BLOB NOT NULL, kind TEXT NOT NULL, mode INTEGER NOT NULL, mtime_ns INTEGER NOT NULL,
        size INTEGER NOT NULL, target BLOB NOT NULL, chunks BLOB NOT NULL,
        uid INTEGER NOT NULL DEFAULT -1, gid INTEGER NOT NULL DEFAULT -1, holes BLOB NOT NULL DEFAULT x'',
        PRIMARY KEY (snapshot, number)) WITHOUT ROWID;
"""


@dataclass(frozen=True)
class Snapshot:
    """A committed snapshot, as `list` shows it; `committed` is seconds since the epoch."""

    name: str
    host: str
    source: str
    files: int
    bytes: int
    committed: float


@dataclass(frozen=True)
class SnapshotStatus:
    """The state of a name: committed or still a draft, with the numbers of its files and bytes."""

    committed: bool
    files: int
    bytes: int


class Catalogue:
    """The database of the snapshots. Calls to SQLite run one at a time, in an OS thread."""

    def __init__(self, path: Path, unit: Unit) -> None:
        self._unit = unit
        self._lock = unit.threading.Lock()
        self._due: deque[int] = deque()  # drafts to commit: any worker appends, the holder of the lock removes
        self._db = _open(path)
        self._db.execute("DELETE FROM snapshots WHERE committed IS NULL")

    def close(self) -> None:
        """Close the database."""
        with self._lock:
            self._db.close()

    def begin(self, name: str, host: str, source: str) -> int | None:
        """Start a draft.

        Parks: while SQLite works; this applies to all methods below.
        Returns: the draft's key; None if a snapshot of this name is committed already.
        """
        return self._run(self._begin, name, host, source)

    def add(self, key: int, first: int, entries: list[Entry]) -> None:
        """Add entries to a draft, numbered from `first`."""
        self._run(self._add, key, first, entries)

    def digests(self, key: int) -> set[bytes]:
        """Give the name of every chunk that a draft needs."""
        return self._run(self._digests, key)

    def commit(self, key: int) -> None:
        """Convert a draft to a snapshot, atomically and durably.

        Drop the draft if its name is committed already: the client's first attempt succeeded, but its reply was lost.
        """
        self._due.append(key)
        with self._lock:
            due = [self._due.popleft() for _ in range(len(self._due))]
            if key not in due:  # an earlier holder of the lock committed it
                self._due.extend(due)
                return
            try:
                self._unit.offload(self._commit, due)
            except BaseException:
                self._due.extend(other for other in due if other != key)  # each of them tries again
                raise

    def discard(self, key: int) -> None:
        """Throw a draft away."""
        self._run(self._discard, key)

    def snapshots(self) -> list[Snapshot]:
        """Give the committed snapshots, oldest first."""
        return self._run(self._snapshots)

    def standing(self, names: list[str]) -> list[SnapshotStatus | None]:
        """Return the state of each of these names; None if no snapshot was begun, or its client has gone."""
        return self._run(self._standing, names)

    def find(self, name: str) -> tuple[int, str]:
        """Find a snapshot by its name, by a unique beginning of its name, or by `latest`.

        Returns: its key and its whole name.
        Raises: Refused if no snapshot or several snapshots match.
        """
        return self._run(self._find, name)

    def page(self, key: int, first: int) -> list[Entry]:
        """Return the entries from a number on, as many as fit into a frame; an empty list at the end."""
        return self._run(self._page, key, first)

    def _run(self, fn: Callable[..., Result], *args: Any) -> Result:
        with self._lock:
            result: Result = self._unit.offload(fn, *args)
        return result

    # ---- in an OS thread, one at a time ----

    def _begin(self, name: str, host: str, source: str) -> int | None:
        if self._db.execute("SELECT 1 FROM snapshots WHERE name = ? AND committed IS NOT NULL", (name,)).fetchone():
            return None
        columns = "INSERT INTO snapshots (name, host, source) VALUES (?, ?, ?)"
        return self._db.execute(columns, (name, host, source)).lastrowid

    def _add(self, key: int, first: int, entries: list[Entry]) -> None:
        rows = [(key, number, *entry.to_wire()) for number, entry in enumerate(entries, first)]
        self._db.execute("BEGIN")
        try:
            self._db.executemany("INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    def _digests(self, key: int) -> set[bytes]:
        rows = self._db.execute("SELECT chunks FROM entries WHERE snapshot = ?", (key,))
        return {digest for (joined,) in rows for digest in digests_in(joined)}

    def _commit(self, keys: list[int]) -> None:
        self._db.execute("PRAGMA synchronous = FULL")
        self._db.execute("BEGIN")
        try:
            for key in keys:
                self._commit_one(key)
            self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise
        finally:
            self._db.execute("PRAGMA synchronous = NORMAL")

    def _commit_one(self, key: int) -> None:
        self._db.execute(
            """UPDATE OR IGNORE snapshots SET committed = ?, (files, bytes) = (
                   SELECT count(*), coalesce(sum(size), 0) FROM entries WHERE snapshot = key AND kind = ?)
               WHERE key = ? AND committed IS NULL""",
            (time.time(), FILE, key),
        )
        self._discard(key)

    def _discard(self, key: int) -> None:
        self._db.execute("DELETE FROM snapshots WHERE key = ? AND committed IS NULL", (key,))

    def _snapshots(self) -> list[Snapshot]:
        columns = "SELECT name, host, source, files, bytes, committed FROM snapshots"
        return [Snapshot(*row) for row in self._db.execute(columns + " WHERE committed IS NOT NULL ORDER BY committed")]

    def _standing(self, names: list[str]) -> list[SnapshotStatus | None]:
        rows = self._db.execute(
            f"""SELECT name, max(committed IS NOT NULL), max(files), max(bytes) FROM snapshots
                WHERE name IN ({", ".join("?" * len(names))}) GROUP BY name""",
            names,
        )
        found = {name: SnapshotStatus(bool(committed), files, size) for name, committed, files, size in rows}
        return [found.get(name) for name in names]

    def _find(self, name: str) -> tuple[int, str]:
        rows = self._db.execute(
            "SELECT key, name FROM snapshots WHERE committed IS NOT NULL ORDER BY committed"
        ).fetchall()
        if name == LATEST:
            found = rows[-1:]
        else:
            found = [row for row in rows if row[1] == name] or [row for row in rows if row[1].startswith(name)]
        if len(found) != 1:
            raise Refused(f"{'several snapshots begin with' if found else 'there is no snapshot'} {name!r}: see `list`")
        key, whole_name = found[0]
        return key, whole_name

    def _page(self, key: int, first: int) -> list[Entry]:
        rows = self._db.execute(
            """SELECT path, kind, mode, mtime_ns, size, target, chunks, uid, gid, holes FROM entries
               WHERE snapshot = (SELECT key FROM snapshots WHERE key = ? AND committed IS NOT NULL) AND number >= ?
               ORDER BY number LIMIT ?""",
            (key, first, PAGE_ROWS),
        )
        return list(_up_to(PAGE_BYTES, (Entry(*row) for row in rows)))


def _open(path: Path) -> sqlite3.Connection:
    try:
        # The connection belongs to no thread: offload may use a different thread each time. The lock serializes them.
        db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        _set_up(db)
    except sqlite3.Error as error:
        raise BackupError(f"cannot open the catalogue {path}: {error}") from None
    return db


def _set_up(db: sqlite3.Connection) -> None:
    try:
        for setting in ("journal_mode = WAL", "synchronous = NORMAL", "foreign_keys = ON"):
            db.execute(f"PRAGMA {setting}")
        _bring_up_to_date(db)
    except (sqlite3.Error, BackupError):
        db.close()
        raise


def _bring_up_to_date(db: sqlite3.Connection) -> None:
    (format,) = db.execute("PRAGMA user_version").fetchone()
    if format > FORMAT:
        raise BackupError(f"the catalogue is of format {format}, and this server knows {FORMAT}: use a newer one")
    columns = {name for _, name, *_ in db.execute("PRAGMA table_info(entries)")}
    if columns and "uid" not in columns:
        db.executescript(_TO_FORMAT_1)
    db.executescript(f"{_SCHEMA} PRAGMA user_version = {FORMAT};")


def _up_to(budget: int, entries: Iterable[Entry]) -> Iterator[Entry]:
    for entry in entries:
        yield entry
        budget -= entry.weight
        if budget <= 0:
            return
