"""A store that rots and a snapshot that lies: found, told, and kept from doing harm."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from examples.backup import client
from examples.backup.catalogue import Catalogue
from examples.backup.chunks import digest_of
from examples.backup.store import settled
from examples.backup.tree import DIRECTORY, FILE, LINK, Entry, Unsafe
from examples.backup.workers import UNITS
from tests.examples.kit import Service, fill, picture


def flip(service: Service, data: bytes) -> None:
    """Flip a bit of a stored chunk."""
    name = digest_of(data).hex()
    (path,) = (path for path in settled(service.root) if path.name == name)
    stored = bytearray(path.read_bytes())
    stored[len(stored) // 2] ^= 4
    path.write_bytes(stored)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A tree in which two files share one content."""
    source = fill(tmp_path / "source")
    for name in ("a", "b"):
        (source / name).write_bytes(b"what both hold " * 500)
    return source


def test_verify_finds_a_flipped_byte_and_the_next_backup_mends_it(service: Service, source: Path) -> None:
    name = client.backup(service.plan(), str(source)).snapshot
    assert client.verify(service.plan(), name).problems == []
    flip(service, (source / "a").read_bytes())
    problems = client.verify(service.plan(workers=1), name).problems
    assert [problem.partition(": ")[0] for problem in problems] == ["a", "b"]
    assert all("is damaged" in problem for problem in problems)
    mended = client.backup(service.plan(workers=1), str(source))
    assert 0 < mended.sent < 500
    assert client.verify(service.plan(), name).problems == []


def test_restore_finds_a_flipped_byte_and_brings_back_the_rest(service: Service, source: Path, tmp_path: Path) -> None:
    name = client.backup(service.plan(), str(source)).snapshot
    flip(service, (source / "a").read_bytes())
    problems = client.restore(service.plan(), name, str(tmp_path / "restored")).problems
    assert [problem.partition(": ")[0] for problem in problems] == ["a", "b"]
    assert all("is damaged" in problem for problem in problems)
    expected = {path: look for path, look in picture(source).items() if path not in (b"a", b"b")}
    assert picture(tmp_path / "restored") == expected


def test_restore_tells_of_a_chunk_that_is_gone(service: Service, source: Path, tmp_path: Path) -> None:
    name = client.backup(service.plan(), str(source)).snapshot
    for path in settled(service.root):
        if path.name == digest_of((source / "a").read_bytes()).hex():
            path.unlink()
    problems = client.restore(service.plan(), name, str(tmp_path / "restored")).problems
    assert [problem.partition(": ")[0] for problem in problems] == ["a", "b"]
    assert all("is missing from the store" in problem for problem in problems)


@pytest.mark.parametrize(
    "entries",
    [
        [Entry(b"../climbed", FILE)],
        [Entry(b"/tmp/climbed", FILE)],
        [Entry(b"a", DIRECTORY, 0o755), Entry(b"a/../../climbed", FILE)],
        [Entry(b"door", LINK, target=b".."), Entry(b"door/climbed", FILE)],
        [Entry(b"door", LINK, target=b"/tmp"), Entry(b"door/climbed", DIRECTORY, 0o755)],
    ],
    ids=["up", "absolute", "down and up", "file through a link", "directory through a link"],
)
def test_a_snapshot_that_climbs_out_is_not_restored(service: Service, tmp_path: Path, entries: list[Entry]) -> None:
    commit_by_hand(service, entries)
    before = set(os.listdir(tmp_path))
    with pytest.raises(Unsafe, match="refused"):
        client.restore(service.plan(), "evil", str(tmp_path / "inner" / "restored"))
    assert set(os.listdir(tmp_path)) == before
    assert not Path("/tmp/climbed").exists()


def commit_by_hand(service: Service, entries: list[Entry]) -> None:
    """Put a snapshot into the catalogue as no server would."""
    catalogue = Catalogue(service.root / "catalogue.sqlite", UNITS["threads"]())
    key = catalogue.begin("evil", "host", "/")
    assert key is not None
    catalogue.add(key, 0, [Entry(b"", DIRECTORY, 0o755), *entries])
    catalogue.commit(key)
    catalogue.close()


def test_a_link_in_the_destination_is_not_written_through(service: Service, source: Path, tmp_path: Path) -> None:
    name = client.backup(service.plan(), str(source)).snapshot
    (tmp_path / "outside").mkdir()
    (tmp_path / "restored").mkdir()
    (tmp_path / "restored" / "d0").symlink_to(tmp_path / "outside")
    with pytest.raises(Unsafe, match="d0 in the destination is a link, not a directory"):
        client.restore(service.plan(), name, str(tmp_path / "restored"), overwrite=True)
    assert os.listdir(tmp_path / "outside") == []


def test_a_restore_over_an_older_tree_replaces_what_differs(service: Service, source: Path, tmp_path: Path) -> None:
    name = client.backup(service.plan(), str(source)).snapshot
    client.restore(service.plan(), name, str(tmp_path / "restored"))
    (tmp_path / "restored" / "text").write_bytes(b"older")
    (tmp_path / "restored" / "link").unlink()
    (tmp_path / "restored" / "link").write_bytes(b"a file in the link's place")
    (tmp_path / "restored" / "d1").chmod(0o700)
    client.restore(service.plan(), name, str(tmp_path / "restored"), overwrite=True)
    assert picture(tmp_path / "restored") == picture(source)
