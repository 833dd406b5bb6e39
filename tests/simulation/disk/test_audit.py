"""Calls that go round the simulation to a file of a disk are errors that name the call and the ways out."""

from __future__ import annotations

import io
import mmap
import os
import posix
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dhaga.simulation import NotSimulated

from .kit import disk_of

pytestmark = pytest.mark.once


def mapped(path: Path) -> None:
    with open(path / "file", "r+b") as file:
        mmap.mmap(file.fileno(), 4)


def spliced(path: Path) -> None:
    ends = os.pipe()
    try:
        with open(path / "file", "r+b") as file:
            os.splice(ends[0], file.fileno(), 1)
    finally:
        os.close(ends[0])
        os.close(ends[1])


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda path: sqlite3.connect(path / "base"), r"sqlite3.connect\(\)"),
        (lambda path: sqlite3.connect(f"file:{path}/base?mode=rwc", uri=True), r"sqlite3.connect\(\)"),
        (lambda path: io.FileIO(path / "file", "w"), r"open\(\) in C"),
        (lambda path: posix.open(path / "file", os.O_WRONLY), r"open\(\) in C"),
        (lambda path: posix.rename(path / "file", path / "other"), r"os.rename\(\)"),
        (lambda path: posix.unlink(path / "file"), r"os.remove\(\)"),
        (lambda path: posix.mkdir(path / "directory"), r"os.mkdir\(\)"),
        (lambda path: os.open(path / "file", os.O_RDWR | os.O_DIRECT), r"os.open\(\) with O_DIRECT"),
        (lambda path: os.open(path, os.O_RDWR | os.O_TMPFILE), r"os.open\(\) with O_TMPFILE"),
        (lambda path: os.mkfifo(path / "pipe"), r"os.mkfifo\(\)"),
        (spliced, r"os.splice\(\)"),
        (mapped, r"mmap.mmap\(\)"),
    ],
)
def test_a_call_that_goes_round_the_simulation_is_refused(call: Callable[[Path], Any], name: str) -> None:
    with disk_of() as host:
        (host.disk.path / "file").write_bytes(b"data")
        with pytest.raises(NotSimulated, match=rf"^{name} on the disk of a host, server:/") as error:
            call(host.disk.path)
        for way in ("write it with open()", "keep it outside the host's disk", "put a stub in place"):
            assert way in str(error.value)
        assert (host.disk.path / "file").read_bytes() == b"data"


def test_reading_maps_and_files_elsewhere_are_let_through(tmp_path: Path) -> None:
    with disk_of() as host:
        (host.disk.path / "file").write_bytes(b"data")
        with open(host.disk.path / "file", "rb") as file, mmap.mmap(file.fileno(), 4, access=mmap.ACCESS_READ) as seen:
            assert seen[:] == b"data"
        with io.FileIO(host.disk.path / "file") as raw:
            assert raw.readall() == b"data"
        sqlite3.connect(tmp_path / "base").close()
        sqlite3.connect(":memory:").close()
        io.FileIO(tmp_path / "file", "w").close()
        posix.rename(tmp_path / "file", tmp_path / "other")
        os.mkfifo(tmp_path / "pipe")
