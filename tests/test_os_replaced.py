"""``os.dup2`` and ``os.close`` of fds that are waited for: an fd's number then refers to another file, or to none."""

from __future__ import annotations

import errno
import os as standard
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import dhaga
from dhaga import os, select, socket
from dhaga.testing import settle
from tests.kit.sockets import READERS, WRITERS, caught, ends_within, fill, unix

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="fds of sockets are no files on Windows")


@pytest.fixture
def pairs() -> Iterator[tuple[Any, Any, Any, Any]]:
    """Two connections: the fd of the first one's first end gets the file of the other's."""
    with unix() as (one, peer), unix() as (new, new_peer):
        yield one, peer, new, new_peer


def parked(call: Callable[..., Any], *args: Any) -> Any:
    d = dhaga.spawn(call, *args)
    settle()
    assert d.state == "WAITING"
    return d


@pytest.mark.parametrize("name", READERS)
def test_after_dup2_the_parked_reader_of_a_socket_reads_the_new_file(pairs: Any, name: str) -> None:
    one, peer, new, new_peer = pairs
    reader = parked(READERS[name], one)
    os.dup2(new.fileno(), one.fileno())
    assert peer.recv(1) == b""  # no dhaga keeps the former file open
    settle()
    assert reader.state == "WAITING"
    new_peer.send(b"n")
    ends_within(5, reader)


@pytest.mark.parametrize("name", WRITERS)
def test_after_dup2_the_parked_writer_of_a_socket_writes_to_the_new_file(pairs: Any, name: str) -> None:
    one, _, new, new_peer = pairs
    fill(one)
    writer = parked(WRITERS[name], one)
    os.dup2(new.fileno(), one.fileno())
    ends_within(5, writer)
    assert new_peer.recv(10) == b"!"


def test_after_dup2_later_readers_wait_for_the_new_file(pairs: Any) -> None:
    """The one that was parked has left meanwhile. The former file is still open under another number."""
    one, peer, new, new_peer = pairs
    reader = parked(caught, one.recv, 10)
    with socket.socket(fileno=standard.dup(one.fileno())) as kept:
        os.dup2(new.fileno(), one.fileno())
        reader.cancel()
        reader.join(30)
        peer.send(b"old")
        reader = parked(one.recv, 10)
        new_peer.send(b"new")
        assert ends_within(5, reader) == b"new"
        assert kept.recv(10) == b"old"


def test_after_dup2_and_back_the_reader_reads_the_former_file(pairs: Any) -> None:
    """Programs save, redirect and restore standard streams in this way."""
    one, peer, new, _ = pairs
    reader = parked(one.recv, 10)
    saved = standard.dup(one.fileno())
    os.dup2(new.fileno(), one.fileno())
    settle()
    peer.send(b"meanwhile")
    settle()
    assert reader.state == "WAITING"
    os.dup2(saved, one.fileno())
    standard.close(saved)
    assert ends_within(5, reader) == b"meanwhile"


def test_after_dup2_of_a_file_that_is_no_socket_the_reader_gets_an_error(pairs: Any) -> None:
    one, *_ = pairs
    reader = parked(caught, one.recv, 10)
    null = standard.open(standard.devnull, standard.O_RDWR)
    os.dup2(null, one.fileno())
    standard.close(null)
    assert isinstance(ends_within(5, reader), OSError)


def test_dup2_fails_as_in_the_standard_and_the_reader_waits_on(pairs: Any) -> None:
    one, peer, *_ = pairs
    reader = parked(one.recv, 10)
    for wrong in [(-1, one.fileno()), (one.fileno(), -1), (one.fileno(), "x"), (one.fileno(),)]:
        with pytest.raises((OSError, TypeError)) as expected:
            standard.dup2(*wrong)
        with pytest.raises(expected.type):
            os.dup2(*wrong)
    assert os.dup2(one.fileno(), fd2=one.fileno()) == one.fileno()
    settle()
    peer.send(b"x")
    assert ends_within(5, reader) == b"x"


def poll(fd: int) -> Any:
    poller = select.poll()
    poller.register(fd, select.POLLIN)
    return poller.poll()


WAITS: dict[str, Callable[[int, int], Any]] = {
    "read": lambda fd, other: os.read(fd, 10),
    "readv": lambda fd, other: os.readv(fd, [bytearray(10)]),
    "select of one": lambda fd, other: select.select([fd], [], []),
    "select of two": lambda fd, other: select.select([fd, other], [], []),
    "poll": lambda fd, other: poll(fd),
}


@pytest.mark.parametrize("name", WAITS)
def test_after_dup2_a_wait_for_an_fd_sees_the_new_file(pairs: Any, name: str) -> None:
    one, _, new, new_peer = pairs
    waiting = parked(WAITS[name], one.fileno(), new_peer.fileno())
    os.dup2(new.fileno(), one.fileno())
    new_peer.send(b"new")
    ends_within(5, waiting)


@pytest.mark.parametrize("name", ["recv", "select of two"])
def test_dup2_wakes_the_waiters_of_other_threads(pairs: Any, name: str) -> None:
    one, _, new, new_peer = pairs
    wait = (lambda: one.recv(10)) if name == "recv" else (lambda: WAITS[name](one.fileno(), new_peer.fileno()))
    with dhaga.Scheduler() as scheduler:
        d = scheduler.spawn(wait)
        while d.state != "WAITING":
            dhaga.sleep(0.001)
        os.dup2(new.fileno(), one.fileno())
        new_peer.send(b"new")
        assert d.result(30) in (b"new", ([one.fileno()], [], []))


def test_dup2_in_a_plain_thread_wakes_the_waiters(pairs: Any) -> None:
    one, _, new, new_peer = pairs
    reader = parked(one.recv, 10)
    thread = threading.Thread(target=os.dup2, args=(new.fileno(), one.fileno()))
    thread.start()
    thread.join()
    new_peer.send(b"new")
    assert ends_within(5, reader) == b"new"


def test_a_writer_parks_although_the_number_was_closed_behind_its_back(pairs: Any) -> None:
    """It is registered for reading, of the former file."""
    one, peer, new, new_peer = pairs
    peer.send(b"x")
    parked_once = dhaga.spawn(lambda: one.recv(1) + one.recv(1))
    settle()
    peer.send(b"y")
    assert parked_once.result(30) == b"xy"
    standard.dup2(new.fileno(), one.fileno())
    fill(one)
    writer = parked(one.send, b"!")
    while not writer.has_ended:
        new_peer.recv(1 << 20)
        settle()
    assert writer.result() == 1


@pytest.mark.parametrize("close", [os.close, lambda fd: os.closerange(fd, fd + 1)])
def test_a_close_by_number_wakes_the_waiters_of_a_socket(pairs: Any, close: Callable[[int], None]) -> None:
    one, *_ = pairs
    reader, other = parked(caught, one.recv, 10), parked(caught, one.recv_into, bytearray(1))
    close(one.fileno())
    for d in reader, other:
        error = ends_within(5, d)
        assert isinstance(error, OSError) and error.errno == errno.EBADF
    one.detach()
