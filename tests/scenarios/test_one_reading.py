"""One reading of requests in every server that we ship: what one refuses, all refuse, and no bytes are read twice."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from dhaga import socket
from dhaga.compat import eventlet
from dhaga.compat.eventlet import wsgi
from dhaga.compat.gevent.pywsgi import WSGIHandler, WSGIServer
from dhaga.http.limits import Limits
from dhaga.http.wsgi import Server
from tests.http.framings import LEGAL, REFUSED, SMUGGLED, fuzzed, telling, understood
from tests.http.wire import parse

SEEDS = range(1500)

PEERS: dict[str, dict[str, Any]] = json.loads((Path(__file__).parents[1] / "http/peer_framings.json").read_text())
"""Numbers of requests that gevent and eventlet understood of each framing, recorded by tests/http/peer_framings.py."""

TAKEN = {
    "an empty line before the request line": "RFC 9112, 2.2: a server should ignore one",
    "leading zeros of a chunk size": "RFC 9112, 7.1: any number of digits; gevent takes 16",
    "a body at an upgrade": "RFC 9110, 7.8: a server may ignore Upgrade; gevent reads to the end of the connection",
    "chunks at an upgrade": "as before",
    "an upgrade that the app does not make": "as before",
}
"""Framings that we serve, and gevent or eventlet does not."""

EMPTY_LINE = {
    *(30, 136, 167, 205, 344, 352, 437, 561, 668, 763, 819),
    *(841, 916, 927, 1180, 1183, 1333, 1371, 1381, 1440, 1487),
}
"""Seeds that put an empty line before a request line: neither gevent nor eventlet ignores it."""

RESET_BYTES = 16_384
"""A refused client that has sent more bytes may be reset before it has read the answer, as by the originals."""


class Handler(WSGIHandler):
    """A handler class of the program's own: it has gevent's public face, not the C parser's connection."""


class Protocol(wsgi.HttpProtocol):
    """The same for eventlet."""


@contextmanager
def serve() -> Iterator[Any]:
    with Server(telling) as server:
        yield server.address


@contextmanager
def pywsgi(handler: type[WSGIHandler] = WSGIHandler) -> Iterator[Any]:
    server = WSGIServer(("127.0.0.1", 0), telling, log=None, error_log=None, handler_class=handler)
    server.start()
    try:
        yield server.address
    finally:
        server.stop()


@contextmanager
def eventlet_wsgi(protocol: type[wsgi.HttpProtocol] = wsgi.HttpProtocol) -> Iterator[Any]:
    listener = eventlet.listen(("127.0.0.1", 0))
    server = eventlet.spawn(wsgi.server, listener, telling, log_output=False, protocol=protocol)
    try:
        yield listener.getsockname()
    finally:
        server.kill()
        with pytest.raises(eventlet.greenthread.GreenletExit):
            server.wait()


SERVERS = {
    "serve": serve,
    "gevent.pywsgi": pywsgi,
    "gevent.pywsgi, a subclass": lambda: pywsgi(Handler),
    "eventlet.wsgi": eventlet_wsgi,
    "eventlet.wsgi, a subclass": lambda: eventlet_wsgi(Protocol),
}

NEED_HOST = "serve", "gevent.pywsgi"
"""Servers that answer by the C parser's connection. Handlers serve HTTP/1.1 without Host, as their originals do."""


@pytest.fixture(params=SERVERS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def refused_wrongly(address: Any, exempt: set[str]) -> dict[str, Any]:
    """Return the framings that were not refused with a status that blames the client, and their outcomes."""
    wrong = {}
    for case, (data, status) in REFUSED.items():
        if status == 413 or case in exempt:  # a limit that the other servers do not have
            continue
        found, answer = understood(socket.create_connection, address, data + SMUGGLED)
        blamed = answer[:1] == "4" or answer in ("501", "505") or (not answer and len(data) > RESET_BYTES)
        if found or not blamed:
            wrong[case] = found, answer
    return wrong


def test_what_two_programs_may_read_differently_is_refused(name: str) -> None:
    with SERVERS[name]() as address:
        assert refused_wrongly(address, set() if name in NEED_HOST else {"no Host"}) == {}


def test_what_is_legal_is_served_and_so_is_what_follows(name: str) -> None:
    wrong = {}
    with SERVERS[name]() as address:
        for case, (data, text) in LEGAL.items():
            found = understood(socket.create_connection, address, data + SMUGGLED)
            if found != ([(found[0][0][0], "/", text), ("GET", "/smuggled", "")], ""):
                wrong[case] = found
    assert wrong == {}


def test_faults_put_anywhere_are_read_as_the_parser_reads_them(name: str) -> None:
    wrong = {}
    with SERVERS[name]() as address:
        for seed in SEEDS:
            data = fuzzed(seed)
            found, status = understood(socket.create_connection, address, data)
            requests, refusal = parse([data], Limits(), host_required=name in NEED_HOST)
            expected = [(method, path, body.decode("latin-1")) for method, path, body in requests]
            if found != expected or bool(status) is not bool(refusal):
                wrong[seed] = data, (found, status), (expected, refusal)
    assert wrong == {}


@pytest.mark.parametrize("peer", PEERS)
def test_no_more_is_understood_than_by_gevent_and_eventlet(peer: str) -> None:
    def count(data: bytes) -> int:
        return len(parse([data], Limits(), host_required=False)[0])

    framings = {case: data + SMUGGLED for case, (data, _) in (*REFUSED.items(), *LEGAL.items())}
    named = PEERS[peer]["requests understood"]
    seeded = PEERS[peer]["requests understood, by seed"]
    assert named.keys() == framings.keys() and len(seeded) == len(SEEDS)
    assert {case for case, data in framings.items() if count(data) > named[case]} <= TAKEN.keys()
    assert {seed for seed in SEEDS if count(fuzzed(seed)) > int(seeded[seed])} <= EMPTY_LINE
