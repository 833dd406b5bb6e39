"""``dhaga.os``: file descriptors and children, waited for by parking."""

from __future__ import annotations

import os as standard
import socket
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import dhaga
from dhaga import os
from dhaga.testing import open_fds, settle
from tests.kit.parking import parked
from tests.kit.pipes import Pipe, ended, piped
from tests.kit.scripts import prints

pipe = pytest.fixture(piped)

# ---- file descriptors


def test_a_read_parks_until_there_is_something(pipe: Pipe) -> None:
    reading = parked(os.read, pipe.reader, 10)
    assert f"read fd {pipe.reader}" in repr(reading)
    standard.write(pipe.writer, b"data")
    assert reading.result() == b"data"
    assert standard.get_blocking(pipe.reader)


def test_a_read_sees_the_end(pipe: Pipe) -> None:
    reading = parked(os.read, pipe.reader, 10)
    pipe.close(pipe.writer)
    assert reading.result() == b""


def test_the_wrong_end_of_a_pipe_is_refused_at_once(pipe: Pipe) -> None:
    def is_refused(call: Any, fd: int, argument: Any) -> None:
        with pytest.raises(OSError, match="Bad file descriptor"):
            call(fd, argument)

    dhaga.spawn(is_refused, os.write, pipe.reader, b"data").result(10)
    dhaga.spawn(is_refused, os.write, pipe.reader, bytes(100_000)).result(10)
    dhaga.spawn(is_refused, os.read, pipe.writer, 10).result(10)


def test_many_readers_of_one_pipe_get_a_byte_each(pipe: Pipe) -> None:
    readings = [parked(os.read, pipe.reader, 1) for _ in range(5)]
    for n in range(5):
        standard.write(pipe.writer, bytes([n]))
        settle()
    assert sorted(reading.result() for reading in readings) == [bytes([n]) for n in range(5)]


def test_a_small_write_parks_while_the_pipe_is_full(pipe: Pipe) -> None:
    full = pipe.fill()
    writing = parked(os.write, pipe.writer, b"!")
    assert writing.is_alive()
    assert len(os.read(pipe.reader, full)) == full
    assert writing.result() == 1


def test_a_write_to_nobody_fails(pipe: Pipe) -> None:
    full = pipe.fill()

    def write() -> int:
        written = os.write(pipe.writer, b"x" * 500_000)  # by write(2), the part that was read counts
        with pytest.raises(BrokenPipeError):
            os.write(pipe.writer, b"x" * 500_000)
        return written

    writing = parked(write)
    os.read(pipe.reader, full)
    dhaga.sleep(0.01)
    pipe.close(pipe.reader)
    assert 0 < writing.result() < 500_000


def test_sockets_and_datagrams_go_whole() -> None:
    left, right = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with left, right:
        reading = parked(os.read, right.fileno(), 100_000)
        assert os.write(left.fileno(), b"x" * 50_000) == 50_000
        assert len(reading.result()) == 50_000


def test_sendfile_parks_while_the_other_end_is_slow(tmp_path: Any) -> None:
    path = tmp_path / "data"
    path.write_bytes(b"x" * 1_000_000)
    left, right = socket.socketpair()

    def send() -> int:
        sent = 0
        with path.open("rb") as file:
            while sent < 1_000_000:
                sent += os.sendfile(left.fileno(), file.fileno(), sent, 1_000_000 - sent)
        return sent

    with left, right:
        sending = parked(send)
        assert sending.is_alive()
        received = 0
        while received < 1_000_000:
            received += len(os.read(right.fileno(), 1_000_000))
        assert sending.result() == 1_000_000
        assert left.getblocking()


def test_a_plain_thread_blocks(pipe: Pipe) -> None:
    got: list[bytes] = []
    thread = threading.Thread(target=lambda: got.append(os.read(pipe.reader, 10)))
    thread.start()
    os.write(pipe.writer, b"data")
    thread.join()
    assert got == [b"data"]


def test_a_file_over_a_pipe_parks(pipe: Pipe) -> None:
    pipe.ends.clear()
    with os.fdopen(pipe.reader, encoding="utf-8") as source, os.fdopen(pipe.writer, "wb", 0) as sink:
        reading = parked(source.readline)
        sink.write("grün\n".encode())
        assert reading.result() == "grün\n"
        with pytest.raises(TypeError):
            os.fdopen("name")


def test_other_files_are_the_standards(tmp_path: Any) -> None:
    fd = standard.open(tmp_path / "file", standard.O_RDWR | standard.O_CREAT)
    with os.fdopen(fd, "w+") as file:
        assert type(file).__module__ == "_io"


# ---- children


