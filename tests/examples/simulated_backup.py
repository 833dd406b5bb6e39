"""Backups to a server that is killed again and again: each acknowledged snapshot can be restored.

The catalogue is an ideal one in memory, which outlives the server: SQLite writes in C, where no simulation sees it.
"""

from __future__ import annotations

import contextlib
import itertools
import random
import threading
import time
from pathlib import Path

from dhaga.simulation import current
from examples.backup import server
from examples.backup.chunks import digests_in
from examples.backup.client import backup, restore, verify
from examples.backup.jobs import Plan
from examples.backup.rpc import Address
from examples.backup.tree import Entry
from examples.backup.wire import BackupError
from examples.backup.workers import threads

BACKUPS, FILES, KILLS = 3, 5, 4


class Catalogue:
    """The snapshots: those that are committed stay, drafts go with the server."""

    def __init__(self, committed: dict[str, list[Entry]]) -> None:
        self.committed = committed
        self.drafts: dict[int, tuple[str, list[Entry]]] = {}
        self.keys = itertools.count()

    def begin(self, name: str, host: str, source: str) -> int | None:
        """Start a draft."""
        if name in self.committed:
            return None
        key = next(self.keys)
        self.drafts[key] = name, []
        return key

    def add(self, key: int, first: int, entries: list[Entry]) -> None:
        """Add to a draft."""
        self.drafts[key][1].extend(entries)

    def digests(self, key: int) -> set[bytes]:
        """Give the names of its chunks."""
        return {digest for entry in self.drafts[key][1] for digest in digests_in(entry.chunks)}

    def commit(self, key: int) -> None:
        """Keep a draft for good."""
        name, entries = self.drafts.pop(key)
        self.committed.setdefault(name, entries)

    def discard(self, key: int) -> None:
        """Throw a draft away."""
        self.drafts.pop(key, None)

    def find(self, name: str) -> tuple[int, str]:
        """Look a snapshot up."""
        return list(self.committed).index(name), name

    def page(self, key: int, first: int) -> list[Entry]:
        """Give the entries from a number on."""
        return list(self.committed.values())[key][first:]

    def close(self) -> None:
        """Drop the drafts."""
        self.drafts.clear()


def serve(root: Path) -> None:
    with server.serving(threads(), root, ("", 8000), "", 2):
        threading.Event().wait()


def contents(path: Path) -> dict[str, bytes]:
    return {each.name: each.read_bytes() for each in path.iterdir()}


def change(source: Path) -> None:
    """Change some files: chunks of former ones come again."""
    for number in range(FILES):
        if random.random() < 0.6:
            data = bytes([random.choice(b"abc")]) * random.randrange(5000)
            (source / str(number)).write_bytes(data)


class User:
    """Makes backups until some have succeeded, and knows what was in them."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.saved: dict[str, dict[str, bytes]] = {}
        self.plan = Plan(threads(), Address("vault", 8000, patience=20.0, reply_timeout=10.0), threads=2)

    def work(self) -> None:
        source = self.home / "source"
        source.mkdir()
        while len(self.saved) < BACKUPS:
            change(source)
            with contextlib.suppress(BackupError):
                self.saved[backup(self.plan, str(source)).snapshot] = contents(source)
            time.sleep(random.random())

    def check(self) -> None:
        for number, (name, wanted) in enumerate(self.saved.items()):
            summary = verify(self.plan, name)
            assert not summary.problems, summary.problems
            place = self.home / f"restored {number}"
            assert not restore(self.plan, name, str(place), owners=False).problems
            assert contents(place) == wanted


def program() -> None:
    network, committed = current().network, dict[str, list[Entry]]()
    server.Catalogue = lambda path, unit: Catalogue(committed)
    vault, home = network.host("vault"), network.host("home")
    user = User(home.disk.path)
    vault.start(serve, vault.disk.path / "store")
    time.sleep(0.5)
    working = home.spawn(user.work)
    for _ in range(KILLS):
        time.sleep(random.random() * random.choice((0.05, 0.5, 2)))
        vault.kill(random.choice(("drawn", "drawn", "lost", "kept")))
        time.sleep(random.random())
        vault.restart()
    working.join()
    vault.restart("lost")
    time.sleep(60)
    home.spawn(user.check).result()
    vault.kill()
