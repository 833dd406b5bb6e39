"""``wsgi.file_wrapper``: files that an app returns, sent whole or as far as the answer's length goes."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dhaga import socket
from tests.http.wire import TEXT, answer, get, serving

Start = Callable[..., Any]


def test_what_an_app_gives_as_a_file_is_sent_from_where_it_stands(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(range(256)) * 1000)
    files: list[Any] = []

    def app(environ: dict[str, Any], start_response: Start) -> Any:
        files.append(path.open("rb"))
        files[-1].read(3)
        start_response("200 OK", [("Content-Length", environ["QUERY_STRING"])] if environ["QUERY_STRING"] else [])
        return environ["wsgi.file_wrapper"](files[-1], 8192)

    for method, length in (("GET", ""), ("GET", "1000"), ("HEAD", "")):
        found = answer(app, get(f"/?{length}", method=method))
        whole = path.read_bytes()[3 : int(length) + 3 if length else None]
        assert found.fields["content-length"] == str(len(whole))
        assert found.body == (whole if method == "GET" else b"") and files[-1].closed


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="this system has no /proc")
def test_a_file_that_hides_its_size_is_read() -> None:
    app = lambda e, s: (s("200 OK", list(TEXT)), e["wsgi.file_wrapper"](open("/proc/self/status", "rb")))[1]  # noqa: E731, SIM115
    assert answer(app).body.startswith(b"Name:")


@pytest.mark.logs
def test_a_file_that_is_cut_while_it_is_sent_ends_the_connection(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(30_000_000))

    def app(environ: dict[str, Any], start_response: Start) -> Any:
        start_response("200 OK", list(TEXT))
        return environ["wsgi.file_wrapper"](path.open("rb"))

    with serving(app) as server, socket.create_connection(server.address) as sock:
        sock.sendall(get() + get())
        data = sock.recv(100)
        path.open("wb").close()
        while more := sock.recv(1 << 20):
            data += more
        assert data.count(b"HTTP/1.1") == 1 and len(data) < 30_000_000
    assert "less than its Content-Length" in caplog.text


def test_a_file_that_is_none_of_the_system_is_read() -> None:
    found = answer(lambda e, s: (s("200 OK", list(TEXT)), e["wsgi.file_wrapper"](io.BytesIO(b"abc" * 99), 10))[1])
    assert found.body == b"abc" * 99
