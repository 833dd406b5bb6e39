"""Counters of events and ``splice`` park. The waits of each are in tests/scenarios/test_file_waits.py."""

from __future__ import annotations

import os as standard
import sys

import pytest

import dhaga
from dhaga import os
from dhaga.testing import settle
from tests.kit.parking import parked

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Linux has them")


def test_a_reader_of_a_counter_that_is_cancelled_takes_nothing() -> None:
    fd = standard.eventfd(0)
    reading = parked(os.eventfd_read, fd)
    reading.cancel()
    settle()
    os.eventfd_write(fd, 3)
    assert os.eventfd_read(fd) == 3
    os.close(fd)


def test_a_write_of_more_than_a_counter_has_room_for_parks() -> None:
    fd = standard.eventfd(0)
    os.eventfd_write(fd, 2**63)
    writing = dhaga.spawn(os.eventfd_write, fd, 2**63)
    settle()
    assert writing.is_alive()
    assert os.eventfd_read(fd) == 2**63
    writing.result()
    assert os.eventfd_read(fd) == 2**63
    with pytest.raises(OSError, match="Invalid argument"):
        os.eventfd_write(fd, 2**64 - 1)
    standard.set_blocking(fd, False)
    os.eventfd_write(fd, 2**63)
    with pytest.raises(BlockingIOError):
        os.eventfd_write(fd, 2**63)
    os.close(fd)


def test_a_splice_of_nothing_is_refused_if_it_must_not_wait() -> None:
    (reader, writer), (other, target) = standard.pipe(), standard.pipe()
    with pytest.raises(BlockingIOError):
        os.splice(reader, target, 8, flags=2)
    standard.write(writer, b"abc")
    assert os.splice(reader, target, 8) == 3
    assert standard.read(other, 8) == b"abc"
    standard.close(writer)
    assert os.splice(reader, target, 8) == 0
    for fd in (reader, other, target):
        os.close(fd)


def test_a_splice_of_0_bytes_never_waits() -> None:
    (reader, writer), (other, target) = standard.pipe(), standard.pipe()
    d = dhaga.spawn(os.splice, reader, target, 0)
    settle()
    try:
        assert d.state == "DONE" and d.result() == 0
    finally:
        d.cancel()
        for fd in (reader, writer, other, target):
            os.close(fd)
