"""Nothing is written outside the destination, and nothing half-written bears a name."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from examples.backup.destination import Destination, check_tree
from examples.backup.tree import DIRECTORY, FILE, LINK, Entry, Unsafe


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A directory that must stay as it is."""
    (tmp_path / "outside").mkdir()
    return tmp_path / "outside"


def write(place: Destination, entry: Entry, data: bytes = b"data") -> None:
    """Write a file."""
    with place.new_file(entry) as file:
        os.write(file, data)


def test_a_file_gets_bytes_mode_and_time(tmp_path: Path) -> None:
    with Destination(str(tmp_path / "new" / "place")) as place:
        place.make_directory(b"a")
        mine = {"uid": os.geteuid(), "gid": os.getegid()}
        write(place, Entry(b"a/file", FILE, 0o4751, 1_234_567_890_123_456_789, **mine))
        place.finish_directory(Entry(b"a", DIRECTORY, 0o500, 99))
    status = (tmp_path / "new/place/a/file").stat()
    assert (status.st_mode & 0o7777, status.st_mtime_ns) == (0o4751, 1_234_567_890_123_456_789)
    assert (tmp_path / "new/place/a/file").read_bytes() == b"data"
    status = (tmp_path / "new/place/a").stat()
    assert (status.st_mode & 0o7777, status.st_mtime_ns) == (0o500, 99)


@pytest.mark.parametrize("target", ["../outside", "/outside", "."])
def test_no_file_is_written_through_a_link(tmp_path: Path, outside: Path, target: str) -> None:
    (tmp_path / "place").mkdir()
    (tmp_path / "place" / "door").symlink_to(str(outside) if target == "/outside" else target)
    with Destination(str(tmp_path / "place"), overwrite=True) as place:
        attempts: list[Callable[[], None]] = [
            lambda: write(place, Entry(b"door/file", FILE)),
            lambda: place.make_directory(b"door"),
            lambda: place.make_directory(b"door/directory"),
            lambda: place.make_link(Entry(b"door/link", LINK, target=b"x")),
            lambda: place.finish_directory(Entry(b"door", DIRECTORY, 0o700)),
        ]
        for attempt in attempts:
            with pytest.raises(Unsafe, match="door in the destination is a link, not a directory"):
                attempt()
    assert os.listdir(outside) == []
    assert os.listdir(tmp_path / "place") == ["door"]


def test_a_file_that_fails_leaves_nothing(tmp_path: Path) -> None:
    with Destination(str(tmp_path / "place")) as place:
        with pytest.raises(ZeroDivisionError):
            with place.new_file(Entry(b"file", FILE)) as file:
                os.write(file, b"half")
                raise ZeroDivisionError
    assert os.listdir(tmp_path / "place") == []


@pytest.mark.parametrize(
    "entries",
    [
        [Entry(b"door", LINK, target=b"/etc"), Entry(b"door/passwd", FILE)],
        [Entry(b"door/a/b", FILE), Entry(b"door", LINK, target=b"..")],
        [Entry(b"a", FILE), Entry(b"a/b", FILE)],
        [Entry(b"a", FILE), Entry(b"a", LINK, target=b"b")],
        [Entry(b"../a", FILE)],
        [Entry(b"/a", FILE)],
    ],
)
def test_a_snapshot_that_leads_out_is_refused_as_a_whole(entries: list[Entry]) -> None:
    with pytest.raises(Unsafe, match="refused"):
        check_tree(entries)
