"""Reads and writes of file descriptors: partial, cancelled, refused, and of closed ones."""

from __future__ import annotations

import os as standard
import sys
import tty
from collections.abc import Iterator
from typing import Any

import pytest

import dhaga
from dhaga import os
from dhaga._kernel import hooks
from dhaga.testing import cancel_at_every_park, settle
from tests.kit.parking import parked, victim
from tests.kit.pipes import Pipe, piped

pipe = pytest.fixture(piped)


@pytest.fixture
def terminal() -> Iterator[tuple[int, int]]:
    """A pseudo-terminal that passes bytes on as they are: its master and slave."""
    master, slave = standard.openpty()
    tty.setraw(slave)
    yield master, slave
    os.close(slave)
    os.close(master)


def test_readv_and_writev_park(pipe: Pipe) -> None:
    buffers = [bytearray(2), bytearray(4)]
    reading = parked(os.readv, pipe.reader, buffers)
    assert os.writev(pipe.writer, [b"ab", b"cd"]) == 4
    assert (reading.result(), buffers) == (4, [bytearray(b"ab"), bytearray(b"cd\0\0")])


def test_readinto_parks(pipe: Pipe, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(2):
        buffer = bytearray(4)
        reading = parked(os.readinto, pipe.reader, buffer)
        assert os.write(pipe.writer, b"ab") == 2
        assert (reading.result(), buffer) == (2, b"ab\0\0")
        monkeypatch.setattr("dhaga._iowait.fd_ops.standard_readinto", None)  # Pythons before 3.14


def test_a_call_for_no_bytes_never_waits(pipe: Pipe) -> None:
    standard.set_blocking(pipe.writer, False)
    with pytest.raises(BlockingIOError):
        while True:
            standard.write(pipe.writer, bytes(4096))
    standard.set_blocking(pipe.writer, True)
    empty, end = standard.pipe()
    calls: list[tuple[Any, ...]] = [
        (os.read, empty, 0),
        (os.readinto, empty, bytearray()),
        (os.readv, empty, []),
        (os.readv, empty, [bytearray()]),
        (os.write, pipe.writer, b""),
        (os.write, pipe.writer, bytearray()),
        (os.writev, pipe.writer, []),
    ]
    dhagas = [dhaga.spawn(*call) for call in calls]
    settle()
    try:
        assert [d.state for d in dhagas] == ["DONE"] * len(calls)
        assert [d.result() for d in dhagas] == [b"", 0, 0, 0, 0, 0, 0]
    finally:
        for d in dhagas:
            d.cancel()
        os.close(empty)
        os.close(end)


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
    monkeypatch.setattr("dhaga._iowait.fd_ops.NOWAIT", 0)
    test_a_write_parks_until_all_is_written(pipe)


def received_from(fd: int, count: int) -> bytes:
    """Return what comes, read in parts smaller than a writer's."""
    received = b""
    while len(received) < count:
        received += os.read(fd, 1000)
    return received


@pytest.mark.parametrize("part", [100, 4096, 50_000])
@pytest.mark.parametrize("side", ["master", "slave"])
def test_a_write_to_a_terminal_parks_until_all_is_written(terminal: tuple[int, int], side: str, part: int) -> None:
    reader, writer = terminal if side == "slave" else terminal[::-1]
    data = standard.urandom(50_000)
    writing = parked(lambda: [os.write(writer, data[at : at + part]) for at in range(0, len(data), part)])
    assert f"write fd {writer}" in repr(writing)
    assert received_from(reader, len(data)) == data
    assert sum(writing.result()) == len(data)
    assert standard.get_blocking(writer)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the flag is set in any case")
def test_a_terminals_flags_are_changed_only_where_it_cannot_be_opened_again(
    terminal: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    changed: list[tuple[int, bool]] = []
    monkeypatch.setattr(standard, "set_blocking", lambda *change: changed.append(change))
    for allowed, expected in ((True, []), (False, [(terminal[1], False), (terminal[1], True)])):
        if not allowed:
            monkeypatch.setattr("dhaga._iowait.fd_ops.standard_open", refused)
        assert parked(os.write, terminal[1], b"abc").result() == 3
        assert (received_from(terminal[0], 3), changed) == (b"abc", expected)


def refused(*_: Any) -> int:
    raise PermissionError


def test_a_write_to_a_terminal_of_another_user_parks_until_all_is_written(
    terminal: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dhaga._iowait.fd_ops.standard_open", refused)
    test_a_write_to_a_terminal_parks_until_all_is_written(terminal, "slave", 50_000)


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
            assert not hooks.before_fd_close

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
            os.read("0", 1)
        with pytest.raises(TypeError):
            os.write(1, "text")

    dhaga.spawn(refused).join()