def test_system_lets_others_run(tmp_path: Path) -> None:
    before = open_fds()
    meet = "cd '{}'; touch {}; while [ ! -e all ]; do sleep 0.01; done; exit 4"
    shells = [dhaga.spawn(os.system, meet.format(tmp_path, n)) for n in range(4)]
    deadline = time.monotonic() + 30
    while len(standard.listdir(tmp_path)) < 4 and time.monotonic() < deadline:
        dhaga.sleep(0.01)
    met = len(standard.listdir(tmp_path))
    (tmp_path / "all").touch()
    assert [shell.result() for shell in shells] == [ended(4)] * 4
    assert met == 4
    assert len(open_fds() - before) < 10
    os.shells.shutdown()
    os.shells.workers.closed = False


def test_the_patch_has_all_of_it_park() -> None:
    assert (
        prints("""
        import dhaga.monkey; dhaga.monkey.patch()
        import os, subprocess, threading, time
        ticks = 0
        def tick():
            global ticks
            while True:
                time.sleep(0.01)
                ticks += 1
        threading.Thread(target=tick, daemon=True).start()
        def lets_others_run(what):
            global ticks
            for _ in range(5):  # the machine may be busy for as long
                ticks = 0
                what()
                if ticks > 4:
                    break
            print(ticks > 4)
        def write(data):
            threading.Timer(0.1, os.write, [writer, data]).start()
        lets_others_run(lambda: os.system("sleep 0.1"))
        lets_others_run(lambda: os.spawnlp(os.P_WAIT, "sleep", "sleep", "0.1"))
        lets_others_run(lambda: os.popen("sleep 0.1").close())
        lets_others_run(lambda: subprocess.run(["sleep", "0.1"], timeout=60))
        reader, writer = os.pipe()
        lets_others_run(lambda: (write(b"x"), os.read(reader, 1)))
        file = os.fdopen(reader)
        lets_others_run(lambda: (write(b"line\\n"), file.readline()))
    """)
        == ["True"] * 6
    )


def test_a_kept_error_of_a_write_does_not_keep_the_buffer(pipe: Pipe) -> None:
    def writes() -> None:
        data = bytearray(100_000)
        try:
            os.write(pipe.writer, data)
        except BrokenPipeError:
            data += b"more"
            raise

    pipe.close(pipe.reader)
    with pytest.raises(BrokenPipeError):
        dhaga.spawn(writes).result()


@pytest.mark.skipif(not hasattr(standard, "splice"), reason="Linux only")
def test_splice_parks_while_its_source_is_empty_and_its_target_full() -> None:
    source, entrance = standard.pipe()
    exit, target = standard.pipe()
    standard.write(target, bytes(65_536))
    splicing = parked(os.splice, source, target, 1000)
    assert f"read fd {source}" in repr(splicing)
    standard.write(entrance, b"x" * 100)
    settle()
    assert f"write fd {target}" in repr(splicing)
    assert len(standard.read(exit, 65_536)) == 65_536
    assert (splicing.result(), standard.read(exit, 1000)) == (100, b"x" * 100)
    os.close(entrance)
    assert os.splice(source, target, 1) == 0  # the end
    for fd in (source, exit, target):
        os.close(fd)


@pytest.mark.skipif(not hasattr(standard, "splice"), reason="Linux only")
def test_splice_without_blocking_does_not_park() -> None:
    (source, entrance), (exit, target) = standard.pipe(), standard.pipe()
    with pytest.raises(BlockingIOError):
        os.splice(source, target, 1, flags=standard.SPLICE_F_NONBLOCK)
    standard.set_blocking(target, False)
    with pytest.raises(BlockingIOError):
        os.splice(source, target, 1)
    for fd in (source, entrance, exit, target):
        os.close(fd)


@pytest.mark.skipif(not hasattr(standard, "eventfd"), reason="Linux only")
def test_an_eventfd_parks_who_reads_nothing_or_writes_to_a_full_one() -> None:
    fd = standard.eventfd(0)
    reading = parked(os.eventfd_read, fd)
    os.eventfd_write(fd, 3)
    assert reading.result() == 3
    os.eventfd_write(fd, 2**64 - 2)
    writing = parked(os.eventfd_write, fd, 1)
    assert f"write fd {fd}" in repr(writing)
    assert os.eventfd_read(fd) == 2**64 - 2
    writing.result()
    assert os.eventfd_read(fd) == 1
    os.close(fd)


def test_programs_find_open_among_the_functions_that_take_a_folders_fd() -> None:
    """shutil.rmtree, imported after the patch, would otherwise be open to attacks by links."""
    program = """
        import dhaga.monkey; dhaga.monkey.patch()
        import os, shutil
        print(os.open in os.supports_dir_fd, shutil.rmtree.avoids_symlink_attacks)
    """
    (answer,) = prints(program)
    assert answer in ("True True", "False False")
    assert (answer == "True True") is (standard.unlink in standard.supports_dir_fd)
