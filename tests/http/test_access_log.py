"""The access log."""

from __future__ import annotations

import errno
import logging
import re
from pathlib import Path
from typing import Any

import pytest

import dhaga
from dhaga import socket, threading
from dhaga.http.limits import Limits
from tests.http.wire import answer, ask, get, hello, serving, to_the_end
from tests.kit.scripts import PATIENCE


def test_the_access_log_tells_each_request_and_nobody_can_forge_a_line() -> None:
    lines: list[str] = []
    fields = 'Referer: a"b\\', "User-Agent: ä"
    with serving(hello, access_log=lines.append) as server:
        ask(server, get("/a?b") + get('/c"', *fields, method="POST"))
    first, second = lines
    assert first.startswith("127.0.0.1 - - [") and first.endswith('] "GET /a?b HTTP/1.1" 200 5 "-" "-"')
    assert second.endswith('] "POST /c\\" HTTP/1.1" 200 5 "a\\"b\\\\" "\\xe4"')


def test_the_access_log_goes_to_a_logger_or_a_file(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    answer(hello, access_log=True)
    assert [r.name for r in caplog.records if "GET / HTTP/1.1" in r.getMessage()] == ["dhaga.access"]
    with (tmp_path / "log").open("w+") as file:
        answer(hello, access_log=file)
        file.seek(0)
        assert file.read().count("\n") == 1


@pytest.mark.logs
def test_a_full_disk_costs_lines_of_the_log_and_no_request(caplog: pytest.LogCaptureFixture) -> None:
    lines: list[str] = []
    disk_is_full = [False, True, True, False, True]

    def write(line: str) -> None:
        lines.append(line)
        if disk_is_full[len(lines) - 1]:
            raise OSError(errno.ENOSPC, "No space left on device")

    with serving(hello, access_log=write) as server:
        assert ask(server, get("/") * 5).count(b"200 OK") == 5  # of one connection
    assert [record.getMessage() for record in caplog.records] == [
        "the access log cannot be written: [Errno 28] No space left on device. Its lines are lost meanwhile"
    ] * 2


@pytest.mark.parametrize(
    ("sent", "line", "status"),
    [
        (b"GET / HTTP/1.1\r\nbad\r\n\r\n", "GET / HTTP/1.1", 400),
        (b"GET / HTTP/1.1\r\n\r\n", "GET / HTTP/1.1", 400),
        (b"\r\nGET  / HTTP/1.1\r\n", "GET  / HTTP/1.1", 400),
        (b"\x16\x03\x01\x02\x00", "\\x16\\x03\\x01\\x02\\x00", 400),
        (b'GET /"\\ HTTP/1.1\nHost: x\n', 'GET /\\"\\\\ HTTP/1.1', 400),
        (b"GET /%b HTTP/1.1\r\n" % (b"a" * 9000), f"GET /{'a' * 1019}", 414),
        (get("/a", f"X: {'a' * 9000}"), "GET /a HTTP/1.1", 431),
        (get("/a", "Transfer-Encoding: gzip"), "GET /a HTTP/1.1", 400),
        (get("/a", version="2.0"), "GET /a HTTP/2.0", 505),
        (get("/a", method="WRONG"), "WRONG /a HTTP/1.1", 501),
        (get("/a", "Content-Length: 5", "Content-Length: 6"), "GET /a HTTP/1.1", 400),
    ],
)
@pytest.mark.parametrize("step", [1, 10_000])
def test_the_access_log_tells_a_request_that_the_parser_refuses(
    sent: bytes, line: str, status: int, step: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "dhaga")
    lines: list[str] = []
    with serving(hello, access_log=lines.append) as server:
        ask(server, *(sent[begin : begin + step] for begin in range(0, len(sent), step)))
    (entry,) = lines
    begin, _, request = entry.partition('] "')
    assert begin.startswith("127.0.0.1 - - [")
    assert re.sub(r"(?<=4\d\d |5\d\d )\d+", "N", request) == f'{line}" {status} N "-" "-"'
    assert [r.getMessage().split(":")[0] for r in caplog.records] == ["http refused a request of 127.0.0.1"]


def test_a_request_after_others_is_refused_with_its_own_line() -> None:
    lines: list[str] = []
    with serving(hello, access_log=lines.append) as server:
        ask(server, get("/1") + get("/2") + get("/2") + b"GET /3 HTTP/1.1\r\nbad\r\n\r\n" + get("/4"))
    assert [re.findall(r'"GET (/\d) HTTP/1.1" (\d+)', line)[0] for line in lines] == [
        *(("/1", "200"), ("/2", "200"), ("/2", "200"), ("/3", "400")),
    ]


def test_the_access_log_tells_a_head_that_comes_too_slowly() -> None:
    lines: list[str] = []
    with serving(hello, access_log=lines.append, limits=Limits(header_timeout=0.05)) as server:
        with socket.create_connection(server.address) as sock:
            sock.sendall(b"GET /slo")
            assert b" 408 " in to_the_end(sock)
    assert '] "GET /slo" 408 ' in lines[0] and len(lines) == 1


def test_a_connection_that_closes_without_a_request_is_no_entry() -> None:
    lines: list[str] = []
    with serving(hello, access_log=lines.append) as server:
        for sent in (b"", b"\r\n", b"GET /", get()):
            ask(server, sent)
    assert len(lines) == 1


def test_the_access_log_tells_requests_that_waited_too_long_for_their_turn() -> None:
    lines: list[str] = []
    gate = threading.Event()

    def app(environ: Any, start_response: Any) -> list[bytes]:
        gate.wait()
        return hello(environ, start_response)

    with serving(app, access_log=lines.append, concurrency=1, limits=Limits(queue_timeout=0.05)) as server:
        first = dhaga.spawn(ask, server, get("/first"))
        dhaga.sleep(0)
        ask(server, get("/second", "User-Agent: curl"))
        gate.set()
        first.join()
    second, first_line = lines
    assert '"GET /second HTTP/1.1" 503 ' in second and second.endswith('"-" "curl"') and "/first" in first_line


@pytest.mark.logs
@pytest.mark.parametrize("limits", [Limits(body=3), Limits(request_timeout=0.05)])
def test_the_access_log_tells_requests_that_are_refused_in_the_app(limits: Limits) -> None:
    lines: list[str] = []

    def app(environ: Any, start_response: Any) -> list[bytes]:
        environ["wsgi.input"].read()
        dhaga.sleep(PATIENCE)
        return []

    with serving(app, access_log=lines.append, limits=limits) as server:
        ask(server, get("/", "Content-Length: 4", method="POST") + b"body")
    assert len(lines) == 1 and re.search(r'"POST / HTTP/1.1" (413|503) ', lines[0])
