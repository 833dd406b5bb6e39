"""The store keeps what it has been given, through kill and power loss, and knows when it is no longer that."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from examples.backup import store as store_module
from examples.backup.chunks import digest_of, pack_chunk
from examples.backup.store import SYNC_ALL_FROM, Store
from examples.backup.workers import Unit

ONE, TWO = digest_of(b"one"), digest_of(b"two")


def put(store: Store, data: bytes) -> bytes:
    """Put a chunk; give its name."""
    store.put(digest_of(data), pack_chunk(data))
    return digest_of(data)


def place(root: Path, digest: bytes) -> Path:
    """Where a settled chunk lies."""
    return root / "chunks" / digest.hex()[:2] / digest.hex()


@pytest.mark.parametrize("count", [2, SYNC_ALL_FROM])
def test_settling_makes_chunks_durable_before_they_get_their_place(
    unit: Unit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    store = Store(tmp_path, unit)
    digests = [put(store, b"%d" % number) for number in range(count)]
    put(store, b"of another file")
    trace: list[tuple[str, str]] = []
    real_fsync, real_rename = store_module._fsync, os.rename

    def fsync(path: str) -> None:
        trace.append(("fsync", path))
        real_fsync(path)

    def rename(old: str, new: str) -> None:
        trace.append(("rename", new))
        real_rename(old, new)

    monkeypatch.setattr(os, "sync", lambda: trace.append(("sync", "")))
    monkeypatch.setattr(store_module, "_fsync", fsync)
    monkeypatch.setattr(os, "rename", rename)
    store.settle(digests)
    waiting = [("fsync", str(tmp_path / "incoming" / digest.hex())) for digest in digests]
    moved = [("rename", str(place(tmp_path, digest))) for digest in digests]
    directories = sorted({("fsync", os.path.dirname(path)) for _, path in moved}) + [
        ("fsync", str(tmp_path / "chunks"))
    ]
    assert trace == [("sync", "")] * (count >= SYNC_ALL_FROM) + waiting + moved + directories
    trace.clear()
    store.settle(digests)
    assert trace == []
    store.close()


def test_after_a_crash_what_arrived_whole_is_used_and_the_rest_is_thrown_away(unit: Unit, tmp_path: Path) -> None:
    store = Store(tmp_path, unit)
    settled, whole, torn = put(store, b"settled"), put(store, b"whole"), put(store, b"torn" * 100)
    store.settle([settled])
    store.close()
    incoming = tmp_path / "incoming"
    os.truncate(incoming / torn.hex(), 9)  # what a file is after power loss
    (incoming / "17.draft").write_bytes(b"half")
    store = Store(tmp_path, unit)
    assert [store.has(digest) for digest in (settled, whole, torn)] == [True, True, False]
    assert [path.name for path in incoming.iterdir()] == [whole.hex()]
    store.settle([settled, whole])
    assert store.check([settled, whole]) == ["", ""]
    store.close()


def test_a_flipped_byte_is_found_and_put_aside(unit: Unit, tmp_path: Path) -> None:
    store = Store(tmp_path, unit)
    store.settle([put(store, b"one"), put(store, b"two")])
    path = place(tmp_path, ONE)
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    damaged, sound = store.check([ONE, TWO])
    assert damaged.startswith(f"chunk {ONE.hex()} is damaged") and sound == ""
    assert not store.has(ONE)  # so that the next backup sends it
    assert (tmp_path / "damaged" / ONE.hex()).read_bytes() == data
    assert store.check([ONE]) == [f"chunk {ONE.hex()} is missing from the store"]
    store.settle([put(store, b"one")])
    assert store.check([ONE]) == [""]
    store.close()
