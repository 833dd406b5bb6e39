"""Waits for several fds at once leave nothing behind, whatever ends them."""

from __future__ import annotations

import os
import select as standard
import tempfile
from contextlib import suppress
from typing import Any

import pytest

import dhaga
from dhaga import select, socket
from dhaga._iowait.fd_set import WatcherSet
from dhaga._kernel import hooks
from dhaga.testing import cancel_at_every_park, open_fds, settle, virtual_clock
from tests.kit.selects import Waits, by_poll, every_way, has_poll, pair


@every_way
def test_a_cancel_leaves_nothing_registered_and_no_fd_open(waits: Waits) -> None:
    with pair() as (one, other):
        dhaga.spawn(waits, one, 0.001).join()
        scheduler = dhaga.current().scheduler
        before = open_fds()
        for timeout in (None, 100):
            d = dhaga.spawn(waits, one, timeout)
            settle()
            assert d.state == "WAITING"
            d.cancel()
            with pytest.raises(dhaga.Cancelled):
                d.result(30)
            assert not scheduler.poller.watchers and not hooks.before_fd_close and not len(scheduler.timers)
            assert open_fds() == before
        other.send(b"x")
        assert waits(one, 1) and open_fds() == before


@every_way
def test_cancelled_or_timed_out_anywhere_nothing_is_left(waits: Waits) -> None:
    before = open_fds()

    def scenario() -> Any:
        one, other = socket.socketpair()

        def waits_twice() -> None:
            for _ in range(2):
                with suppress(TimeoutError):
                    waits(one, 5)
                one.settimeout(1)
                with suppress(TimeoutError):
                    one.recv(1)

        def check() -> None:
            one.close()
            other.close()
            assert not hooks.before_fd_close

        victim = dhaga.spawn(waits_twice)
        dhaga.spawn(lambda: (dhaga.sleep(1), other.send(b"x")))
        return victim, check

    assert cancel_at_every_park(scenario) >= 2
    assert open_fds() == before


@has_poll
def test_a_poll_that_was_cancelled_may_be_polled_again() -> None:
    with virtual_clock(), pair() as (one, _):
        poll = select.poll()
        poll.register(one, select.POLLIN)
        d = dhaga.spawn(poll.poll)
        settle()
        d.cancel()
        d.join()
        assert poll.poll(1) == []


@has_poll
def test_data_that_a_poll_did_not_ask_for_wakes_it_once_at_most() -> None:
    with pair() as (one, other):
        other.send(b"x")
        poll = select.poll()
        poll.register(one, 0)
        d = dhaga.spawn(poll.poll)
        settle()  # would never end
        assert d.state == "WAITING"
        other.close()
        ((_, events),) = d.result(30)
        assert events & standard.POLLHUP


@every_way
@pytest.mark.parametrize("select_first", [False, True])
def test_a_wait_beside_a_reader_of_the_socket_leaves_him_his_data(waits: Waits, select_first: bool) -> None:
    with pair() as (one, other):
        calls = [(waits, one, 100), (one.recv, 1)]
        for _ in range(2):
            dhagas = {}
            for fn, *args in calls if select_first else calls[::-1]:
                dhagas[fn] = dhaga.spawn(fn, *args)
                settle()
            waiting, reader = dhagas[waits], dhagas[one.recv]
            waiting.cancel()
            settle()
            assert (waiting.state, reader.state) == ("DONE", "WAITING")
            again = dhaga.spawn(waits, one, 100)
            settle()
            other.send(b"xy")
            assert again.result(30) and reader.result(30) + one.recv(1) == b"xy"


def test_a_regular_file_is_always_ready() -> None:
    with tempfile.TemporaryFile() as file, pair() as (one, _):
        assert select.select([file, one], [file], [], 5) == ([file], [file], [])
        if hasattr(select, "poll"):
            assert by_poll(file, 5)
        if hasattr(select, "epoll"):
            with select.epoll() as epoll, pytest.raises(PermissionError):
                epoll.register(file)


def test_a_regular_file_watched_for_urgent_data_alone_waits_for_the_time() -> None:
    with virtual_clock() as clock, tempfile.TemporaryFile() as file:
        expected = standard.select([], [], [file], 0)
        assert select.select([], [], [file], 2) == expected
        assert clock() == (0 if any(expected) else 2)


def test_pipes_are_watched_as_well() -> None:
    bell, button = os.pipe()
    try:
        d = dhaga.spawn(select.select, [bell], [], [], 5)
        settle()
        os.write(button, b"!")
        assert d.result(30) == ([bell], [], [])
    finally:
        os.close(bell)
        os.close(button)


def test_what_is_not_defined_is_the_standards() -> None:
    assert select.error is OSError and set(dir(standard)) <= set(dir(select))
    with pytest.raises(AttributeError):
        select.nonsense


@every_way
@pytest.mark.parametrize("ready", [False, True])
def test_who_polls_in_a_loop_lets_others_run(waits: Waits, ready: bool) -> None:
    with pair() as (one, other):
        if ready:
            other.send(b"x")
        done: list[int] = []

        def poll() -> None:
            while not done:
                assert waits(one, 0) is ready

        for polling in (poll, lambda: dhaga.spawn(poll).join()):
            done.clear()
            dhaga.spawn(done.append, 1)
            polling()


def test_a_close_that_is_noted_late_does_not_wake_a_waiter_from_its_next_park() -> None:
    """The thread that closes the fd may have found the waiter just before it left."""
    with virtual_clock():
        d = dhaga.spawn(lambda: (dhaga.park("first"), dhaga.park("next")))
        settle()
        fd_set = WatcherSet("poll fd 9", d.scheduler)
        fd_set.parked = d, d.parked
        d.wake()
        settle()
        fd_set.note_close()
        assert fd_set.fd_closing and d.reason == "next"
        d.wake()
        d.join()
