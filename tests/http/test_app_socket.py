"""The client's socket in an app's environ: its use takes the connection over, and looking on does not."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import dhaga
from dhaga import socket
from dhaga import threading as threads
from dhaga.http.limits import Limits
from tests.http.wire import Answer, Start, answers, ask, get, hello, serving, to_the_end

UPGRADE = get("/", "Upgrade: upper", "Connection: Upgrade")
Environ = dict[str, Any]


def upper(sock: Any, size: int = 100) -> None:
    """Answer what comes in capitals, to its end."""
    while data := sock.recv(size):
        sock.send(data.upper())


@pytest.mark.parametrize("name", ["werkzeug.socket", "gunicorn.socket"])
def test_the_first_use_takes_the_connection_over_with_what_has_come(name: str) -> None:
    def app(environ: Environ, start_response: Start) -> list[bytes]:
        upper(environ[name], 2)
        start_response("200 OK", [("Content-Length", "5")])(b"never")
        return [b"never"]

    log: list[str] = []
    with serving(app, access_log=log.append) as server, socket.create_connection(server.address) as sock:
        sock.sendall(UPGRADE + b"abc")
        assert sock.recv(2) + sock.recv(1) == b"ABC"
        sock.sendall(get())
        sock.shutdown(socket.SHUT_WR)
        assert to_the_end(sock) == get().upper()
    assert [line.split('"')[2] for line in log] == [" 101 - "]


@pytest.mark.parametrize("error", [ConnectionError, StopIteration])
def test_an_app_may_leave_a_taken_connection_by_the_errors_that_werkzeug_and_gunicorn_expect(
    error: type[Exception],
) -> None:
    def app(environ: Environ, start_response: Start) -> list[bytes]:
        environ["werkzeug.socket"].sendall(b"mine")
        raise error

    with serving(app) as server:  # and nothing is logged
        assert ask(server, UPGRADE) == b"mine"


def test_an_app_that_is_a_generator_takes_the_connection_over_as_it_is_iterated() -> None:
    def app(environ: Environ, start_response: Start) -> Any:
        environ["werkzeug.socket"].sendall(b"mine")
        yield b"never"

    with serving(app) as server:
        assert ask(server, UPGRADE) == b"mine"


def test_looking_on_takes_nothing_over() -> None:
    def app(environ: Environ, start_response: Start) -> list[bytes]:
        sock = environ["werkzeug.socket"]
        assert sock.fileno() >= 0 and sock.getpeername()[1] == int(environ["REMOTE_PORT"])
        if "HTTP_CONNECTION" not in environ:  # the other request is there already
            assert sock.recv(3, socket.MSG_PEEK) == b"GET"
        assert "not taken" in repr(sock)
        return hello(environ, start_response)

    with serving(app) as server, socket.create_connection(server.address) as sock:
        sock.sendall(get() + get("/", "Connection: close"))
        first, second = answers(to_the_end(sock))
        assert first.body == second.body == b"hello"


def test_a_file_over_the_socket_begins_with_what_has_come() -> None:
    def app(environ: Environ, start_response: Start) -> list[bytes]:
        with environ["werkzeug.socket"].makefile("rwb") as file:
            file.write(file.readline().upper())
            file.flush()
        return []

    with serving(app) as server, socket.create_connection(server.address) as sock:
        sock.sendall(UPGRADE + b"ab")
        sock.sendall(b"c\n")
        assert to_the_end(sock) == b"ABC\n"


def test_a_send_sends_everything() -> None:
    size = 5_000_000  # more than the buffers of a connection hold

    def app(environ: Environ, start_response: Start) -> list[bytes]:
        assert environ["werkzeug.socket"].send(b"x" * size) == size
        return []

    with serving(app) as server:
        assert ask(server, UPGRADE) == b"x" * size


def test_the_socket_of_an_ended_request_does_not_reach_into_the_next() -> None:
    kept: list[Any] = []

    def app(environ: Environ, start_response: Start) -> list[bytes]:
        kept.append(environ["werkzeug.socket"])
        if len(kept) == 2:
            with pytest.raises(OSError, match="has ended"):
                kept[0].sendall(b"late")
            with pytest.raises(OSError, match="has ended"):
                kept[0].recv(1, socket.MSG_PEEK)
        return hello(environ, start_response)

    with serving(app) as server:
        first, second = answers(ask(server, get() + get("/", "Connection: close")))
        assert first.body == second.body == b"hello"


def test_a_response_that_has_begun_keeps_its_connection() -> None:
    def app(environ: Environ, start_response: Start) -> list[bytes]:
        start_response("200 OK", [("Content-Length", "2")])(b"o")
        with pytest.raises(RuntimeError, match="before the response has begun"):
            environ["werkzeug.socket"].sendall(b"late")
        return [b"k"]

    with serving(app) as server:
        assert Answer(ask(server, get())).body == b"ok"


def test_no_time_limit_of_a_request_ends_a_taken_connection() -> None:
    def app(environ: Environ, start_response: Start) -> list[bytes]:
        upper(environ["werkzeug.socket"])
        return []

    limits = Limits(idle_timeout=0.02, header_timeout=0.02, write_timeout=0.02)
    with serving(app, limits=limits) as server, socket.create_connection(server.address) as sock:
        sock.sendall(UPGRADE)
        for _ in range(3):
            dhaga.sleep(0.05)
            sock.sendall(b"abc")
            assert sock.recv(3) == b"ABC"


def test_a_graceful_stop_lets_the_app_receive_what_has_come_and_then_its_end() -> None:
    taken, stopping = threads.Event(), threads.Event()

    def app(environ: Environ, start_response: Start) -> list[bytes]:
        sock = environ["werkzeug.socket"]
        sock.sendall(b"mine")
        taken.set()
        stopping.wait(30)
        upper(sock)
        return []

    with serving(app) as server, socket.create_connection(server.address) as sock:
        sock.sendall(UPGRADE)
        assert taken.wait(30)
        sock.sendall(b"abc")
        stopper = dhaga.spawn(server.stop, 1000)
        while not server.stopping:
            dhaga.sleep(0.001)
        stopping.set()
        assert to_the_end(sock) == b"mineABC"
        stopper.result()


def test_other_threads_may_use_it() -> None:
    def app(environ: Environ, start_response: Start) -> list[bytes]:
        sock = environ["werkzeug.socket"]
        sock.sendall(b"mine ")
        other = threading.Thread(target=upper, args=(sock,))
        other.start()
        while other.is_alive():
            dhaga.sleep(0.001)
        return []

    with serving(app) as server, socket.create_connection(server.address) as sock:
        sock.sendall(UPGRADE + b"abc")
        sock.shutdown(socket.SHUT_WR)
        assert to_the_end(sock) == b"mine ABC"
