"""select, poll and epoll: they find what is ready, park in bounds, and leave nothing registered."""

from __future__ import annotations

import asyncio
import errno
import os
import select as standard
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

import dhaga
from dhaga import select, socket
from dhaga._kernel import hooks
from dhaga.testing import settle, virtual_clock
from tests.kit.selects import Waits, every_way, has_epoll, has_poll, pair


def fill(sock: Any) -> None:
    sock.setblocking(False)
    with suppress(BlockingIOError):
        while True:
            sock.send(bytes(1 << 16))
    sock.setblocking(True)


def drain(sock: Any) -> None:
    sock.setblocking(False)
    with suppress(BlockingIOError):
        while sock.recv(1 << 20):
            pass
    sock.setblocking(True)


def caught(call: Callable[..., Any], *args: Any) -> BaseException | None:
    """Return the error that a call raises."""
    try:
        call(*args)
    except BaseException as error:
        return error
    return None


# ---- readiness and timeouts


@every_way
def test_what_is_ready_is_found_at_once(waits: Waits) -> None:
    with virtual_clock() as clock, pair() as (one, other):
        other.send(b"x")
        for timeout in (None, 0, 5, 0.5):
            assert waits(one, timeout)
        assert clock() == 0


@every_way
def test_it_parks_until_something_comes(waits: Waits) -> None:
    with virtual_clock() as clock, pair() as (one, other):
        for timeout in (None, 100):
            d = dhaga.spawn(waits, one, timeout)
            dhaga.sleep(7)
            assert d.state == "WAITING"
            other.send(b"x")
            assert d.result(30) is True
            assert one.recv(10) == b"x"
        assert clock() == 14


@every_way
def test_it_returns_nothing_when_the_time_is_over(waits: Waits) -> None:
    with virtual_clock() as clock, pair() as (one, _):
        assert waits(one, 0) is False and clock() == 0
        assert waits(one, 3) is False and clock() == 3
        assert waits(one, 0.25) is False and clock() == pytest.approx(3.25)


@every_way
def test_others_run_meanwhile(waits: Waits) -> None:
    with pair() as (one, other):
        steps: list[int] = []

        def counts() -> None:
            for n in range(3):
                dhaga.sleep(0.001)
                steps.append(n)
            other.send(b"x")

        d = dhaga.spawn(counts)
        assert waits(one, 5) and steps == [0, 1, 2]
        d.join()


@every_way
def test_a_plain_thread_waits_for_real(waits: Waits) -> None:
    results: list[object] = []
    with pair() as (one, other):

        def thread_code() -> None:
            began = time.monotonic()
            results.append(waits(one, 0.05))
            results.append(time.monotonic() - began >= 0.04)
            other.send(b"x")
            results.append(waits(one, None))

        thread = threading.Thread(target=thread_code)
        thread.start()
        thread.join(30)
    assert results == [False, True, True]


@every_way
def test_a_coroutine_gets_park_error_only_where_it_would_have_to_wait(waits: Waits) -> None:
    async def main() -> None:
        with pair() as (one, other):
            assert waits(one, 0) is False
            with pytest.raises(dhaga.ParkError):
                waits(one, 1)
            other.send(b"x")
            assert waits(one, 1) is True

    asyncio.run(main())


@every_way
def test_the_end_of_the_stream_is_ready_for_reading(waits: Waits) -> None:
    with pair() as (one, other):
        d = dhaga.spawn(waits, one, 5)
        settle()
        other.close()
        assert d.result(30) is True


@every_way
def test_several_may_wait_for_one_fd(waits: Waits) -> None:
    with pair() as (one, other):
        dhagas = [dhaga.spawn(waits, one, 5) for _ in range(3)]
        settle()
        other.send(b"x")
        assert [d.result(30) for d in dhagas] == [True] * 3


def test_select_tells_reading_from_writing() -> None:
    with virtual_clock(), pair() as (one, other):
        assert select.select([one], [one], [one], 1) == ([], [one], [])
        fill(one)
        assert select.select([one], [one], [one], 1) == ([], [], [])
        d = dhaga.spawn(select.select, [one], [one], [])
        settle()
        assert "WAITING select fd" in repr(d)
        drain(other)
        assert d.result(30) == ([], [one], [])
        fill(one)
        d = dhaga.spawn(select.select, [one.fileno()], [one], [])
        settle()
        other.send(b"x")
        assert d.result(30) == ([one.fileno()], [], [])
        drain(other)


