"""RocksDB: small puts inline, through the shared pool and through a dedicated thread, each with and without a sync."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import dhaga
from benchmarks.file_io.group_commit import rate

try:
    import rocksdict
except ImportError:
    rocksdict = None

CALLERS = (1, 100)
VALUE = bytes(100)
WAYS = ("inline", "shared offload", "dedicated thread")


class Store:
    """A store that gets a new key with each put."""

    def __init__(self, path: Path) -> None:
        self.store: Any = rocksdict.Rdict(str(path), rocksdict.Options(raw_mode=True))
        self.options: Any = rocksdict.WriteOptions()
        self.count = 0

    def put(self) -> None:
        """Put one entry."""
        self.count += 1
        self.store.put(b"%012d" % self.count, VALUE, write_opt=self.options)


def measure(directory: Path, seconds: float) -> dict[str, dict[str, dict[str, float]]] | None:
    """Return puts per second, by durability, way and number of callers; None if rocksdict is not installed."""
    if rocksdict is None:
        return None
    store = Store(directory / "store")
    found: dict[str, dict[str, dict[str, float]]] = {}
    with dhaga.OffloadPool("puts", threads=1) as pool:
        puts: dict[str, Callable[[], object]] = {
            "inline": store.put,
            "shared offload": lambda: dhaga.offload(store.put),
            "dedicated thread": lambda: pool.offload(store.put),
        }
        for durability in ("buffered", "synced"):
            store.options.sync = durability == "synced"
            found[durability] = {way: {} for way in WAYS}
            for callers in CALLERS:
                for way in WAYS:
                    found[durability][way][str(callers)] = rate(yielding(puts[way], way), callers, seconds)
    store.store.close()
    return found


def yielding(put: Callable[[], object], way: str) -> Callable[[], object]:
    """Return a put that also yields if it is inline. The other ways park, so all callers have turns in every way."""

    def put_and_yield() -> None:
        put()
        dhaga.sleep(0)

    return put_and_yield if way == "inline" else put
