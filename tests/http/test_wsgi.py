"""Server against PEP 3333 and RFC 9112: environs, several requests on a connection, upgrades, logs."""

from __future__ import annotations

from typing import Any
from wsgiref.validate import validator

import pytest

import dhaga
from dhaga.http.limits import Limits
from dhaga.http.wsgi import Server
from tests.http.wire import (
    TEXT,
    Start,
    answer,
    answers,
    ask,
    chunked,
    get,
    hello,
    post,
    returning,
    serving,
)


def test_bad_options_are_refused_at_once() -> None:
    with pytest.raises(TypeError, match="WSGI app"):
        Server(None)
    with pytest.raises(TypeError, match="access log"):
        Server(hello, access_log=3)
    with pytest.raises(ValueError, match="idle_timeout"):
        Limits(idle_timeout=0)
    with pytest.raises(ValueError, match="head must be a number"):
        Limits(head=None)


def test_two_servers_in_two_os_threads_serve_at_once() -> None:
    servers = [Server(hello), Server(hello)]
    with dhaga.Scheduler("one") as one, dhaga.Scheduler("other") as other:
        for scheduler, server in zip((one, other), servers, strict=True):
            scheduler.spawn(server.start).result()
        asked = [dhaga.spawn(ask, server, get() * 20) for server in servers * 3]
        assert [len(answers(each.result())) for each in asked] == [20] * 6
        for server in servers:
            server.stop(1)


@pytest.mark.filterwarnings("ignore::wsgiref.validate.WSGIWarning")
def test_the_validator_of_the_standard_library_has_nothing_to_say() -> None:
    def app(environ: dict[str, Any], start_response: Start) -> Any:
        data = environ["wsgi.input"].read(10)
        more = [*environ["wsgi.input"].readlines(), environ["wsgi.input"].readline()]
        environ["wsgi.errors"].write("")
        start_response("200 OK", list(TEXT))
        return iter([data, *more])

    with serving(validator(app)) as server:
        sent = get() + get("*", method="OPTIONS") + post(b"x" * 20 + b"\ny") + chunked(b"abc") + get(method="HEAD")
        found = ask(server, sent)
    assert found.count(b"HTTP/1.1 200 OK") == 5 and b"AssertionError" not in found


def test_tabs_and_latin_1_are_sent_as_they_are() -> None:
    assert answer(returning([b""], ("X-A", "a\tä"))).fields["x-a"] == "a\tä"
