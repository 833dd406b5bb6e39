"""Connections of eventlet's WSGI server, byte by byte."""

from __future__ import annotations

import http.client
import io
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from dhaga.compat import eventlet
from dhaga.compat.eventlet import wsgi
from dhaga.compat.eventlet.greenthread import GreenletExit

log = io.StringIO()


def app(environ: dict[str, Any], start_response: Any) -> Any:
    seen.append(environ)
    start_response("200 OK", [])
    if environ["PATH_INFO"] == "/unread":
        return [b"unread"]
    return [environ["wsgi.input"].read()]


seen: list[dict[str, Any]] = []


@contextmanager
def connected(site: Any = app, **options: Any) -> Iterator[Any]:
    listener = eventlet.listen(("127.0.0.1", 0))
    log.truncate(0)
    seen.clear()
    server = eventlet.spawn(wsgi.server, listener, site, log=log, **options)
    with eventlet.connect(listener.getsockname()) as client:
        client.settimeout(30)
        yield client
    server.kill()
    with pytest.raises(GreenletExit):
        server.wait()


def answer(file: Any) -> tuple[str, dict[str, str], bytes]:
    """Return the next response: its status, its fields and its body, of which it must tell the length."""
    line = file.readline().decode()
    fields = {}
    for field in iter(file.readline, b"\r\n"):
        name, _, value = field.decode().partition(":")
        fields[name] = value.strip()
    return line.strip(), fields, file.read(int(fields.get("Content-Length", 0)))


def ask(client: Any, *lines: str, body: bytes = b"") -> tuple[str, dict[str, str], bytes]:
    client.sendall("\r\n".join([*lines, "", ""]).encode() + body)
    with client.makefile("rb") as file:
        return answer(file)


def test_one_connection_serves_request_after_request() -> None:
    with connected() as client:
        for protocol, said in [("HTTP/1.1", None), ("HTTP/1.1", "keep-alive"), ("HTTP/1.0", "keep-alive")]:
            connection = [f"Connection: {said}"] if said else []
            status, fields, body = ask(
                client, f"POST / {protocol}", "Host: h", *connection, "Content-Length: 2", body=b"hi"
            )
            assert (status, fields.get("Connection"), body) == ("HTTP/1.1 200 OK", said, b"hi")
        status, fields, _ = ask(client, "GET / HTTP/1.1", "Host: h", "Connection: close")
        assert fields["Connection"] == "close" and client.recv(1) == b""


def test_an_unread_body_is_not_taken_for_a_request() -> None:
    trick = b"GET /trick HTTP/1.1\r\nHost: h\r\n\r\n"
    with connected() as client:
        for _ in range(2):
            _, _, body = ask(client, "POST /unread HTTP/1.1", "Host: h", f"Content-Length: {len(trick)}", body=trick)
            assert body == b"unread"
    assert [each["PATH_INFO"] for each in seen] == ["/unread"] * 2


def test_a_client_that_waits_for_100_continue_is_left_if_its_body_is_not_wanted() -> None:
    with connected() as client:
        _, fields, body = ask(client, "PUT /unread HTTP/1.1", "Host: h", "Content-Length: 9", "Expect: 100-continue")
        assert (fields["Connection"], body, client.recv(1)) == ("close", b"unread", b"")


@pytest.mark.parametrize(
    ("lines", "status"),
    [
        (["GET /"], "400 Bad Request"),
        (["GET / HTTP/1.1", "Host: h", "no field"], "400 Bad Request"),
        (["GET / HTTP/1.1", "Host: h", "Name : value"], "400 Bad Request"),
        (["GET / HTTP/2.0"], "505 HTTP Version Not Supported"),
        (["GET / HTTP/1.1", "Host: h", "Content-Length: 1", "Transfer-Encoding: chunked"], "400 Bad Request"),
        (["GET / HTTP/1.1", "Host: h", "Transfer-Encoding: gzip, chunked"], "501 Not Implemented"),
        (["GET / HTTP/1.1", "Host: h", "Content-Length: 1", "Content-Length: 2"], "400 Bad Request"),
        (["GET / HTTP/1.1", "Host: h", "Content-Length: +1"], "400 Bad Request"),
        (["GET /" + "x" * 9000 + " HTTP/1.1"], "414 Request URI Too Long"),
        (["GET / HTTP/1.1", "Host: h", "Long: " + "x" * 9000], "400 Header Line Too Long"),
        (["GET / HTTP/1.1", "Host: h", *["Large: " + "x" * 8000] * 9], "400 Headers Too Large"),
    ],
)
def test_what_two_programs_may_read_differently_is_refused(lines: list[str], status: str) -> None:
    with connected() as client:
        assert ask(client, *lines)[0] == f"HTTP/1.0 {status}" and client.recv(1) == b"" and not seen


