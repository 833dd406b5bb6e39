"""What the tests of HTTPClient ask: Tornado's own server, and sockets that say nothing."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from importlib.util import find_spec

import pytest
from tornado.httpclient import AsyncHTTPClient

from dhaga.http import HTTPClient, Session
from tests.http.served import Server, Silent
from tests.http.site import Site

KINDS = {
    "simple": "tornado.simple_httpclient.SimpleAsyncHTTPClient",
    "curl": "tornado.curl_httpclient.CurlAsyncHTTPClient",
}


@pytest.fixture
def server() -> Iterator[Server]:
    access = logging.getLogger("tornado.access")
    access.disabled = True
    server = Server()
    yield server
    server.run(server.close)
    server.scheduler.stop()
    access.disabled = False


@pytest.fixture
def silent() -> Iterator[Silent]:
    with Silent() as silent:
        yield silent


@pytest.fixture
def client() -> Iterator[HTTPClient]:
    with HTTPClient(max_clients=250) as client:  # curl makes a handle for each
        yield client


@pytest.fixture(params=["simple", pytest.param("curl", marks=pytest.mark.once)])
def kind(request: pytest.FixtureRequest) -> Iterator[str]:
    """Have HTTPClient work with one and the other of Tornado's clients."""
    if request.param == "curl" and find_spec("pycurl") is None:
        pytest.skip("pycurl is not installed")
    AsyncHTTPClient.configure(KINDS[request.param])
    yield request.param
    AsyncHTTPClient.configure(None)


# ---- sessions


@pytest.fixture
def session() -> Iterator[Session]:
    with Session() as session:
        yield session


@pytest.fixture
def site() -> Iterator[Site]:
    with Site() as site:
        yield site
