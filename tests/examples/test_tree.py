"""Walking a source, reading its files, and which entries and paths are taken from strangers."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from examples.backup.tree import (
    DIRECTORY,
    FILE,
    LINK,
    MOST_HOLES,
    Entry,
    Source,
    Unsafe,
    check_path,
)
from examples.backup.wire import WireError


def walk(root: Path, *exclude: str) -> tuple[list[Entry], list[tuple[bytes, str]], list[tuple[bytes, str]]]:
    """Walk, and gather problems and notes."""
    problems: list[tuple[bytes, str]] = []
    notes: list[tuple[bytes, str]] = []
    entries = Source(os.fsencode(root), exclude).walk(
        lambda path, text: problems.append((path, text)), lambda path, text: notes.append((path, text))
    )
    return list(entries), problems, notes


def test_a_walk_gives_directories_before_what_is_in_them(tmp_path: Path) -> None:
    (tmp_path / "b" / "c").mkdir(parents=True)
    for name in ("b/c/file", "b/z", "a", "c"):
        (tmp_path / name).write_bytes(name.encode())
    (tmp_path / "b" / "link").symlink_to("../a")
    entries, problems, notes = walk(tmp_path)
    assert [(entry.path, entry.kind, entry.size, entry.target) for entry in entries] == [
        (b"", DIRECTORY, 0, b""),
        (b"a", FILE, 1, b""),
        (b"b", DIRECTORY, 0, b""),
        (b"c", FILE, 1, b""),
        (b"b/c", DIRECTORY, 0, b""),
        (b"b/link", LINK, 0, b"../a"),
        (b"b/z", FILE, 3, b""),
        (b"b/c/file", FILE, 8, b""),
    ]
    assert problems == notes == []


def test_a_file_that_vanishes_during_the_walk_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    (tmp_path / "b").touch()
    problems: list[tuple[bytes, str]] = []
    walking = Source(os.fsencode(tmp_path)).walk(lambda path, text: problems.append((path, text)), lambda *_: None)
    assert [next(walking).path, next(walking).path] == [b"", b"a"]
    (tmp_path / "b").unlink()
    assert list(walking) == []
    assert problems == [(b"b", "vanished before it was read")]


@pytest.mark.parametrize(
    "path", [b"/", b"/etc/passwd", b"//a", b"..", b"../a", b"a/../../b", b"a/..", b".", b"./a", b"a//b", b"a/", b"a\0b"]
)
def test_paths_that_lead_out_or_are_not_plain_are_refused(path: bytes) -> None:
    with pytest.raises(Unsafe, match="refused"):
        check_path(path)


ENTRY = Entry(b"a/b", FILE, 0o644, -5, 64, b"", b"d" * 64, 1000, 0, (8).to_bytes(8) + (8).to_bytes(8))


@pytest.mark.parametrize(
    "change",
    [
        {0: "text"},
        {0: b"../a"},
        {1: "device"},
        {1: b"file"},
        {2: -1},
        {2: 0o10000},
        {2: True},
        {3: 2**63},
        {3: 1.5},
        {4: -1},
        {5: None},
        {6: b"d" * 63},
        {4: 2**63},
        {5: b"a\0b"},
        {1: "name", 5: b"../a"},
        {7: -2},
        {7: 2**32 - 1},
        {8: 2**32},
        {9: b"h" * 15},
        {9: (5).to_bytes(8) + (0).to_bytes(8)},
        {9: (60).to_bytes(8) + (5).to_bytes(8)},
        {9: (9).to_bytes(8) + (9).to_bytes(8) + (17).to_bytes(8) + (1).to_bytes(8)},
        {9: ((0).to_bytes(8) + (1).to_bytes(8)) * 2},
        {9: b"".join((2 * hole).to_bytes(8) + (1).to_bytes(8) for hole in range(MOST_HOLES + 1)), 4: 10**6},
    ],
)
def test_a_strangers_entry_is_checked(change: dict[int, object]) -> None:
    values = list(ENTRY.to_wire())
    for place, value in change.items():
        values[place] = value
    with pytest.raises((WireError, Unsafe)):
        Entry.from_wire(values)
    with pytest.raises(WireError, match="bad entry"):
        Entry.from_wire(values[:-1])
