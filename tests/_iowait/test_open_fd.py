"""``os.open`` parks while the other end of a FIFO is closed."""

from __future__ import annotations

import os as standard
import threading
from pathlib import Path
from typing import Any

import pytest

import dhaga
from dhaga import os
from dhaga._iowait import open_fd
from tests.kit.parking import parked


@pytest.fixture
def fifo(tmp_path: Path) -> Path:
    path = tmp_path / "fifo"
    standard.mkfifo(path)
    return path


def test_the_two_ends_of_a_fifo_meet(fifo: Path) -> None:
    reading = dhaga.spawn(os.open, fifo, standard.O_RDONLY)
    writer = os.open(fifo, standard.O_WRONLY)
    reader = reading.result()
    os.write(writer, b"through")
    assert os.read(reader, 99) == b"through"
    assert not standard.get_inheritable(reader)
    os.close(reader)
    os.close(writer)


def test_an_end_that_is_opened_after_a_cancel_is_closed(fifo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = threading.Event()

    def noted_open(*args: Any, **options: Any) -> int:
        begun.set()
        return standard.open(*args, **options)

    monkeypatch.setattr(open_fd, "standard_open", noted_open)
    reading = parked(os.open, fifo, standard.O_RDONLY)
    begun.wait()  # a call that no thread has taken yet would never be made after the cancel
    reading.cancel()
    reading.join()
    writer = os.open(fifo, standard.O_WRONLY)  # the other end is still being opened, in a thread of the pool
    with pytest.raises(BrokenPipeError):
        while True:
            standard.write(writer, b"x")
            dhaga.sleep(0.001)
    os.close(writer)


@pytest.mark.parametrize("flags", [standard.O_RDONLY | standard.O_NONBLOCK, standard.O_RDWR])
def test_an_open_that_does_not_wait_does_not_park(fifo: Path, flags: int) -> None:
    with dhaga.no_park():
        os.close(os.open(fifo, flags))


def test_other_files_open_as_ever(tmp_path: Path) -> None:
    with dhaga.no_park():
        folder = os.open(tmp_path, standard.O_RDONLY)
        fd = os.open("new", standard.O_WRONLY | standard.O_CREAT, 0o640, dir_fd=folder)
        assert standard.fstat(fd).st_mode & 0o777 == 0o640 & ~0o022
        os.close(fd)
        os.close(folder)
        with pytest.raises(FileNotFoundError):
            os.open(tmp_path / "none", standard.O_RDONLY)
        with pytest.raises(TypeError):
            os.open(None, standard.O_RDONLY)
