"""The model of a disk agrees with the real directory, whatever the program does; and what it cannot see is an error."""

from __future__ import annotations

import contextlib
import os
import posix
import random
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import dhaga
from dhaga.simulation import NotSimulated
from dhaga.simulation.disk._tree import check_tree

from .kit import contents, disk_of

pytestmark = pytest.mark.once

NAMES = ("a", "b", "c", "d/a", "d/b", "d/e/a")


def act(path: Path, draw: random.Random) -> None:
    """Do one drawn thing to a drawn file; it may fail."""
    one, other = (path / draw.choice(NAMES) for _ in range(2))
    data = bytes(draw.randrange(256) for _ in range(draw.randrange(2000)))
    acts: list[Callable[[], Any]] = [
        lambda: one.write_bytes(data),
        lambda: append(one, data),
        lambda: overwrite(one, data, draw.randrange(3000)),
        lambda: os.truncate(one, draw.randrange(3000)),
        lambda: os.rename(one, other),
        lambda: os.link(one, other),
        lambda: os.symlink(other.name, one),
        lambda: one.unlink(),
        lambda: one.parent.mkdir(),
        lambda: one.mkdir(),
        lambda: os.rename(one.parent, other),
        lambda: os.rmdir(one),
        lambda: shutil.rmtree(one.parent) if one.parent != path else None,
        lambda: shutil.copytree(one.parent, other) if one.parent not in other.parents else None,
        lambda: shutil.copyfile(one, other),
        lambda: shutil.move(one, other),
        lambda: descriptor(one, data),
        lambda: offloaded(one, data),
    ]
    with contextlib.suppress(OSError, shutil.Error):
        draw.choice(acts)()


def append(path: Path, data: bytes) -> None:
    with open(path, "a", encoding="latin-1") as file:
        file.write(data.decode("latin-1"))


def overwrite(path: Path, data: bytes, at: int) -> None:
    with open(path, "r+b") as file:
        file.seek(at)
        file.write(data)
        file.truncate()


def offloaded(path: Path, data: bytes) -> None:
    with dhaga.open(path, "ab") as file:
        file.write(data)


def descriptor(path: Path, data: bytes) -> None:
    fd = os.open(path, os.O_RDWR | os.O_CREAT)
    try:
        os.writev(fd, [data, b"more"])
        other = os.dup(fd)
        os.lseek(other, 10, os.SEEK_SET)
        os.write(fd, b"ten")
        os.close(other)
        os.pwritev(fd, [data, b"x"], 5)
        os.posix_fallocate(fd, 100, 50)
        os.ftruncate(fd, 1000)
    finally:
        os.close(fd)


@pytest.mark.parametrize("seed", range(25))
def test_the_model_knows_all_that_a_program_does(seed: int) -> None:
    draw = random.Random(seed)
    with disk_of(seed) as host:
        for _ in range(80):
            act(host.disk.path, draw)
            check_tree(host.disk)
        before = contents(host.disk.path)
        host.disk.sync()
        host.kill("lost")
        assert contents(host.disk.path) == before
        check_tree(host.disk)
        for _ in range(20):
            act(host.disk.path, draw)
        host.kill()
        check_tree(host.disk)
        act(host.disk.path, draw)
        check_tree(host.disk)


def age(path: Path) -> int:
    return round(time.time() - path.stat().st_mtime)


def test_each_change_sets_the_virtual_time_of_what_it_changes() -> None:
    with disk_of() as host:
        path = host.disk.path
        file, directory = path / "file", path / "directory"
        changes: list[tuple[Callable[[], object], Path]] = [
            (lambda: open(file, "w").close(), file),
            (directory.mkdir, directory),
            (lambda: file.write_bytes(b"data"), file),
            (lambda: os.truncate(file, 2), file),
            (file.touch, file),
            (lambda: os.utime(directory), directory),
            (lambda: file.rename(path / "other"), path),
            ((path / "other").unlink, path),
        ]
        for change, changed in changes:
            time.sleep(1000)
            change()
            assert age(changed) == 0
            time.sleep(1000)
            assert age(changed) == 1000


def test_given_times_are_kept_and_without_them_the_virtual_time_is_set_on_any_file(tmp_path: Path) -> None:
    (tmp_path / "real").touch()
    with disk_of() as host:
        file = host.disk.path / "file"
        file.touch()
        os.utime(file, (3, 5))
        os.utime(host.disk.path, ns=(3, 5), follow_symlinks=False)
        assert (file.stat().st_mtime, host.disk.path.stat().st_mtime_ns) == (5, 5)
        with pytest.raises(ValueError, match="you may specify either"):
            os.utime(file, (3, 5), ns=(3, 5))
        with pytest.raises(TypeError, match="bonk"):
            os.utime(file, bonk=1)  # type: ignore[call-arg]
        (tmp_path / "real").touch()
        assert age(tmp_path / "real") == 0 and os.utime in os.supports_fd


def test_hard_links_modes_and_symbolic_links_survive() -> None:
    with disk_of() as host:
        path = host.disk.path
        (path / "file").write_bytes(b"data")
        (path / "file").chmod(0o640)
        os.link(path / "file", path / "other")
        os.symlink("file", path / "link")
        (path / "directory").mkdir(0o700)
        host.disk.sync()
        time.sleep(1000)
        host.kill()
        assert (path / "file").stat().st_nlink == 2
        assert time.time() - (path / "file").stat().st_mtime == pytest.approx(1000, abs=1)
        assert (path / "file").stat().st_mode & 0o777 == 0o640
        assert (path / "directory").stat().st_mode & 0o777 == 0o700
        assert (path / "link").read_bytes() == b"data"
        with open(path / "link", "ab") as file:
            file.write(b" more")
        assert (path / "other").read_bytes() == b"data more"


@pytest.mark.parametrize(
    "act",
    [
        lambda path: posix.write(posix.open(path / "file", posix.O_RDONLY | posix.O_NOFOLLOW), b""),
        lambda path: posix.chmod(path / "file", 0o600),
        lambda path: (path / "file").stat(),
    ],
)
def test_what_does_not_write_is_let_through(act: Callable[[Path], Any]) -> None:
    with disk_of() as host:
        (host.disk.path / "file").write_bytes(b"data")
        with contextlib.suppress(OSError):
            act(host.disk.path)
        host.kill("kept")


def test_a_write_that_the_simulation_has_not_seen_is_an_error_at_the_kill() -> None:
    with pytest.raises(NotSimulated, match="the file /file of the host server was changed by a call that is not simul"):
        with disk_of() as host:
            with open(host.disk.path / "file", "wb") as file:
                posix.write(file.fileno(), b"unseen")
            host.kill()
