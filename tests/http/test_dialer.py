"""What a fetch connects: addresses that lead nowhere are left for the next one, and nothing is left open."""

from __future__ import annotations

import asyncio
import datetime
import socket
import ssl
import time
from typing import Any

import pytest
from tornado.iostream import IOStream, StreamClosedError
from tornado.netutil import Resolver

import dhaga
from dhaga.http._client import dialer
from dhaga.http._client.dialer import DialAttempt, Dialer, DialerResolver, interleave_families, on_dial
from dhaga.testing import open_fds, settle
from tests.http.served import Server, Silent
from tests.kit.socket_cases import eventually

FOUR, SIX = socket.AF_INET, socket.AF_INET6


@pytest.fixture(autouse=True)
def scheduler() -> None:
    """Have the main code's scheduler open its fds before any are counted."""
    settle()


class Fixed(Resolver):
    """Finds always the same addresses."""

    def initialize(self, *addresses: Any) -> None:
        self.addresses = addresses

    async def resolve(self, *_: Any) -> list[tuple[int, Any]]:
        return list(self.addresses)


def connect(*addresses: Any, **options: Any) -> IOStream:
    async def main() -> IOStream:
        on_dial.set(bool)
        return await Dialer(Fixed(*addresses)).connect("a.example", 80, **options)

    return dhaga.await_(main())


def refused() -> tuple[int, Any]:
    with Silent() as silent:
        return FOUR, silent.address


def test_the_families_take_turns_the_first_ones_first() -> None:
    addresses = [(SIX, "a"), (SIX, "b"), (FOUR, "c"), (SIX, "d")]
    assert interleave_families(addresses) == [(SIX, "a"), (FOUR, "c"), (SIX, "b"), (SIX, "d")]
    assert interleave_families([]) == []


def test_the_next_address_is_tried_when_one_refuses(silent: Silent) -> None:
    before = open_fds()
    stream = connect(refused(), refused(), (FOUR, silent.address))
    assert stream.socket.getpeername() == silent.address
    stream.close()
    assert open_fds() <= before


def test_the_next_address_is_tried_beside_one_that_is_silent(silent: Silent, monkeypatch: Any) -> None:
    monkeypatch.setattr(dialer, "STAGGER", 0.01)
    with Silent(backlog=0).fill() as full:
        before = open_fds()
        stream = connect((FOUR, full.address), (FOUR, silent.address), (FOUR, full.address))
        assert stream.socket.getpeername() == silent.address
        stream.close()
        assert open_fds() <= before


def test_a_family_that_there_is_not_is_passed_over(silent: Silent) -> None:
    connect((9999, ("x", 1)), (FOUR, silent.address)).close()


def test_the_last_failure_is_raised_when_all_have_failed() -> None:
    with pytest.raises(StreamClosedError) as caught:
        connect(refused(), refused())
    assert isinstance(caught.value.real_error, ConnectionRefusedError)
    with pytest.raises(OSError, match=r"a\.example has no address"):
        connect()


def test_the_source_can_be_chosen(silent: Silent) -> None:
    stream = connect((FOUR, silent.address), source_ip="127.0.0.2")
    assert stream.socket.getsockname()[0] == "127.0.0.2"
    stream.close()
    before = open_fds()
    with pytest.raises(OSError):
        connect((FOUR, silent.address), source_ip="192.0.2.1")
    assert open_fds() <= before


@pytest.mark.parametrize("timeout", [0.02, datetime.timedelta(milliseconds=20)])
def test_a_timeout_says_where_it_was(timeout: Any) -> None:
    with Silent(backlog=0).fill() as full, pytest.raises(TimeoutError, match=r"while connecting to a\.example port 80"):
        connect((FOUR, full.address), timeout=timeout)


def test_what_is_stopped_before_it_begins_connects_nothing(silent: Silent) -> None:
    def stop(dial: DialAttempt) -> None:
        dial.stop(ZeroDivisionError())

    async def main() -> None:
        on_dial.set(stop)
        await Dialer(Fixed((FOUR, silent.address))).connect("a.example", 80)

    with pytest.raises(ZeroDivisionError):
        dhaga.await_(main())


@pytest.mark.parametrize("tls", [False, True])
def test_what_is_stopped_at_any_turn_of_the_loop_is_closed(server: Server, tls: bool) -> None:
    before = open_fds()
    port, context = (server.tls_port, unverified()) if tls else (server.port, None)
    ends: list[str] = []
    for turns in range(500):  # a busy server needs many turns
        ends.append(dhaga.await_(stopped_after(turns, (FOUR, ("127.0.0.1", port)), context)))
        if turns >= 25 and ends[-1] == "connected":
            break
    assert set(ends) == {"stopped", "connected"}
    eventually(lambda: open_fds() <= before)  # those of the server are also here


def unverified() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


async def stopped_after(turns: int, address: Any, context: Any) -> str:
    dials: list[DialAttempt] = []
    on_dial.set(dials.append)
    connecting = asyncio.ensure_future(Dialer(Fixed(address)).connect("a.example", 80, ssl_options=context))
    await asyncio.sleep(0)
    for _ in range(turns):
        time.sleep(0.0005)  # the server is in another thread
        await asyncio.sleep(0)
    dials[0].stop(StreamClosedError())
    try:
        assert (await connecting).closed()
    except StreamClosedError:
        return "stopped"
    return "connected"


def test_numbers_are_looked_up_at_once() -> None:
    query = DialerResolver().resolve("127.0.0.1", 80)
    with pytest.raises(StopIteration) as done:
        query.send(None)
    assert done.value.value == [(FOUR, ("127.0.0.1", 80))]
