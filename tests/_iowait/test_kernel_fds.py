"""Counters of events and ``splice`` park. The waits of each are in tests/scenarios/test_file_waits.py."""

from __future__ import annotations

import os as standard
import sys

import pytest

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
