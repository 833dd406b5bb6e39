"""``dhaga.os``: file descriptors and children, waited for by parking."""

from __future__ import annotations

import contextlib
import os as standard
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

import dhaga
from dhaga import os
from dhaga.kernel.channel import onlookers
from dhaga.testing import cancel_at_every_park, open_fds, settle
from tests.parking import parked, victim
from tests.scripts import prints


class Pipe:
    """A pipe, and what is left of it closed in the end."""

    def __init__(self) -> None:
        self.reader, self.writer = standard.pipe()
        self.ends = {self.reader, self.writer}

    def close(self, end: int) -> None:
        self.ends.remove(end)
        os.close(end)

    def fill(self) -> int:
        """Write until no more fits. Returns: how much."""
        standard.set_blocking(self.writer, False)
        written = 0
        with contextlib.suppress(BlockingIOError):
            while True:
                written += standard.write(self.writer, b"f" * 4096)
        standard.set_blocking(self.writer, True)
        return written


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    found = Pipe()
    yield found
    for end in found.ends:
        standard.close(end)


def exiting(status: int, after: float = 0.0) -> int:
    """Start a child that ends with a status."""
    return standard.posix_spawn("/bin/sh", ["sh", "-c", f"sleep {after}; exit {status}"], standard.environ)


def ended(status: int) -> int:
    return status << 8


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


def test_many_readers_of_one_pipe_get_a_byte_each(pipe: Pipe) -> None:
    readings = [parked(os.read, pipe.reader, 1) for _ in range(5)]
    for n in range(5):
        standard.write(pipe.writer, bytes([n]))
        settle()
    assert sorted(reading.result() for reading in readings) == [bytes([n]) for n in range(5)]


def test_readv_and_writev_park(pipe: Pipe) -> None:
    buffers = [bytearray(2), bytearray(4)]
    reading = parked(os.readv, pipe.reader, buffers)
    assert os.writev(pipe.writer, [b"ab", b"cd"]) == 4
    assert (reading.result(), buffers) == (4, [bytearray(b"ab"), bytearray(b"cd\0\0")])


def test_a_write_parks_until_all_is_written(pipe: Pipe) -> None:
    data = standard.urandom(500_000)
    writing = parked(os.write, pipe.writer, data)
    assert f"write fd {pipe.writer}" in repr(writing)
    received = b""
    while len(received) < len(data):
        received += os.read(pipe.reader, 100_000)
    assert (writing.result(), received) == (len(data), data)
    assert standard.get_blocking(pipe.writer)