def test_the_environ_has_what_eventlets_has() -> None:
    with connected(environ={"mine": 1}) as client:
        ask(
            client,
            "GET /a%20b?c=d HTTP/1.1",
            "Host: h",
            "X-Twice: 1",
            "X-Twice: 2",
            "X_Under: 3",
            "Cookie: a",
            "Cookie: b",
        )
    environ = seen[0]
    assert (environ["RAW_PATH_INFO"], environ["PATH_INFO"], environ["QUERY_STRING"]) == ("/a%20b", "/a b", "c=d")
    assert (environ["HTTP_X_TWICE"], environ["HTTP_COOKIE"], environ["mine"]) == ("1,2", "a; b", 1)
    assert "HTTP_X_UNDER" not in environ and ("X_Under", "3") in environ["headers_raw"]
    assert environ["REMOTE_ADDR"] == "127.0.0.1" and environ["eventlet.posthooks"] == []


def test_a_program_may_derive_its_own_protocol() -> None:
    class Protocol(wsgi.HttpProtocol):
        reject_bad_requests = False

        def get_environ(self) -> dict[str, Any]:
            return super().get_environ() | {"of.mine": self.command}

    with connected(protocol=Protocol, minimum_chunk_size=7) as client:
        ask(client, "GET / HTTP/1.1", "Host: h", "Content-Length: 0", "Transfer-Encoding: chunked", body=b"0\r\n\r\n")
    assert seen[0]["of.mine"] == "GET" and Protocol.minimum_chunk_size == wsgi.HttpProtocol.minimum_chunk_size


def test_an_idle_connection_ends_after_keepalive_seconds() -> None:
    with connected(keepalive=0.05) as client:
        _, fields, _ = ask(client, "GET / HTTP/1.1", "Host: h", "Connection: keep-alive")
        assert fields["Keep-Alive"] == "timeout=0"
        began = time.monotonic()
        assert client.recv(1) == b"" and 0.03 < time.monotonic() - began < 20


def test_a_slow_head_ends_the_connection_after_socket_timeout() -> None:
    with connected(socket_timeout=0.05) as client:
        client.sendall(b"GET / HTT")
        assert client.recv(1) == b""


