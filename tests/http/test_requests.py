"""Session: what it adds to requests, against sites on dhagas. Requests' own tests of the rest: ``requests_suite``."""

from __future__ import annotations

import asyncio
import importlib
import os
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest
import requests as standard
import urllib3
from requests.adapters import HTTPAdapter
from urllib3.util import Retry

import dhaga
from dhaga import socket
from dhaga.http import Session, requests
from dhaga.http._client import urllib3_pools
from dhaga.testing import settle, virtual_clock
from dhaga.threading import Event
from tests.http.site import Gathering, Request, Site, answer
from tests.kit.parking import parked
from tests.kit.sessions import Trickling, failing, get_all, socket_of

# ---- connections


def test_far_more_than_ten_are_on_their_way_at_once_in_one_thread(session: Session) -> None:
    with Site({"/": Gathering(200)}) as site:
        before = set(threading.enumerate())
        assert {response.text for response in get_all(session, site.url(), 200)} == {"all"}
        assert not set(threading.enumerate()) - before  # idle helpers of other tests may have ended


def test_a_connection_is_used_again(site: Site, session: Session) -> None:
    assert [session.get(site.url(path)).text for path in ("/1", "/2", "/3")] == ["/1", "/2", "/3"]
    assert site.connections == 1


def test_all_connections_that_were_in_use_at_once_are_kept(site: Site, session: Session) -> None:
    for _ in range(3):
        site.pages["/"] = Gathering(30)
        get_all(session, site.url(), 30)
    assert site.connections == 30  # and no warning that one was thrown away: nothing_left looks at the log


