"""``eventlet.wsgi.server``, ``eventlet.serve`` and the convenience around them, with real clients."""

from __future__ import annotations

import errno
import io
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from typing import Any

import pytest

from dhaga.compat import eventlet
from dhaga.compat.eventlet import tpool, wsgi


def app(environ: dict[str, Any], start_response: Any) -> list[bytes]:
    if environ["PATH_INFO"] == "/fails":
        raise KeyError("the app's own")
    assert environ["eventlet.input"].get_socket().getsockname()[1] == int(environ["SERVER_PORT"])
    body = environ["eventlet.input"].read()
    start_response("200 OK", [("x-own-header", environ.get("of.mine", "-")), ("content-length", str(len(body)))])
    environ["eventlet.posthooks"].append((lambda environ, word: words.append(word), ("after",), {}))
    return [body]


words: list[str] = []


@contextmanager
def serving(site: Any = app, **options: Any) -> Iterator[tuple[str, int]]:
    listener = eventlet.listen(("127.0.0.1", 0))
    server = eventlet.spawn(wsgi.server, listener, site, **options)
    try:
        yield listener.getsockname()
    finally:
        server.kill()
        with pytest.raises(eventlet.greenthread.GreenletExit):
            server.wait()


def ask(address: tuple[str, int], path: str = "/", body: bytes = b"", **headers: str) -> tuple[int, Any, bytes]:
    def call() -> tuple[int, Any, bytes]:
        connection = HTTPConnection(*address, timeout=30)
        try:
            connection.request("POST", path, body, headers)
            response = connection.getresponse()
            return response.status, response.headers, response.read()
        finally:
            connection.close()

    return tpool.execute(call)


@pytest.fixture(autouse=True)
def no_threads_left() -> Iterator[None]:
    yield
    tpool.killall()


def test_it_serves_an_app_and_logs_as_eventlet_does() -> None:
    log = io.StringIO()
    words.clear()
    with serving(log=log, environ={"of.mine": "yes"}) as address:
        status, headers, body = ask(address, "/page?x=1", b"hello", **{"X-Forwarded-For": "1.2.3.4"})
    assert (status, body, headers["X-Own-Header"]) == (200, b"hello", "yes")
    assert "X-Own-Header" in headers.keys() and words == ["after"]  # noqa: SIM118
    text = log.getvalue()
    assert f"wsgi starting up on http://127.0.0.1:{address[1]}" in text and ") accepted (" in text
    assert "1.2.3.4,127.0.0.1 - - [" in text and "wsgi exited" in text
    assert re.search(r'"POST /page\?x=1 HTTP/1\.1" 200 5 \d+\.\d', text)


@pytest.mark.parametrize("number", [errno.ECONNRESET, errno.EPIPE, errno.ECONNABORTED, errno.EMFILE])
def test_it_goes_on_accepting_after_a_lost_connection_and_a_shortage(
    number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    errors = [number, number]
    accept = wsgi.accept_in_burst

    def failing(listener: Any) -> Any:
        if errors:
            raise OSError(errors.pop(), "of accept")
        return accept(listener)

    monkeypatch.setattr(wsgi, "accept_in_burst", failing)
    with serving(log_output=False) as address:
        assert ask(address, body=b"hello")[2] == b"hello" and not errors


@pytest.mark.parametrize("debug", [True, False])
@pytest.mark.logs
def test_the_error_of_an_app_is_shown_with_debug_alone(debug: bool) -> None:
    with serving(log=io.StringIO(), debug=debug) as address:
        status, _, body = ask(address, "/fails")
    assert status == 500 and (b'KeyError: "the app\'s own"' in body) is debug


def test_an_app_may_end_the_connection_by_a_field() -> None:
    def site(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        start_response("200 OK", [("connection", "close"), ("Content-Length", "2")])
        return [b"ok"]

    with serving(site, log=io.StringIO()) as address:
        _, headers, body = ask(address)
    assert (headers.get_all("Connection"), body) == (["close"], b"ok")


def test_without_keepalive_each_request_has_its_connection(caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("of the test")
    caplog.set_level(logging.INFO, logger.name)
    with serving(log=logger, keepalive=False, log_output=False, capitalize_response_headers=False) as address:
        _, headers, _ = ask(address)
    assert headers["Connection"] == "close" and "x-own-header" in headers.keys()  # noqa: SIM118
    assert not caplog.text


def test_connections_are_of_the_pool_that_is_given() -> None:
    pool = eventlet.GreenPool(1)
    seen: list[int] = []

    def site(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        seen.append(pool.running())
        return app(environ, start_response)

    with serving(site, log=io.StringIO(), custom_pool=pool, socket_timeout=30, keepalive=5) as address:
        assert [ask(address)[0] for _ in range(2)] == [200, 200]
    assert seen == [1, 1] and pool.running() == 0


def test_what_cannot_be_had_says_so() -> None:
    listener = eventlet.listen(("127.0.0.1", 0))
    with pytest.raises(AttributeError, match="waitall"):
        wsgi.server(listener, app, custom_pool=object())
    listener.close()
