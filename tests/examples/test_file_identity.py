"""Whose a file is, which names it has, and where its holes are: kept, or left out without doing harm."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from examples.backup import client
from examples.backup.destination import check_tree
from examples.backup.tree import DIRECTORY, LINK, NAME, Entry, Unsafe
from tests.examples.kit import Service, picture

NOBODY = 65534
MIB = 1 << 20

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")


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


@pytest.mark.parametrize("target", [b"elsewhere", b"link", b"directory", b"b", b""])
def test_a_hard_link_to_what_is_no_file_of_the_snapshot_is_refused(target: bytes) -> None:
    tree = [Entry(b"", DIRECTORY), Entry(b"link", LINK, target=b"/etc/passwd"), Entry(b"directory", DIRECTORY)]
    with pytest.raises(Unsafe, match="is not a file of the snapshot"):
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
