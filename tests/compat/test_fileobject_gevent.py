"""gevent's files, and its calls of os."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from dhaga.compat import gevent
from dhaga.compat.gevent import os as gevent_os
from dhaga.compat.gevent import socket
from dhaga.compat.gevent.fileobject import FileObject, FileObjectBlock, FileObjectPosix, FileObjectThread


def test_a_read_of_a_pipe_parks() -> None:
    read_end, write_end = os.pipe()
    with FileObject(read_end, "rb") as reading, FileObject(write_end, "wb", bufsize=0) as writing:
        later = gevent.spawn_later(0.01, writing.write, b"line\n")
        assert reading.readline() == b"line\n"
        later.join()


@pytest.mark.parametrize("kind", [FileObject, FileObjectThread, FileObjectBlock])
def test_a_file_on_disk_is_read_and_written(kind: type, tmp_path: Path) -> None:
    path = str(tmp_path / "file")
    with kind(path, "w", encoding="utf-8") as file:
        file.write("é\n")
    given = open(path, "rb")  # noqa: SIM115
    with kind(given) as file:
        assert file.read() == "é\n".encode()
    assert given.closed
    with open(path) as kept, kind(kept, "r", close=False) as file:
        assert file.readline() == "é\n" and not kept.closed
    with pytest.raises(TypeError, match="mean the same"):
        kind(path, bufsize=1, buffering=1)


def test_fds_are_waited_for() -> None:
    read_end, write_end = os.pipe()
    assert gevent_os.make_nonblocking(read_end) is True and gevent_os.make_nonblocking(read_end) is None
    with pytest.raises(TimeoutError):
        socket.wait_read(read_end, timeout=0.01)
    with pytest.raises(KeyError):
        socket.wait_read(read_end, timeout=0.01, timeout_exc=KeyError())
    socket.wait_write(write_end, timeout=20)
    later = gevent.spawn_later(0.01, gevent_os.nb_write, write_end, b"x")
    assert gevent_os.nb_read(read_end, 1) == b"x"
    later.join()
    os.close(read_end)
    os.close(write_end)
    with pytest.raises(NotImplementedError, match="waitpid"):
        gevent_os.fork_and_watch(print)


@pytest.mark.parametrize("kind", [FileObjectPosix, FileObjectThread, FileObjectBlock])
@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"mode": 4}, TypeError),
        ({"buffering": "x"}, TypeError),
        ({"encoding": 4}, TypeError),
        ({"buffering": 1, "bufsize": 1}, TypeError),
        ({"mode": "rq"}, ValueError),
        ({"mode": "rr"}, ValueError),
        ({"mode": "wU"}, ValueError),
        ({"mode": "rtb"}, ValueError),
        ({"mode": "rw"}, ValueError),
        ({"mode": "+"}, ValueError),
        ({"mode": "rb", "newline": ""}, ValueError),
    ],
)
def test_arguments_that_open_refuses_are_refused_before_the_file_is_touched(
    kind: Any, options: dict[str, Any], error: type[Exception], tmp_path: Path
) -> None:
    with open(tmp_path / "file", "w") as file:
        with pytest.raises(error):
            kind(file, **options)
        assert not file.closed


def test_a_file_has_the_name_of_the_one_that_it_was_made_of(tmp_path: Path) -> None:
    path = str(tmp_path / "file")
    with open(path, "w") as given, FileObjectBlock(given, "w") as file:
        assert file.name == path
    assert file.name == path