def test_an_app_may_answer_by_itself() -> None:
    def site(environ: dict[str, Any], start_response: Any) -> Any:
        environ["eventlet.input"].get_socket().sendall(b"mine")
        wsgi.WSGI_LOCAL.already_handled = True
        return wsgi.ALREADY_HANDLED

    with connected(site) as client:
        for _ in range(2):  # and what it has set is of one request
            client.sendall(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
            assert client.recv(99) == b"mine"


def test_what_was_received_goes_to_the_app_that_takes_the_connection_over() -> None:
    def site(environ: dict[str, Any], start_response: Any) -> Any:
        sock, data = environ["dhaga.upgrade"]()
        sock.sendall(data)
        return []

    with connected(site) as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost: h\r\n\r\nearly")
        assert client.recv(99) == b"early" and client.recv(1) == b""


def test_an_upgrade_of_an_ended_request_does_not_take_the_next_ones_connection() -> None:
    def site(environ: dict[str, Any], start_response: Any) -> Any:
        seen.append(environ)
        for ended in seen[:-1]:
            with pytest.raises(RuntimeError, match="can be taken over only"):
                ended["dhaga.upgrade"]()
        start_response("200 OK", [])
        return [b"hello"]

    with connected(site) as client:
        for path in ("/", "/next", "/last"):
            assert ask(client, f"GET {path} HTTP/1.1", "Host: h")[2] == b"hello"


def test_a_connection_is_taken_over_once_and_before_the_response() -> None:
    def site(environ: dict[str, Any], start_response: Any) -> Any:
        if environ["PATH_INFO"] == "/begun":
            start_response("200 OK", [])(b"begun")
        else:
            sock, data = environ["dhaga.upgrade"]()
            sock.sendall(data)
        with pytest.raises(RuntimeError, match="can be taken over only"):
            environ["dhaga.upgrade"]()
        return []

    for path, expected in (("/", b"early"), ("/begun", b"begun")):
        with connected(site) as client:
            client.sendall(f"GET {path} HTTP/1.0\r\n\r\nearly".encode())
            with client.makefile("rb") as file:
                assert file.read().endswith(expected)
    assert log.getvalue().count("Traceback") == 0


@pytest.mark.parametrize("size", [20_000, 262_143, 262_144, 270_000])
@pytest.mark.parametrize("read", [0, 1])
@pytest.mark.parametrize("in_chunks", [False, True])
def test_what_is_left_unread_is_no_part_of_the_next_body(size: int, read: int, in_chunks: bool) -> None:
    def site(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        data = environ["wsgi.input"].read(read if environ["PATH_INFO"] == "/left" else None)
        start_response("200 OK", [])
        return [data]

    left = b"%x\r\n%b\r\n0\r\n\r\n" % (size, b"s" * size) if in_chunks else b"s" * size
    framing = "Transfer-Encoding: chunked" if in_chunks else f"Content-Length: {size}"
    with connected(site) as client:
        client.sendall(f"POST /left HTTP/1.1\r\nHost: h\r\n{framing}\r\n\r\n".encode() + left)
        client.sendall(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        client.sendall(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\nConnection: close\r\n\r\nmine")
        with client.makefile("rb") as file:
            assert answer(file)[2] == b"s" * read
            if size < 262_144:  # after a larger body, the connection may end
                assert [answer(file)[2] for _ in range(2)] == [b"", b"mine"]


def test_a_server_that_ends_lets_requests_finish_and_cuts_idle_connections() -> None:
    release = eventlet.Event()

    def site(environ: dict[str, Any], start_response: Any) -> Any:
        start_response("200 OK", [])
        release.wait()
        return [b"done"]

    listener = eventlet.listen(("127.0.0.1", 0))
    server = eventlet.spawn(wsgi.server, listener, site, log=io.StringIO())
    idle, busy = (eventlet.connect(listener.getsockname()) for _ in range(2))
    busy.sendall(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
    eventlet.sleep(0.05)
    server.kill()
    assert idle.recv(1) == b"" and not server.dead
    release.send()
    assert busy.makefile("rb").read().endswith(b"done")
    with pytest.raises(GreenletExit):
        server.wait()
    idle.close()
    busy.close()


def test_a_connection_can_be_served_by_hand() -> None:
    listener = eventlet.listen(("127.0.0.1", 0))
    server = wsgi.Server(listener, listener.getsockname(), app, log=io.StringIO())
    client = eventlet.connect(listener.getsockname())
    client.sendall(b"GET / HTTP/1.0\r\n\r\n")
    sock, address = listener.accept()
    server.process_request([address, sock, wsgi.STATE_IDLE])
    assert client.recv(99).startswith(b"HTTP/1.1 200 OK\r\n")
    client.close()
    listener.close()


def test_what_a_client_sends_cannot_colour_the_log() -> None:
    with connected() as client:
        ask(client, "GET / HTTP/1.1", "Connection: close", "X-Forwarded-For: 1.1.1.1\x85")
        assert client.recv(1) == b""
    assert "\x85" not in log.getvalue() and "1.1.1.1\\xc2\\x85,127.0.0.1" in log.getvalue()


def test_a_malformed_body_is_the_clients_fault() -> None:
    with connected() as client:
        head = "POST / HTTP/1.1", "Transfer-Encoding: chunked"
        assert ask(client, *head, body=b"zz\r\n")[0] == "HTTP/1.1 400 Bad Request" and client.recv(1) == b""
    assert "Traceback" not in log.getvalue()


class ByItself(wsgi.HttpProtocol):
    """Parses requests as the standard library does, as Swift's protocol does."""

    def parse_request(self) -> bool:
        self.requestline = self.raw_requestline.decode("latin-1").rstrip("\r\n")
        self.command, self.path, self.request_version = self.requestline.split(" ")
        self.headers = http.client.parse_headers(self.rfile)
        self.close_connection = False
        return "Expect" not in self.headers or self.handle_expect_100()


def test_a_protocol_may_parse_requests_by_itself() -> None:
    with connected(protocol=ByItself) as client:
        assert ask(client, "POST /a HTTP/1.1", "Content-Length: 3", body=b"one")[2] == b"one"
        chunks = b"3\r\ntwo\r\n0\r\n\r\n"
        assert ask(client, "POST /b HTTP/1.1", "Transfer-Encoding: chunked", body=chunks)[2] == b"two"
        client.sendall(b"POST /c HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n")
        with client.makefile("rb") as file:
            assert answer(file)[0] == "HTTP/1.1 100 Continue"
            client.sendall(b"three")
            assert answer(file)[2] == b"three"
    assert [each["PATH_INFO"] for each in seen] == ["/a", "/b", "/c"]


@pytest.mark.parametrize(
    "fields",
    [
        b"Content-Length: 3\r\nContent-Length: 4\r\n",
        b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n",
        b"Transfer-Encoding: gzip\r\n",
        b"Content-Length: +3\r\n",
        b"Content-Length: 1\r\n 2\r\n",
        b"no field\r\nContent-Length: 3\r\n",
        b"no field\r\nContent-Length : 3\r\n",
        "näme: ä\r\nContent-Length: 3\r\nContent-Length: 4\r\n".encode(),
    ],
)
def test_the_framing_of_a_protocol_that_parses_by_itself_is_read_strictly(fields: bytes) -> None:
    with connected(protocol=ByItself) as client:
        client.sendall(b"POST / HTTP/1.1\r\n" + fields + b"\r\nGET /smuggled HTTP/1.1\r\n\r\n")
        with client.makefile("rb") as file:
            assert file.readline().split()[1] in (b"400", b"501")
    assert seen == []


def test_a_length_behind_a_name_that_is_not_ascii_counts() -> None:
    with connected(protocol=ByItself) as client:
        client.sendall("POST / HTTP/1.1\r\nnäme: ä\r\nContent-Length: 3\r\n\r\none".encode())
        with client.makefile("rb") as file:
            assert answer(file)[2] == b"one"


def test_a_program_may_wrap_its_listener_and_its_connections() -> None:
    class Connection:
        """What eventlet asks of a connection, and no socket."""

        def __init__(self, sock: Any) -> None:
            self.sock = sock

        def makefile(self, mode: str, size: int = -1) -> Any:
            opened.append(mode)
            return self.sock.makefile(mode, size)

        def __getattr__(self, name: str) -> Any:
            return getattr(self.sock, name)

    opened: list[str] = []
    listener = eventlet.listen(("127.0.0.1", 0))
    accept = listener.accept

    def wrapped() -> Any:
        sock, address = accept()
        return Connection(sock), address

    listener.accept = wrapped
    server = eventlet.spawn(wsgi.server, listener, app, log=io.StringIO())
    with eventlet.connect(listener.getsockname()) as client:
        client.settimeout(30)
        assert ask(client, "POST /a HTTP/1.1", "Content-Length: 3", body=b"one")[2] == b"one"
    assert opened == ["rb", "wb"]
    server.kill()
    with pytest.raises(GreenletExit):
        server.wait()


def test_an_app_that_keeps_its_write_does_not_write_into_the_next_response() -> None:
    kept: list[Any] = []
    refused: list[str] = []

    def site(environ: dict[str, Any], start_response: Any) -> Any:
        for write in kept:
            try:
                write(b"late")
            except AssertionError as error:
                refused.append(str(error))
        kept.append(start_response("200 OK", []))
        return iter([b"ok"])

    with connected(site) as client, client.makefile("rb") as file:
        for _ in range(2):
            client.sendall(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
            assert answer(file)[0] == "HTTP/1.1 200 OK"
            assert [file.readline() for _ in range(4)] == [b"2\r\n", b"ok\r\n", b"0\r\n", b"\r\n"]
    assert len(refused) == 1 and "has ended" in refused[0]