def test_connections_that_are_needed_no_more_are_closed(
    site: Site, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.pages["/"] = Gathering(30)
    get_all(session, site.url(), 30)
    monkeypatch.setattr(urllib3_pools, "IDLE_SECONDS", 0)
    session.get(site.url("/later"))
    settle()
    assert (site.connections, len(site.server.connections)) == (31, 1)


def test_a_connection_that_the_server_has_closed_is_not_used_again(site: Site, session: Session) -> None:
    site.pages["/last"] = lambda request: answer(b"bye", Connection="close")
    for _ in range(2):
        assert session.get(site.url("/last")).text == "bye"
    dropped = [session.get(site.url(), headers={"Connection": "keep-alive"}) for _ in range(2)]
    assert [response.status_code for response in dropped] == [200, 200]


def test_the_socket_is_ours(site: Site, session: Session) -> None:
    with session.get(site.url(), stream=True) as response:
        assert type(socket_of(response)) is socket.socket


def test_others_run_between_the_pieces_of_a_stream(session: Session) -> None:
    turn = Event()
    served = []

    def pieces(request: Request) -> None:
        served[0].sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\none")
        turn.wait()
        served[0].sendall(b"two")

    class Pieces(Site):
        def reply(self, sock: Any, request: Request) -> None:
            served.append(sock)
            pieces(request)

    with Pieces() as site, session.get(site.url(), stream=True) as response:
        body = response.iter_content(3)
        assert next(body) == b"one"
        dhaga.spawn(turn.set)
        assert list(body) == [b"two"]


def test_a_response_closed_half_read_takes_its_connection_with_it(site: Site, session: Session) -> None:
    site.pages["/long"] = lambda request: answer(bytes(1 << 22))
    with session.get(site.url("/long"), stream=True) as response:
        assert response.raw.read(10) == bytes(10)
    assert session.get(site.url("/next")).text == "/next"
    assert site.connections == 2


def test_bodies_of_every_kind_arrive(site: Site, session: Session) -> None:
    data = os.urandom(1 << 20)
    assert session.post(site.url(), data=data).content == data
    assert session.post(site.url(), data=iter([data[:1000], data[1000:]])).content == data


def test_cookies_are_kept(site: Site, session: Session) -> None:
    site.pages["/set"] = lambda request: answer(Set_Cookie="name=value")
    session.get(site.url("/set"))
    session.get(site.url())
    assert site.requests[-1].headers["Cookie"] == "name=value"


# ---- what goes wrong


def test_nobody_listening_is_a_connection_error(session: Session) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
    with pytest.raises(standard.ConnectionError, match="Connection refused"):
        session.get(url)


def test_an_unknown_host_is_a_connection_error(session: Session) -> None:
    with pytest.raises(standard.ConnectionError) as caught:
        session.get("http://nowhere.invalid/")
    assert isinstance(caught.value.args[0].reason, urllib3.exceptions.NameResolutionError)


def test_a_silent_server_is_a_read_timeout(session: Session) -> None:
    with virtual_clock() as clock, Site({"/": lambda request: dhaga.sleep(60)}) as site:
        with pytest.raises(standard.ReadTimeout):
            session.get(site.url(), timeout=5)
        assert clock() == 5


def test_a_full_backlog_is_a_connect_timeout(session: Session) -> None:
    with virtual_clock() as clock, socket.create_server(("127.0.0.1", 0), backlog=0) as listener:
        address = listener.getsockname()
        with socket.create_connection(address), pytest.raises(standard.ConnectTimeout):
            session.get(f"http://127.0.0.1:{address[1]}/", timeout=(5, 60))
        assert clock() == 5


def test_a_timeout_block_bounds_what_the_timeout_of_requests_does_not(session: Session) -> None:
    with virtual_clock() as clock, Trickling() as site, session:
        with pytest.raises(TimeoutError), dhaga.Timeout(5):
            session.get(site.url(), timeout=3)
        assert clock() == 5
        assert session.get(site.url(), timeout=3).text == "x" * 10


def test_in_a_coroutine_it_is_refused_before_anything_is_sent(site: Site, session: Session) -> None:
    async def main() -> None:
        with pytest.raises(dhaga.ParkError, match="run_in_dhaga"):
            session.get(site.url())

    asyncio.run(main())
    settle()
    assert site.connections == 0


def test_close_lets_what_is_on_its_way_finish(session: Session) -> None:
    go = Event()
    with Site({"/": lambda request: go.wait() and answer(b"done")}) as site:
        asking = parked(session.get, site.url())
        session.close()
        go.set()
        assert asking.result().text == "done"


# ---- retries


class Hasty(Retry):
    """Retries of somebody else, with pauses of its own."""

    def get_backoff_time(self) -> float:
        return super().get_backoff_time() / 10


RETRIES = [
    (Retry(3, status_forcelist=[503], backoff_factor=10), {}, 60),
    (Retry(3, status_forcelist=[503]), {"Retry_After": "7"}, 21),
    (Hasty(3, status_forcelist=[503], backoff_factor=10), {}, 6),
]


@pytest.mark.parametrize(("retries", "headers", "seconds"), RETRIES, ids=["backoff", "Retry-After", "own kind"])
def test_retries_pause_by_parking(session: Session, retries: Retry, headers: Any, seconds: float) -> None:
    session.mount("http://", HTTPAdapter(max_retries=retries))
    with virtual_clock() as clock, Site({"/": failing(3, **headers)}) as site, session:
        ticks = dhaga.spawn(lambda: [dhaga.sleep(1) for _ in range(5)])
        assert session.get(site.url()).text == "at last"
        assert (clock(), ticks.is_alive()) == (seconds, False)


# ---- the module


def test_the_short_ways_open_and_close_a_connection_each(site: Site) -> None:
    ways: list[Callable[..., Any]] = [
        *(requests.get, requests.options, requests.head, requests.post, requests.put, requests.patch, requests.delete)
    ]
    for way in ways:
        assert way(site.url("/page")).text == ("" if way is requests.head else "/page")
    assert [request.method for request in site.requests] == [way.__name__.upper() for way in ways]
    assert site.connections == len(ways)


def test_all_else_is_of_requests() -> None:
    assert requests.codes is standard.codes and requests.Response is standard.Response
    assert set(dir(standard)) <= set(dir(requests))


def test_submodules_are_imported_from_requests_alone() -> None:
    with pytest.raises(ModuleNotFoundError, match="is not a package"):
        importlib.import_module("dhaga.http.requests.exceptions")
    assert requests.exceptions is standard.exceptions


def test_without_requests_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "dhaga.http.requests")
    monkeypatch.delattr(dhaga.http, "requests")
    monkeypatch.setitem(sys.modules, "requests", None)
    with pytest.raises(ImportError, match=r"pip install 'dhaga\[requests\]'"):
        from dhaga.http import Session  # noqa: F401
