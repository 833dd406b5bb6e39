"""File objects over a disk: as the standard ones, whichever way they are opened."""

# ruff: noqa: SIM115  # calls that fail

from __future__ import annotations

import builtins
import errno
import io
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import dhaga

from .kit import disk_of

pytestmark = pytest.mark.once

MODES = ["r", "w", "a", "x", "r+", "w+", "a+", "rb", "wb", "ab", "xb", "r+b", "w+b", "a+b"]


def use(path: Path, mode: str, buffering: int) -> list[Any]:
    """Do some of all to a file. Returns: what was seen."""
    if "x" not in mode:
        path.write_bytes(b"one\ntwo\nthree\n")
    word: Any = b"word" if "b" in mode else "word"
    with open(path, mode, buffering) as file:
        seen: list[Any] = [file.mode, file.readable(), file.writable(), file.seekable(), file.tell()]
        if file.readable():
            seen += [file.readline(), file.tell()]
        if file.writable():
            file.seek(0, os.SEEK_CUR)
            seen += [file.write(word), file.tell()]
            file.flush()
            seen += [file.truncate(), file.seek(0)]
        if file.readable():
            file.seek(0)
            seen.append(file.read())
    return [*seen, file.closed, path.read_bytes()]


@pytest.mark.parametrize("mode", MODES)
def test_a_file_of_a_disk_behaves_as_a_real_one(mode: str, tmp_path: Path) -> None:
    sizes = (-1, 1, 4096) if "b" not in mode else (-1, 0, 4096)
    with disk_of() as host:
        for number, buffering in enumerate(sizes):
            name = f"{mode[0]}{number}"
            assert use(host.disk.path / name, mode, buffering) == use(tmp_path / name, mode, buffering)


@pytest.mark.parametrize(
    "write",
    [
        lambda path, data: path.write_bytes(data),
        lambda path, data: with_file(io.open(path, "wb"), data),  # noqa: UP020  # a name of its own
        lambda path, data: with_file(os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT), "wb"), data),
        lambda path, data: with_file(open(path, "wb", opener=lambda name, flags: os.open(name, flags)), data),
        lambda path, data: with_file(dhaga.open(path, "wb"), data),
        lambda path, data: with_file(open(os.fsencode(path), "wb"), data),
        lambda path, data: named_temporary(path, data),
        lambda path, data: in_folder(path, data),
        lambda path, data: appended(path, data),
    ],
)
def test_every_way_to_write_is_seen(write: Callable[[Path, bytes], Any]) -> None:
    with disk_of() as host:
        path = host.disk.path / "file"
        write(path, b"data\n")
        assert path.read_bytes() == b"data\n"
        host.kill("kept")  # compares the model with the directory
        host.kill("lost")
        host.start(int).join()
        host.kill("lost")
        assert not path.exists()


def with_file(file: Any, data: bytes) -> None:
    with file:
        file.write(data)


def named_temporary(path: Path, data: bytes) -> None:
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
        file.write(data)
    os.replace(file.name, path)


def in_folder(path: Path, data: bytes) -> None:
    folder = os.open(path.parent, os.O_RDONLY)
    fd = os.open(path.name, os.O_WRONLY | os.O_CREAT, dir_fd=folder)
    os.write(fd, data)
    os.close(fd)
    os.close(folder)


def appended(path: Path, data: bytes) -> None:
    """Append by the flag of a single write, at the fd's position and at an offset."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT)
    os.write(fd, data[:1])
    os.lseek(fd, 0, os.SEEK_SET)
    os.pwritev(fd, [data[1:3]], -1, os.RWF_APPEND)
    os.pwritev(fd, [data[3:]], 0, os.RWF_APPEND)
    os.close(fd)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda path: open(path / "none"), FileNotFoundError),
        (lambda path: open(path / "none" / "file", "w"), FileNotFoundError),
        (lambda path: open(path), IsADirectoryError),
        (lambda path: open(path / "file", "x"), FileExistsError),
        (lambda path: open(path / "file", "rw"), ValueError),
        (lambda path: open(path / "file", "rb", encoding="utf-8"), ValueError),
        (lambda path: open(path / "file", buffering=0), ValueError),
        (lambda path: open(f"{path}/new/", "w"), IsADirectoryError),
        (lambda path: os.rename(path / "none", path / "file"), FileNotFoundError),
        (lambda path: os.rename(f"{path}/file/", path / "new"), NotADirectoryError),
        (lambda path: os.replace(path / "file", path / "none" / "file"), FileNotFoundError),
        (lambda path: os.replace(path / "none" / "file", path / "file"), FileNotFoundError),
        (lambda path: os.replace("/none/file", path / "file"), FileNotFoundError),
        (lambda path: os.replace("", path / "file"), FileNotFoundError),
        (lambda path: os.link(path / "file", path / "none" / "file"), FileNotFoundError),
        (lambda path: os.replace(path / "file", path / "file" / "file"), NotADirectoryError),
        (lambda path: os.rmdir(path / "file"), NotADirectoryError),
        (lambda path: os.unlink(path / "none"), FileNotFoundError),
        (lambda path: os.mkdir(path / "file"), FileExistsError),
        (lambda path: os.ftruncate(os.open(path / "file", os.O_RDONLY), 3), OSError),
    ],
)
def test_errors_are_those_of_the_operating_system(call: Callable[[Path], Any], error: type[Exception]) -> None:
    with disk_of() as host:
        (host.disk.path / "file").write_bytes(b"data")
        with pytest.raises(error):
            call(host.disk.path)
        host.kill("kept")


def test_a_move_from_one_disk_to_another_is_one_between_file_systems() -> None:
    with disk_of() as host:
        (host.disk.path / "file").write_bytes(b"data")
        other = host.network.host("other").disk.path
        for call in (os.rename, os.replace, os.link):
            with pytest.raises(OSError, match="Invalid cross-device link") as error:
                call(host.disk.path / "file", other / "file")
            assert error.value.errno == errno.EXDEV
            assert error.value.filename == str(host.disk.path / "file")


def test_names_are_listed_in_a_drawn_order() -> None:
    orders = set()
    for seed in range(4):
        with disk_of(seed) as host:
            for name in "abcdefgh":
                (host.disk.path / name).touch()
            listed = os.listdir(host.disk.path)
            with os.scandir(host.disk.path) as entries:
                assert {entry.name for entry in entries} == set(listed) == set("abcdefgh")
            orders.add(tuple(listed))
    assert len(orders) == 4


def test_the_usual_functions_are_back_after_a_simulation(tmp_path: Path) -> None:
    with disk_of() as host:
        path = host.disk.path / "file"
        assert "simulation" in repr(builtins.open)
        path.touch()
    assert "simulation" not in repr(builtins.open)
    with dhaga.open(tmp_path / "file", "w") as file:
        file.write("data")
    raw: Any = file.buffer
    assert type(raw.raw).__mro__[1] is io.FileIO
