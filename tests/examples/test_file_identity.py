"""Whose a file is, which names it has, and where its holes are: kept, or left out without doing harm."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from examples.backup import client
from examples.backup.destination import Destination, check_tree
from examples.backup.store import settled
from examples.backup.tree import DIRECTORY, FILE, LINK, MOST_HOLES, NAME, Entry, Source, Unsafe, holes_of
from tests.examples.kit import Service, as_nobody, picture
from tests.examples.test_tree import walk

NOBODY = 65534
MIB = 1 << 20

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")


def mode_of(path: Path) -> int:
    return path.stat().st_mode & 0o7777


def owner_of(path: Path) -> tuple[int, int]:
    status = path.lstat()
    return status.st_uid, status.st_gid


# ---- owners


@as_root
def test_what_others_own_is_theirs_again_with_its_bits(service: Service, tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "theirs").mkdir(parents=True)
    (source / "theirs" / "program").write_bytes(b"#!/bin/sh")
    (source / "theirs" / "link").symlink_to("program")
    for path, mode in ((source / "theirs", 0o2750), (source / "theirs" / "program", 0o6755)):
        os.chown(path, NOBODY, NOBODY)
        path.chmod(mode)
    os.chown(source / "theirs" / "link", NOBODY, NOBODY, follow_symlinks=False)
    name = client.backup(service.plan(), str(source)).snapshot
    summary = client.restore(service.plan(), name, str(tmp_path / "restored"))
    assert picture(tmp_path / "restored") == picture(source)
    assert (summary.problems, summary.notes) == ([], [])


@as_root
def test_without_owners_nothing_runs_as_another(service: Service, tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    for name, owner in (("theirs", NOBODY), ("mine", 0)):
        path = tmp_path / "source" / name
        path.write_bytes(b"#!/bin/sh")
        os.chown(path, owner, owner)
        path.chmod(0o6755)
    name = client.backup(service.plan(), str(tmp_path / "source")).snapshot
    summary = client.restore(service.plan(), name, str(tmp_path / "restored"), owners=False)
    for name in ("theirs", "mine"):
        restored = tmp_path / "restored" / name
        assert (owner_of(restored), mode_of(restored)) == ((os.geteuid(), os.getegid()), 0o755)
    assert summary.notes == [
        f"{name}: restored without 0o6000, as its owner may be another" for name in ("mine", "theirs")
    ]


@as_root
def test_who_may_not_give_files_away_gets_them_without_their_bits() -> None:
    notes: list[bytes] = []
    with tempfile.TemporaryDirectory() as directory:
        os.chown(directory, NOBODY, NOBODY)
        with as_nobody(), Destination(directory, note=lambda path, text: notes.append(path)) as place:
            for entry in (
                Entry(b"roots", FILE, 0o4755, uid=0, gid=0),
                Entry(b"own", FILE, 0o4755, uid=NOBODY, gid=0),
                Entry(b"before owners", FILE, 0o6755),
                Entry(b"plain", FILE, 0o644, uid=0, gid=0),
            ):
                with place.new_file(entry):
                    pass
        modes = {path.name: mode_of(path) for path in Path(directory).iterdir()}
    assert modes == {"roots": 0o755, "own": 0o4755, "before owners": 0o755, "plain": 0o644}
    assert notes == [b"roots", b"before owners"]


# ---- hard links


def test_the_names_of_one_file_are_names_of_one_file_again(service: Service, tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "b").mkdir(parents=True)
    (source / "a").write_bytes(b"x" * 100_000)
    (source / "b" / "second").hardlink_to(source / "a")
    (source / "b" / "third").hardlink_to(source / "a")
    (source / "alone").write_bytes(b"x")
    (source / "alone").rename(tmp_path / "outside")
    (source / "one name inside").hardlink_to(tmp_path / "outside")
    saved = client.backup(service.plan(), str(source))
    assert (saved.files, saved.bytes, saved.problems) == (2, 100_001, [])
    for _ in range(2):  # the second time over what is there
        restored = client.restore(service.plan(), saved.snapshot, str(tmp_path / "restored"), overwrite=True)
        assert restored.problems == []
        assert picture(tmp_path / "restored") == picture(source)
        assert (tmp_path / "restored" / "a").stat().st_nlink == 3
        assert (tmp_path / "restored" / "one name inside").stat().st_nlink == 1
        assert (tmp_path / "restored" / "b" / "third").samefile(tmp_path / "restored" / "a")


@pytest.mark.parametrize("gone", [1, 2, 3])
def test_a_file_whose_first_name_has_gone_is_saved_under_its_next(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gone: int
) -> None:
    names = [tmp_path / "source" / name for name in ("a", "b", "c", "d")]
    names[0].parent.mkdir()
    names[0].write_bytes(b"x")
    for name in names[1:]:
        name.hardlink_to(names[0])
    opened = Source.open

    def vanish(self: Source, entry: Entry) -> object:
        for name in names[:gone]:
            name.unlink(missing_ok=True)
        return opened(self, entry)

    monkeypatch.setattr(Source, "open", vanish)
    saved = client.backup(service.plan(), str(tmp_path / "source"))
    assert saved.problems == [f"{name.name}: vanished before it was read" for name in names[:gone]]
    assert saved.files == 1
    assert client.restore(service.plan(), saved.snapshot, str(tmp_path / "restored")).problems == []
    assert sorted(os.listdir(tmp_path / "restored")) == [name.name for name in names[gone:]]
    assert (tmp_path / "restored" / "d").stat().st_nlink == 4 - gone


def test_a_name_of_a_file_that_was_not_restored_is_a_problem(service: Service, tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "a").write_bytes(b"x")
    (tmp_path / "source" / "b").hardlink_to(tmp_path / "source" / "a")
    name = client.backup(service.plan(), str(tmp_path / "source")).snapshot
    (chunk,) = settled(service.root)
    chunk.unlink()
    problems = client.restore(service.plan(), name, str(tmp_path / "restored")).problems
    assert [problem.partition(": ")[0] for problem in problems] == ["a", "b"]
    assert problems[1] == "b: not restored: it is the same file as a"


@pytest.mark.parametrize("target", [b"elsewhere", b"link", b"directory", b"b", b""])
def test_a_hard_link_to_what_is_no_file_of_the_snapshot_is_refused(target: bytes) -> None:
    tree = [Entry(b"", DIRECTORY), Entry(b"link", LINK, target=b"/etc/passwd"), Entry(b"directory", DIRECTORY)]
    with pytest.raises(Unsafe, match="is no file of the snapshot"):
        check_tree([*tree, Entry(b"b", NAME, target=target)])


# ---- holes


def sparse(path: Path, *pieces: tuple[int, bytes], size: int) -> Path:
    """Write a file with data at these places alone."""
    with path.open("wb") as file:
        for place, data in pieces:
            file.seek(place)
            file.write(data)
        file.truncate(size)
    if path.stat().st_blocks * 512 > size / 2:
        pytest.skip("this file system has no holes")
    return path


LAYOUTS: list[tuple[tuple[tuple[int, bytes], ...], int]] = [
    ((), 64 * MIB),
    (((0, b"begin" * 1000),), 64 * MIB),
    (((0, b"begin"), (32 * MIB, os.urandom(3 * MIB)), (64 * MIB - 5, b"ended")), 64 * MIB),
    (((8 * MIB, b"x" * MIB), (24 * MIB, os.urandom(4096))), 32 * MIB + 1),
]


@pytest.mark.parametrize(("pieces", "size"), LAYOUTS, ids=["empty", "begin", "three", "middle"])
def test_a_sparse_file_is_sparse_again(
    service: Service, tmp_path: Path, pieces: tuple[tuple[int, bytes], ...], size: int
) -> None:
    (tmp_path / "source").mkdir()
    source = sparse(tmp_path / "source" / "disk", *pieces, size=size)
    saved = client.backup(service.plan(), str(tmp_path / "source"))
    assert saved.problems == [] and saved.bytes < 5 * MIB
    restored = client.restore(service.plan(), saved.snapshot, str(tmp_path / "restored"))
    assert restored.problems == [] and restored.bytes == saved.bytes
    assert picture(tmp_path / "restored") == picture(tmp_path / "source")
    assert (tmp_path / "restored" / "disk").stat().st_blocks <= source.stat().st_blocks + 64
    assert client.verify(service.plan(), saved.snapshot).problems == []


def test_a_file_with_more_holes_than_an_entry_keeps_loses_nothing(service: Service, tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    count = MOST_HOLES + 10
    pieces = [(place * 16_384, b"%d" % place) for place in range(count)]
    sparse(tmp_path / "source" / "comb", *pieces, size=count * 16_384)
    saved = client.backup(service.plan(), str(tmp_path / "source"))
    assert client.restore(service.plan(), saved.snapshot, str(tmp_path / "restored")).problems == []
    assert picture(tmp_path / "restored") == picture(tmp_path / "source")


@pytest.mark.parametrize("change", [lambda file: file.truncate(MIB), lambda file: file.truncate(20 * MIB)])
def test_a_sparse_file_that_changes_while_it_is_read_is_a_problem_and_can_be_restored(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[object], None]
) -> None:
    (tmp_path / "source").mkdir()
    path = sparse(tmp_path / "source" / "disk", (0, b"begin"), (8 * MIB, b"middle"), size=16 * MIB)
    opened = Source.open

    def resize(self: Source, entry: Entry) -> object:
        reading = opened(self, entry)
        with path.open("r+b") as file:
            change(file)
        return reading

    monkeypatch.setattr(Source, "open", resize)
    saved = client.backup(service.plan(), str(tmp_path / "source"))
    assert len(saved.problems) == 1 and "changed while it was read" in saved.problems[0]
    assert client.restore(service.plan(), saved.snapshot, str(tmp_path / "restored")).problems == []
    assert (tmp_path / "restored" / "disk").read_bytes().startswith(b"begin")


def test_an_ordinary_file_has_no_holes(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * 10_000)
    (entry,) = (entry for entry in walk(tmp_path)[0] if entry.kind == FILE)
    with Source(os.fsencode(tmp_path)).open(entry) as reading:
        assert (reading.read(20_000), reading.holes, list(holes_of(reading.holes))) == (b"x" * 10_000, b"", [])
