"""Bodies of requests: ``wsgi.input`` in all its ways to be read, 100-continue, and what the app leaves unread."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

import dhaga
from dhaga import socket
from dhaga.http._server.timed_transfers import DRAIN_BYTES
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


@pytest.mark.parametrize("size", [100, 20_000, 70_000, DRAIN_BYTES - 1, DRAIN_BYTES, DRAIN_BYTES + 10_000])
@pytest.mark.parametrize("read", ["nothing", "a byte", "a line", "a buffer"])
@pytest.mark.parametrize("pieces", [1, 3, None])
def test_what_is_left_unread_is_no_part_of_the_next_body(size: int, read: str, pieces: int | None) -> None:
    """``pieces``: the number of chunks; None for a body with a Content-Length."""

    def app(environ: dict[str, Any], start_response: Start) -> list[bytes]:
        body = environ["wsgi.input"]
        if environ["PATH_INFO"] == "/left":
            {"nothing": int, "a byte": lambda: body.read(1), "a line": body.readline, "a buffer": body.peek}[read]()
            start_response("200 OK", list(TEXT))
            return [b"left"]
        start_response("200 OK", list(TEXT))
        return [b"%d:" % len(data := body.read()), data[:9]]

    secret = b"secret\n".ljust(size // (pieces or 1), b"s")
    left = post(secret, path="/left") if pieces is None else chunked(*[secret] * pieces, path="/left")
    for gets in (0, 2):
        data = left + get() * gets + post(b"mine") + get() + chunked(b"m", b"ine") + post(b"")
        with serving(app) as server:
            first, *later = answers(ask(server, data))
        assert first.body == b"left"
        if later or size < DRAIN_BYTES:  # after a larger body, the connection may end
            assert [each.body for each in later] == [b"0:"] * gets + [b"4:mine", b"0:", b"4:mine", b"0:"]


def test_what_is_left_unread_is_dropped_also_if_the_next_request_comes_later() -> None:
    def app(environ: dict[str, Any], start_response: Start) -> list[bytes]:
        data = environ["wsgi.input"].read(1 if environ["PATH_INFO"] == "/left" else None)
        start_response("200 OK", list(TEXT))
        return [data]

    for left in (post(b"secret" * 4000, path="/left"), chunked(b"secret" * 4000, path="/left")):
        with serving(app) as server, socket.create_connection(server.address) as sock:
            for data, expected in ((left, b"s"), (get(), b""), (post(b"mine"), b"mine"), (post(b"later"), b"later")):
                sock.sendall(data)
                assert Answer(sock.recv(65536)).body == expected


def test_a_body_refused_at_its_last_byte_after_the_response_has_begun_ends_the_connection() -> None:
    def app(environ: dict[str, Any], start_response: Start) -> list[bytes]:
        start_response("200 OK", list(TEXT))(b"begun")
        with pytest.raises(OSError, match="more than 10 bytes"):
            environ["wsgi.input"].read()
        return []

    with serving(app, limits=Limits(body=10)) as server:
        assert [each.body for each in answers(ask(server, chunked(b"x" * 20) + post(b"mine")))] == [b"begun"]


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


@pytest.mark.parametrize(
    ("read", "found"),
    [
        (lambda file: file.read(6), ["", "bytes of the body may be missing"]),
        (lambda file: file.readline(), ["", "bytes of the body may be missing"]),
        (lambda file: file.read(), ["", b"abcdef"]),
        (lambda file: file.read1(6), [b"abc", "", b"def"]),
    ],
)
def test_no_bytes_are_missing_unnoticed_after_a_cancelled_read(read: Any, found: list[Any]) -> None:
    heard: list[Any] = []

    def app(environ: dict[str, Any], start_response: Start) -> list[bytes]:
        for each in found:
            try:
                with dhaga.Timeout(0.001 if each == "" else None):
                    heard.append(read(environ["wsgi.input"]))
            except TimeoutError:
                heard.append("")
                sock.sendall(b"def")
            except OSError as error:
                heard.append(str(error).partition(":")[0])
        return silent(environ, start_response)

    with serving(app) as server, socket.create_connection(server.address) as sock:
        sock.sendall(post(b"abcdef")[:-3])
        assert Answer(sock.recv(65536)).body == b"no thanks"
    assert heard == found


@pytest.mark.parametrize(
    "read",
    [
        lambda file: file.readline(),
        lambda file: next(file),
        lambda file: file.read1(4),
        lambda file: bytes(memoryview(buffer := bytearray(4))[: file.readinto1(buffer)]),
        lambda file: (file.peek(), file.readline())[1],
    ],
)
def test_a_read_that_was_cancelled_before_any_byte_came_may_be_repeated(read: Any) -> None:
    heard: list[Any] = []

    def app(environ: dict[str, Any], start_response: Start) -> list[bytes]:
        for part in (b"abc\n", b"def\n"):
            with pytest.raises(TimeoutError), dhaga.Timeout(0.001):
                read(environ["wsgi.input"])
            sock.sendall(part)
            heard.append(read(environ["wsgi.input"]))
        return silent(environ, start_response)

    with serving(app) as server, socket.create_connection(server.address) as sock:
        sock.sendall(post(b"abc\ndef\n")[:-8])
        assert Answer(sock.recv(65536)).body == b"no thanks"
    assert heard == [b"abc\n", b"def\n"]


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


@pytest.mark.logs
def test_a_reader_left_behind_in_another_os_thread_does_not_block_the_server(caplog: pytest.LogCaptureFixture) -> None:
    left: list[Any] = []

    def app(environ: dict[str, Any], start_response: Start) -> list[bytes]:
        connection = server.http_connections[dhaga.current()]
        left.append(dhaga.spawn(dhaga.offload, environ["wsgi.input"].read))
        while not connection.receiving:
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