def test_select_tells_of_urgent_data() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        one = socket.create_connection(listener.getsockname())
        other, _ = listener.accept()
    with one, other:
        d = dhaga.spawn(select.select, [], [], [one], 5)
        settle()
        other.send(b"plain")
        settle()
        assert d.state == "WAITING"
        other.send(b"!", socket.MSG_OOB)
        assert d.result(30) == ([], [], [one])


def test_select_keeps_the_order_and_takes_any_iterable() -> None:
    with pair() as (one, other), pair() as (two, another):
        other.send(b"x")
        another.send(b"x")
        assert select.select(iter([two, one]), (), {}, 1) == ([two, one], [], [])
        assert select.select([one, one], [], [], 1)[0] == [one, one]


def test_select_of_nothing_sleeps() -> None:
    with virtual_clock() as clock:
        assert select.select([], [], [], 5) == ([], [], [])
        assert clock() == 5


@has_poll
def test_poll_reports_events_by_number_and_may_be_changed() -> None:
    with virtual_clock() as clock, pair() as (one, other):
        poll = select.poll()
        poll.register(one)
        assert poll.poll(0) == poll.poll() == [(one.fileno(), select.POLLOUT)]
        poll.modify(one, select.POLLIN)
        assert poll.poll(2500) == [] and clock() == 2.5
        d = dhaga.spawn(poll.poll)
        settle()
        assert "WAITING poll fd" in repr(d)
        with pytest.raises(RuntimeError, match="concurrent"):
            poll.poll(1)
        other.send(b"x")
        assert d.result(30) == [(one.fileno(), select.POLLIN)]
        poll.unregister(one)
        assert poll.poll(1000) == []
        assert repr(poll) == "<poll of 0 fds>"
        with pytest.raises(KeyError):
            poll.unregister(one)
        with pytest.raises(FileNotFoundError):
            poll.modify(one, select.POLLIN)


@has_poll
def test_poll_below_zero_waits_for_ever_and_rounds_up() -> None:
    with virtual_clock() as clock, pair() as (one, other):
        poll = select.poll()
        poll.register(one, select.POLLIN)
        d = dhaga.spawn(poll.poll, -1)
        dhaga.sleep(1000)
        other.send(b"x")
        assert d.result(30)
        assert one.recv(1) == b"x"
        began = clock()
        assert poll.poll(0.5) == [] and clock() - began == pytest.approx(0.001)


@has_poll
def test_poll_reports_a_hang_up_to_one_who_asked_for_nothing() -> None:
    with pair() as (one, other):
        poll = select.poll()
        poll.register(one, 0)
        d = dhaga.spawn(poll.poll, 5000)
        settle()
        other.send(b"not asked for")
        settle()
        assert d.state == "WAITING"
        other.close()
        assert d.result(30) == [(one.fileno(), select.POLLHUP)]


@has_epoll
def test_epoll_reports_events_by_number_and_may_be_changed() -> None:
    with virtual_clock() as clock, pair() as (one, other), select.epoll() as epoll:
        epoll.register(one, select.EPOLLIN)
        with pytest.raises(FileExistsError):
            epoll.register(one, select.EPOLLIN)
        assert epoll.poll(2.5) == [] and clock() == 2.5
        epoll.modify(one, select.EPOLLIN | select.EPOLLOUT)
        assert epoll.poll() == [(one.fileno(), select.EPOLLOUT)]
        epoll.modify(one, select.EPOLLIN)
        d = dhaga.spawn(epoll.poll, -1)
        settle()
        assert f"WAITING read fd {epoll.fileno()}" in repr(d)
        other.send(b"x")
        assert d.result(30) == [(one.fileno(), select.EPOLLIN)]
        epoll.unregister(one)
        with pytest.raises(FileNotFoundError):
            epoll.unregister(one)
        assert epoll.poll(1) == []


@has_epoll
def test_epoll_sees_what_is_registered_while_it_is_polled() -> None:
    with pair() as (one, other), select.epoll() as epoll:
        other.send(b"x")
        d = dhaga.spawn(epoll.poll, 5)
        settle()
        epoll.register(one, select.EPOLLIN)
        assert d.result(30) == [(one.fileno(), select.EPOLLIN)]


@has_epoll
def test_epoll_takes_at_most_so_many_events() -> None:
    with pair() as (one, other), select.epoll() as epoll:
        epoll.register(one, select.EPOLLOUT)
        epoll.register(other, select.EPOLLOUT)
        assert len(epoll.poll(1, 1)) == 1 and len(epoll.poll(1)) == 2