def test_a_write_goes_on_where_the_system_cannot_be_asked_for_a_short_one(
    pipe: Pipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dhaga.descriptors.NOWAIT", 0)
    test_a_write_parks_until_all_is_written(pipe)


def test_a_small_write_parks_while_the_pipe_is_full(pipe: Pipe) -> None:
    full = pipe.fill()
    writing = parked(os.write, pipe.writer, b"!")
    assert writing.is_alive()
    assert len(os.read(pipe.reader, full)) == full
    assert writing.result() == 1


def test_a_write_to_nobody_fails(pipe: Pipe) -> None:
    def write() -> None:
        with pytest.raises(BrokenPipeError):
            os.write(pipe.writer, b"x" * 500_000)

    writing = parked(write)
    pipe.close(pipe.reader)
    writing.join()


def test_a_cancelled_write_tells_how_much_it_has_written(pipe: Pipe) -> None:
    written: list[int] = []

    def write() -> None:
        written.append(os.write(pipe.writer, b"x" * 500_000))
        dhaga.sleep(60)

    writing = parked(write)
    writing.cancel()
    settle()
    assert not writing.is_alive()
    assert len(standard.read(pipe.reader, 500_000)) == written[0] < 500_000


def test_nothing_is_lost_whenever_a_reader_is_cancelled(pipe: Pipe) -> None:
    def scenario() -> Any:
        got: list[bytes] = []
        reading = victim(lambda: got.append(os.read(pipe.reader, 4)))
        dhaga.spawn(standard.write, pipe.writer, b"data", priority=dhaga.LOW)

        def check() -> None:
            if not got:
                got.append(standard.read(pipe.reader, 4))
            assert got == [b"data"]
            assert not onlookers

        return reading, check

    assert cancel_at_every_park(scenario) == 1


def test_closing_wakes_who_waits(pipe: Pipe) -> None:
    def read() -> None:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.read(pipe.reader, 10)

    readings = [parked(read) for _ in range(3)]
    pipe.close(pipe.reader)
    for reading in readings:
        reading.join()


def test_a_nonblocking_fd_does_not_park(pipe: Pipe) -> None:
    def read() -> None:
        with pytest.raises(BlockingIOError):
            os.read(pipe.reader, 10)

    standard.set_blocking(pipe.reader, False)
    dhaga.spawn(read).join()


def test_what_is_no_fd_is_refused_as_ever() -> None:
    def refused() -> None:
        for fd in (-1, 10_000):
            with pytest.raises(OSError, match="Bad file descriptor"):
                os.read(fd, 1)
            with pytest.raises(OSError, match="Bad file descriptor"):
                os.write(fd, b"x" * 10_000)
        with pytest.raises(TypeError):
            os.read("0", 1)  # type: ignore[arg-type]
        with pytest.raises(TypeError):
            os.write(1, "text")

    dhaga.spawn(refused).join()


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
            os.fdopen("name")  # type: ignore[arg-type]


def test_other_files_are_the_standards(tmp_path: Any) -> None:
    fd = standard.open(tmp_path / "file", standard.O_RDWR | standard.O_CREAT)
    with os.fdopen(fd, "w+") as file:
        assert type(file).__module__ == "_io"


# ---- children


def test_waitpid_parks_until_the_child_ends() -> None:
    pid = exiting(3, 0.05)
    waiting = parked(os.waitpid, pid, 0)
    assert f"process {pid}" in repr(waiting)
    assert waiting.result() == (pid, ended(3))
    with pytest.raises(ChildProcessError):
        os.waitpid(pid, 0)


def test_wait_takes_any_child_and_each_status_once() -> None:
    pids = {exiting(n, 0.01 * n): ended(n) for n in range(4)}
    waiting = [parked(os.wait) for _ in pids]
    assert dict(each.result() for each in waiting) == pids


def test_a_cancelled_wait_leaves_the_status_to_others() -> None:
    pid = exiting(5, 0.1)
    for wait in (os.wait, lambda: os.waitpid(pid, 0), lambda: os.wait3(0)):
        waiting = parked(wait)
        waiting.cancel()
        settle()
        assert not waiting.is_alive()
    assert dhaga.spawn(os.wait4, pid, 0).result()[:2] == (pid, ended(5))


def test_waitid_waits_for_an_event_and_may_leave_it() -> None:
    pid = exiting(6, 0.05)
    seen = dhaga.spawn(os.waitid, os.P_ALL, 0, os.WEXITED | os.WNOWAIT).result()
    assert (seen.si_pid, seen.si_status) == (pid, 6)
    assert dhaga.spawn(os.waitid, os.P_PID, pid, os.WEXITED).result().si_pid == pid


def test_waitpid_sees_a_child_stop() -> None:
    pid = exiting(0, 60)
    waiting = parked(os.waitpid, pid, os.WUNTRACED)
    standard.kill(pid, 19)
    assert os.WIFSTOPPED(waiting.result()[1])
    standard.kill(pid, 9)
    assert os.WTERMSIG(dhaga.spawn(os.waitpid, pid, 0).result()[1]) == 9


def test_system_lets_others_run() -> None:
    before = open_fds()
    started = time.monotonic()
    shells = [dhaga.spawn(os.system, "sleep 0.3; exit 4") for _ in range(4)]
    assert [shell.result() for shell in shells] == [ended(4)] * 4
    assert time.monotonic() - started < 1.1
    assert len(open_fds() - before) < 10
    os.shells.shutdown()
    os.shells.closed = False


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
        lets_others_run(lambda: subprocess.run(["sleep", "0.1"], timeout=5))
        reader, writer = os.pipe()
        lets_others_run(lambda: (write(b"x"), os.read(reader, 1)))
        file = os.fdopen(reader)
        lets_others_run(lambda: (write(b"line\\n"), file.readline()))
    """)
        == ["True"] * 6
    )
