"""gevent's WSGIServer, with real clients."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from dhaga import socket
from dhaga.compat import gevent
from dhaga.compat.gevent.pool import Pool
from dhaga.compat.gevent.pywsgi import LoggingLogAdapter, SecureEnviron, WSGIHandler, WSGIServer

SECONDS = 20

pytestmark = pytest.mark.usefixtures("all_end")


def app(environ: dict[str, Any], start_response: Any) -> list[bytes]:
    gevent.sleep(0)
    print("seen", environ["PATH_INFO"], file=environ["wsgi.errors"])
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [f"{environ['PATH_INFO']} {environ.get('my.key')}".encode()]


def get(server: WSGIServer, path: str) -> bytes:
    with socket.create_connection(server.address, timeout=SECONDS) as client:
        client.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
        received = b""
        while data := client.recv(4096):
            received += data
    return received


def test_it_serves_and_logs_and_gives_its_environ() -> None:
    log, errors = io.StringIO(), io.StringIO()
    server = WSGIServer(
        ("127.0.0.1", 0),
        app,
        log=log,
        error_log=errors,
        environ={"my.key": "mine"},
        spawn=Pool(5),
        handler_class=WSGIHandler,
    )
    server.start()
    asking = [gevent.spawn(get, server, f"/{number}") for number in range(5)]
    for number, each in enumerate(asking):
        head, _, body = each.get(timeout=SECONDS).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 OK") and body.endswith(b"/%d mine" % number)
    server.stop()
    assert log.getvalue().count('HTTP/1.1" 200') == 5
    assert "seen /3" in errors.getvalue()


@pytest.mark.long("a stop gives connections their time")
def test_a_stop_ends_connections_that_wait_for_a_request() -> None:
    server = WSGIServer("127.0.0.1:0", app, log=None, error_log=None, spawn=2)
    for _ in range(2):  # it may start again
        server.start()
        with socket.create_connection(server.address, timeout=SECONDS) as client:
            client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert client.recv(4096)
            server.stop(timeout=SECONDS)
            assert client.recv(4096) == b""


class Handler(WSGIHandler):
    """Makes a WSGIServer call handlers."""


@pytest.mark.logs
@pytest.mark.parametrize("handler", [WSGIHandler, Handler])
@pytest.mark.parametrize("error", [gevent.Timeout, gevent.GreenletExit])
def test_an_app_that_ends_with_a_timeout_or_a_kill_is_answered_and_logged(handler: Any, error: Any) -> None:
    def fail(*_: object) -> Any:
        raise error()

    def fail_late(_: object, start_response: Any) -> Iterator[bytes]:
        start_response("200 OK", [])
        yield b""
        raise error()

    log = io.StringIO()
    for failing in (fail, fail_late):
        server = WSGIServer(("127.0.0.1", 0), failing, log=log, error_log=None, handler_class=handler)
        server.start()
        try:
            assert get(server, "/").startswith(b"HTTP/1.1 500 ")
        finally:
            server.stop()
    assert log.getvalue().count('HTTP/1.1" 500') == 2


def test_an_error_of_the_app_goes_to_the_hub_and_is_a_500() -> None:
    reported: list[Any] = []
    hub: Any = gevent.get_hub()
    hub.handle_error = lambda *error: reported.append(error[:2])
    server = WSGIServer(("127.0.0.1", 0), lambda: None, log=None, error_log=None)
    server.start()
    try:
        answer = get(server, "/")
    finally:
        del hub.handle_error
        server.stop()
    assert answer.startswith(b"HTTP/1.1 500 ") and answer.endswith(b"\r\n\r\nInternal Server Error")
    assert [(type(context), kind) for context, kind in reported] == [(SecureEnviron, TypeError)]


@pytest.mark.parametrize("handler", [WSGIHandler, type("Handler", (WSGIHandler,), {})])
def test_a_malformed_body_is_the_clients_fault(handler: type[WSGIHandler]) -> None:
    reported: list[Any] = []
    hub: Any = gevent.get_hub()
    hub.handle_error = lambda *error: reported.append(error)
    reading = lambda environ, start_response: [environ["wsgi.input"].read()]  # noqa: E731
    server = WSGIServer(("127.0.0.1", 0), reading, log=None, error_log=None, handler_class=handler)
    server.start()
    try:
        with socket.create_connection(server.address, timeout=SECONDS) as client:
            client.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n")
            assert client.recv(4096).startswith(b"HTTP/1.1 400 Bad Request\r\n")
    finally:
        del hub.handle_error
        server.stop()
    assert reported == []


def test_a_logger_is_a_log(caplog: pytest.LogCaptureFixture) -> None:
    import logging

    with caplog.at_level(logging.INFO, "site"):
        LoggingLogAdapter(logging.getLogger("site")).writelines(["a\n", "b\n"])
    assert caplog.messages == ["a", "b"]


def test_an_app_without_start_response_may_have_answered_by_itself() -> None:
    errors = io.StringIO()
    server = WSGIServer(("127.0.0.1", 0), lambda environ, start_response: [], log=None, error_log=errors)
    server.start()
    assert gevent.spawn(get, server, "/").get(timeout=SECONDS) == b""
    server.stop()
    assert "did not call start_response" in errors.getvalue()


def test_an_application_may_close_the_connection() -> None:
    def close(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        start_response("200 OK", [("Connection", "close"), ("Content-Type", "text/plain")])
        return [b"hello"]

    server = WSGIServer(("127.0.0.1", 0), close, log=None, error_log=None)
    server.start()
    try:
        with socket.create_connection(server.address, timeout=SECONDS) as client, client.makefile("rb") as answer:
            client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            head, _, body = answer.read().partition(b"\r\n\r\n")
    finally:
        server.stop()
    assert head.startswith(b"HTTP/1.1 200 ") and head.count(b"Connection: close") == 1 and body == b"hello"


def test_a_change_of_the_servers_environ_applies_to_the_next_connection() -> None:
    def show(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        start_response("200 OK", [])
        return [repr([environ[key] for key in ("my.key", "wsgi.multithread", "GATEWAY_INTERFACE")]).encode()]

    server = WSGIServer(("127.0.0.1", 0), show, log=None, error_log=None, environ={"my.key": 1})
    server.start()
    try:
        for value in (1, 2):
            server.environ["my.key"] = value
            assert get(server, "/").endswith(repr([value, False, "CGI/1.1"]).encode())
    finally:
        server.stop()


@pytest.mark.logs
def test_a_logger_gets_requests_as_infos_and_errors_as_errors(caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("test.pywsgi")
    caplog.set_level(logging.INFO, logger.name)
    server = WSGIServer(("127.0.0.1", 0), app, log=logger, error_log=logger)
    server.log.write("a request")
    server.error_log.write("an error")
    assert [each.levelname for each in caplog.records] == ["INFO", "ERROR"]


@pytest.mark.parametrize("handler", [WSGIHandler, Handler])
def test_without_logs_lines_are_dropped(handler: type[WSGIHandler], capfd: pytest.CaptureFixture[str]) -> None:
    server = WSGIServer(("127.0.0.1", 0), app, log=None, error_log=None, handler_class=handler)
    server.log.write("a request")
    server.error_log.write("an error")
    server.start()
    try:
        assert get(server, "/").startswith(b"HTTP/1.1 200 OK")
    finally:
        server.stop()
    assert capfd.readouterr() == ("", "")
