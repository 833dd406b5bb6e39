"""``wsgi.file_wrapper``: files that an app returns, sent whole or as far as the answer's length goes."""

from __future__ import annotations

import bz2
import gzip
import io
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import dhaga
from dhaga import socket
from dhaga.http._server.file_wrapper import FileWrapper
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


@pytest.mark.parametrize("kind", [gzip, bz2])
def test_a_file_that_changes_the_bytes_is_read(kind: Any, tmp_path: Path) -> None:
    path = tmp_path / "file"
    with kind.open(path, "wb") as file:
        file.write(b"hello " * 99)
    found = answer(lambda e, s: (s("200 OK", list(TEXT)), e["wsgi.file_wrapper"](kind.open(path)))[1])
    assert found.body == b"hello " * 99


class Proxy:
    """A file as Django wraps it."""

    def __init__(self, file: Any) -> None:
        self.file = file

    def __getattr__(self, name: str) -> Any:
        return getattr(self.file, name)


class Upper(Proxy):
    def read(self, size: int) -> Any:
        return self.file.read(size).upper()


def test_a_regular_file_is_known_also_behind_a_wrapper() -> None:
    with tempfile.NamedTemporaryFile() as file:
        file.write(b"abc")
        file.seek(1)
        for one in (file, Proxy(file.file), file.file):
            assert FileWrapper(one).remaining() == (1, 2)
        assert FileWrapper(Upper(file.file)).remaining() is None
        assert FileWrapper(object()).remaining() is None
        with dhaga.open(file.name, "rb") as opened, open(file.name, "rb", buffering=0) as raw:
            assert FileWrapper(opened).remaining() == FileWrapper(raw).remaining() == (0, 3)