@has_epoll
@pytest.mark.parametrize("foreign", [False, True])
def test_closing_an_epoll_wakes_whoever_waits_on_it(foreign: bool) -> None:
    epoll = select.epoll()
    with dhaga.Scheduler() as scheduler:
        d = scheduler.spawn(caught, epoll.poll) if foreign else dhaga.spawn(caught, epoll.poll)
        deadline = time.monotonic() + 30
        while d.state != "WAITING" and time.monotonic() < deadline:
            dhaga.sleep(0.001)
        epoll.close()
        error = d.result(30)
    assert isinstance(error, OSError) and error.errno == errno.EBADF
    assert epoll.closed and repr(epoll) == "<epoll closed>"
    epoll.close()
    for use in (epoll.fileno, epoll.poll, lambda: epoll.register(0)):
        with pytest.raises(ValueError):
            use()


@has_epoll
def test_an_epoll_is_made_over_a_number() -> None:
    with pair() as (one, other), select.epoll() as epoll:
        twin = select.epoll.fromfd(os.dup(epoll.fileno()))
        with twin:
            twin.register(one, select.EPOLLIN)
            other.send(b"x")
            assert epoll.poll(1) == [(one.fileno(), select.EPOLLIN)]


# ---- errors


@pytest.mark.parametrize(
    ("args", "error"),
    [
        (([], [], [], "1"), TypeError),
        (([], [], [], -1), ValueError),
        (([], [], [], float("nan")), ValueError),
        (([], [], [], 1e300), OverflowError),
        ((None, [], [], 0), TypeError),
        ((["x"], [], [], 0), TypeError),
        (([-1], [], [], 0), ValueError),
        (([1 << 40], [], [], 0), OverflowError),
        (([], []), TypeError),
    ],
)
def test_select_refuses_what_the_standard_refuses(args: Any, error: type[BaseException]) -> None:
    for one in (standard, select):
        with pytest.raises(error):
            one.select(*args)


LONG_POLLS = [(2**31, OverflowError)] if sys.version_info < (3, 15) else []  # which waits that long


@has_poll
@pytest.mark.parametrize(
    ("timeout", "error"),
    [("1", TypeError), (float("nan"), ValueError), (1e300, OverflowError), *LONG_POLLS],
)
def test_poll_refuses_what_the_standard_refuses(timeout: Any, error: type[BaseException]) -> None:
    for one in (standard, select):
        with pytest.raises(error):
            one.poll().poll(timeout)
        with pytest.raises((TypeError, ValueError)):
            one.poll().register("x")
        with pytest.raises((TypeError, ValueError)):
            one.poll().register(-1)


@has_epoll
@pytest.mark.parametrize(
    ("timeout", "error"),
    [("1", TypeError), (float("nan"), ValueError), (1e300, OverflowError), (2**31, OverflowError)],
)
def test_epoll_refuses_what_the_standard_refuses(timeout: Any, error: type[BaseException]) -> None:
    for one in (standard, select):
        with one.epoll() as epoll:
            with pytest.raises(error):
                epoll.poll(timeout)
            with pytest.raises(ValueError):
                epoll.poll(0, 0)


def test_a_closed_fd_is_an_error_to_select_and_an_event_to_poll() -> None:
    one, other = socket.socketpair()
    number = one.fileno()
    one.close()
    other.close()
    with pytest.raises(OSError) as info:
        select.select([number], [], [], 1)
    assert info.value.errno == errno.EBADF
    with pytest.raises(ValueError):
        select.select([one], [], [], 1)
    if hasattr(select, "poll"):
        poll = select.poll()
        poll.register(number)
        assert poll.poll(1000) == [(number, select.POLLNVAL)]


@pytest.mark.parametrize("foreign", [False, True])
def test_a_socket_that_is_closed_meanwhile_wakes_a_select(foreign: bool) -> None:
    with pair() as (one, _):
        d = dhaga.spawn(caught, select.select, [one], [], [])
        settle()
        assert d.state == "WAITING"
        if foreign:
            thread = threading.Thread(target=one.close)
            thread.start()
            thread.join(30)
        else:
            one.close()
        assert isinstance(d.result(30), (OSError, ValueError))
        settle()  # another thread leaves it to the loop to take a duplicate off
    assert not hooks.before_fd_close


@has_poll
def test_a_socket_that_is_closed_meanwhile_wakes_a_poll() -> None:
    with pair() as (one, _):
        number = one.fileno()
        poll = select.poll()
        poll.register(one, select.POLLIN)
        d = dhaga.spawn(poll.poll)
        settle()
        one.close()
        assert d.result(30) == [(number, select.POLLNVAL)]
