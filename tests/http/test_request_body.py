"""Bodies of requests: ``wsgi.input`` in all its ways to be read, 100-continue, and what the app leaves unread."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

import dhaga
from dhaga import socket
from dhaga.http._server.transfers import DRAIN_BYTES
from dhaga.http.limits import Limits
from dhaga.testing import cancel_at_every_park
from tests.http.wire import TEXT, Answer, answers, ask, chunked, get, post, serving, to_the_end
from tests.kit.parking import victim

Start = Callable[..., Any]
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"

READS: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "read()": (lambda file: file.read(), b"ab\ncd\n\nef"),
    "read(None)": (lambda file: file.read(None), b"ab\ncd\n\nef"),
    "read(n)": (lambda file: [file.read(n) for n in (0, 1, 4, 100, 1)], [b"", b"a", b"b\ncd", b"\n\nef", b""]),
    "readline()": (lambda file: [file.readline() for _ in range(5)], [b"ab\n", b"cd\n", b"\n", b"ef", b""]),
    "readline(n)": (lambda file: [file.readline(n) for n in (1, 5, 2)], [b"a", b"b\n", b"cd"]),
    "readlines()": (lambda file: file.readlines(), [b"ab\n", b"cd\n", b"\n", b"ef"]),
    "readlines(n)": (lambda file: file.readlines(4), [b"ab\n", b"cd\n"]),
    "iteration": (list, [b"ab\n", b"cd\n", b"\n", b"ef"]),
    "a mixture": (
        lambda file: (file.readline(), file.read(2), next(file, b""), file.read()),
        (b"ab\n", b"cd", b"\n", b"\nef"),
    ),
}


def told(read: Callable[[Any], Any]) -> Any:
    def app(environ: dict[str, Any], start_response: Start) -> list[bytes]:
        text = repr(read(environ["wsgi.input"]))
        start_response("200 OK", list(TEXT))
        return [text.encode()]

    return app


def silent(environ: dict[str, Any], start_response: Start) -> list[bytes]:
    """Read nothing."""
    start_response("200 OK", list(TEXT))
    return [b"no thanks"]


@pytest.mark.parametrize("way", READS)
def test_a_body_is_a_file_however_it_comes(way: str) -> None:
    read, expected = READS[way]
    body = b"ab\ncd\n\nef"
    with serving(told(read)) as server:
        for data in (post(body), chunked(body), chunked(*(body[n : n + 1] for n in range(len(body))))):
            first, second = answers(ask(server, data + get()))
            assert first.body.decode() == repr(expected)
            assert second.status == "200 OK"


def test_a_body_larger_than_all_buffers_comes_whole() -> None:
    body = bytes(range(256)) * 4000
    with serving(told(lambda file: sum(file.read()))) as server:
        assert Answer(ask(server, post(body))).body.decode() == str(sum(body))
    with serving(told(lambda file: sum(map(sum, iter(lambda: file.read(7777), b""))))) as server:
        parts = [body[n : n + 5000] for n in range(0, len(body), 5000)]
        assert Answer(ask(server, chunked(*parts))).body.decode() == str(sum(body))


def test_a_client_is_told_to_continue_when_the_app_reads_and_not_before() -> None:
    with serving(told(lambda file: file.read())) as server, socket.create_connection(server.address) as sock:
        sock.sendall(get("/", "Expect: 100-Continue", "Content-Length: 3", method="POST"))
        assert sock.recv(100) == CONTINUE
        sock.sendall(b"abc" + get("/", "Connection: close"))
        assert [each.body for each in answers(to_the_end(sock))] == [b"b'abc'", b"b''"]


def test_a_client_that_waits_to_continue_is_answered_without_and_the_connection_ends() -> None:
    with serving(silent) as server, socket.create_connection(server.address) as sock:
        sock.sendall(get("/", "Expect: 100-continue", "Content-Length: 3", method="POST"))
        found = Answer(to_the_end(sock))
        assert (found.status, found.fields["connection"], found.body) == ("200 OK", "close", b"no thanks")


def test_a_client_that_does_not_wait_to_continue_is_not_told_to() -> None:
    with serving(told(lambda file: file.read())) as server:
        data = get("/", "Expect: 100-continue", "Content-Length: 3", method="POST") + b"abc"
        assert ask(server, data).startswith(b"HTTP/1.1 200 OK")
        old = get("/", "Expect: 100-continue", "Content-Length: 3", method="POST", version="1.0")
        with socket.create_connection(server.address) as sock:
            sock.sendall(old)
            dhaga.sleep(0.002)
            sock.sendall(b"abc")
            assert to_the_end(sock).startswith(b"HTTP/1.1 200 OK")


def test_a_client_that_expects_and_sends_at_once_may_pipeline() -> None:
    """As the body is there, no doubt is left about where the next request begins."""
    for app in (silent, told(lambda file: file.read())):
        with serving(app) as server:
            data = get("/", "Expect: 100-continue", "Content-Length: 3", method="POST") + b"abc" + get()
            assert [each.status for each in answers(ask(server, data))] == ["200 OK"] * 2


@pytest.mark.logs
def test_it_is_too_late_to_continue_once_the_response_has_begun(caplog: pytest.LogCaptureFixture) -> None:
    def app(environ: dict[str, Any], start_response: Start) -> Any:
        start_response("200 OK", list(TEXT))
        yield b"a"
        yield environ["wsgi.input"].read()

    with serving(app) as server, socket.create_connection(server.address) as sock:
        sock.sendall(get("/", "Expect: 100-continue", "Content-Length: 3", method="POST"))
        assert to_the_end(sock).endswith(b"\r\n\r\n1\r\na\r\n")
    assert "read the body before it" in caplog.text


def test_a_body_is_read_while_the_response_is_sent() -> None:
    def app(environ: dict[str, Any], start_response: Start) -> Any:
        start_response("200 OK", list(TEXT))
        return iter(lambda: environ["wsgi.input"].read1(10), b"")

    with serving(app) as server, socket.create_connection(server.address) as sock:
        sock.sendall(get("/", "Content-Length: 4", method="POST") + b"ab")
        data = b""
        while b"ab" not in data:
            data += sock.recv(65536)
        sock.sendall(b"cd")
        sock.shutdown(socket.SHUT_WR)
        assert Answer(data + to_the_end(sock)).body == b"abcd"


def test_what_is_left_unread_is_no_next_request() -> None:
    inner = get("/inner")
    with serving(silent) as server:
        for data in (post(inner), chunked(inner, inner), post(inner * 3000)):
            assert len(data) < DRAIN_BYTES
            assert [each.body for each in answers(ask(server, data + get()))] == [b"no thanks"] * 2
        for data in (post(inner * 10_000), chunked(*[inner * 100] * 150)):
            assert [each.body for each in answers(ask(server, data + get()))] == [b"no thanks"]


def test_a_large_upload_that_is_refused_is_told_why() -> None:
    with serving(silent, limits=Limits(body=1000)) as server, socket.create_connection(server.address) as sock:
        sock.sendall(post(bytes(3_000_000)))
        assert Answer(to_the_end(sock)).status == "413 Content Too Large"


@pytest.mark.parametrize("data", [post(b"abc")[:-1], chunked(b"abc")[:-1], chunked(b"abc")[:-6], get()[:-1]])
def test_a_client_that_leaves_in_the_middle_is_no_error(data: bytes) -> None:
    heard: list[Any] = []

    def app(environ: dict[str, Any], start_response: Start) -> list[bytes]:
        try:
            environ["wsgi.input"].read()
        except OSError as error:
            heard.append(error)
            raise
        raise AssertionError("the body was whole")

    with serving(app) as server:
        assert ask(server, data) == b""
    assert len(heard) == (data[:4] == b"POST")


def test_a_bad_chunk_is_an_oserror_in_the_app_and_400_for_the_client() -> None:
    heard: list[Any] = []

    def app(environ: dict[str, Any], start_response: Start) -> list[bytes]:
        for _ in range(2):
            try:
                environ["wsgi.input"].read()
            except OSError as error:
                heard.append(str(error))
        start_response("422 Bad Upload", list(TEXT))
        return [b"what?"]

    with serving(app) as server:
        found = Answer(ask(server, chunked(b"abc", end=b"xyz\r\n\r\n") + get()))
    assert (found.status, found.fields["connection"], found.rest) == ("422 Bad Upload", "close", b"")
    assert heard[0] == heard[1] and "chunk size" in heard[0]


def test_a_body_can_be_read_by_another_dhaga_and_in_another_os_thread() -> None:
    for call in (lambda fn: dhaga.spawn(fn).result(), dhaga.offload):
        with serving(told(lambda file: call(file.read))) as server:  # noqa: B023
            with socket.create_connection(server.address) as sock:
                sock.sendall(post(b"abc")[:-1])
                dhaga.sleep(0.002)
                sock.sendall(b"c")
                assert sock.recv(65536).endswith(b"b'abc'")


@pytest.mark.logs
def test_what_an_app_keeps_of_a_request_does_not_reach_into_the_next(caplog: pytest.LogCaptureFixture) -> None:
    kept: list[Any] = []
    heard: list[str] = []

    def app(environ: dict[str, Any], start_response: Start) -> list[bytes]:
        for use in kept:
            with pytest.raises((ValueError, RuntimeError)) as caught:
                use()
            heard.append(str(caught.value))
        write = start_response("200 OK", list(TEXT))
        kept[:] = [environ["wsgi.input"].read, lambda: write(b"late")]
        return [b"a"]

    with serving(app) as server:
        assert [each.body for each in answers(ask(server, post(b"abc") + post(b"def")))] == [b"a", b"a"]
    assert "closed file" in heard[0] and "has ended" in heard[1]


@pytest.mark.logs
def test_a_reader_that_is_left_behind_ends_the_connection(caplog: pytest.LogCaptureFixture) -> None:
    left: list[Any] = []

    def app(environ: dict[str, Any], start_response: Start) -> list[bytes]:
        left.append(dhaga.spawn(environ["wsgi.input"].read))
        dhaga.sleep(0.001)
        start_response("200 OK", list(TEXT))
        return [b"a"]

    with serving(app) as server, socket.create_connection(server.address) as sock:
        sock.sendall(post(b"abc")[:-1])
        assert Answer(to_the_end(sock)).body == b"a"
    with pytest.raises(OSError):
        left[0].result()
    assert "another dhaga still reads" in caplog.text


def test_a_cancel_at_any_park_of_an_upload_ends_the_connection_and_nothing_else() -> None:
    closed: list[bool] = []

    class Pieces:
        def __init__(self, data: bytes) -> None:
            self.data = data

        def __iter__(self) -> Any:
            for _ in range(3):
                dhaga.sleep(1)
                yield self.data

        def close(self) -> None:
            closed.append(True)

    def app(environ: dict[str, Any], start_response: Start) -> Any:
        data = environ["wsgi.input"].read()
        start_response("200 OK", list(TEXT))
        return Pieces(data)

    def scenario() -> Any:
        from dhaga.http.wsgi import Server

        server = Server(app)
        near, far = socket.socketpair()
        closed.clear()
        begun: list[bool] = []

        def serve() -> None:
            begun.append(True)
            with near:
                server.serve(near, "")

        def talk() -> None:
            with far:
                for piece in (b"POST / HTTP/1.1\r\nHost: x\r\n", b"Content-Length: 3\r\n\r\n", b"a", b"bc"):
                    try:
                        far.sendall(piece)
                    except OSError:
                        break
                    dhaga.sleep(1)
                far.shutdown(socket.SHUT_WR)
                try:
                    to_the_end(far)
                except OSError:
                    pass

        dhaga.spawn(talk)

        def check() -> None:
            assert not server.http_connections
            assert near.fileno() == -1 or not begun

        return victim(serve), check

    logging.getLogger("dhaga").disabled = True  # the app fails by the time-outs that strike it
    try:
        assert cancel_at_every_park(scenario) >= 6
    finally:
        logging.getLogger("dhaga").disabled = False
