"""Time-outs of the server, on a virtual clock: who is slow costs one parked dhaga, until its time is over."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import dhaga
from dhaga import socket
from dhaga._kernel.wait.current import this_waiter
from dhaga.http._server.idle_timer import IdleTimer
from dhaga.http.limits import Limits
from dhaga.http.wsgi import Server
from dhaga.testing import VirtualClock, settle, virtual_clock
from tests.http.wire import TEXT, Answer, get, post, to_the_end
from tests.kit.tls import tls

LIMITS = Limits(idle_timeout=50, header_timeout=20, body_timeout=10, write_timeout=5)


def echo(environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
    if environ["PATH_INFO"] == "/long":
        dhaga.sleep(1000)
    data = environ["wsgi.input"].read()
    start_response("200 OK", list(TEXT))
    return [data]


class Client:
    """One end of a connection whose other end is served."""

    def __init__(self, app: Any = echo, limits: Limits = LIMITS) -> None:
        self.server = Server(app, limits=limits)
        near, self.sock = socket.socketpair()
        self.dhaga = dhaga.spawn(self.serve, near)

    def serve(self, sock: socket.socket) -> None:
        with sock:
            self.server.serve(sock, "")

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *error: object) -> None:
        self.sock.close()
        self.dhaga.join()

    def trickle(self, data: bytes, seconds: float) -> bytes:
        """Send a byte every some seconds, while the server takes it. Returns: its answer."""
        for n in range(len(data)):
            try:
                self.sock.sendall(data[n : n + 1])
            except OSError:
                break
            dhaga.sleep(seconds)
            if self.dhaga.has_ended:
                break
        return to_the_end(self.sock)


def times(clock: VirtualClock) -> float:
    return round(clock.now, 3)


def test_an_idle_connection_is_closed_silently() -> None:
    with virtual_clock() as clock, Client() as client:
        assert (to_the_end(client.sock), times(clock)) == (b"", 50)
    with virtual_clock() as clock, Client() as client:
        for _ in range(3):
            dhaga.sleep(40)
            client.sock.sendall(get())
            assert Answer(client.sock.recv(65536)).status == "200 OK"
        assert (to_the_end(client.sock), times(clock)) == (b"", 170)


def test_a_head_that_trickles_in_ends_at_the_header_timeout() -> None:
    with virtual_clock() as clock, Client() as client:
        dhaga.sleep(30)
        found = Answer(client.trickle(get("/" + "a" * 100), 0.5))
        assert (found.status, found.fields["connection"]) == ("408 Request Timeout", "close")
        assert 49 <= clock.now <= 53


def test_a_body_may_take_as_long_as_it_comes_without_a_rate() -> None:
    with virtual_clock() as clock, Client(limits=replace(LIMITS, min_body_rate=None)) as client:
        client.sock.sendall(post(b"x" * 10)[:-10])
        client.sock.settimeout(1000)
        for _ in range(10):
            client.sock.sendall(b"x")
            dhaga.sleep(9)
        assert Answer(client.sock.recv(65536)).body == b"x" * 10
        assert clock.now == 90


def test_a_body_that_trickles_in_ends() -> None:
    with virtual_clock() as clock, Client() as client:
        head = post(b"x" * 1000)[:-1000]
        client.sock.sendall(head)
        assert Answer(client.trickle(b"x" * 1000, 2)).status == "408 Request Timeout"
        assert 10 <= clock.now <= 14


def test_a_body_that_keeps_the_rate_may_take_as_long_as_it_comes() -> None:
    with virtual_clock() as clock, Client() as client:
        client.sock.sendall(post(b"x" * 60_000)[:-60_000])
        client.sock.settimeout(1000)
        for _ in range(60):
            client.sock.sendall(b"x" * 1000)
            dhaga.sleep(2)
        assert Answer(client.sock.recv(65536)).status == "200 OK"
        assert clock.now == 120


def test_an_app_may_read_as_slowly_as_it_likes() -> None:
    def slow(environ: Any, start_response: Any) -> list[bytes]:
        for _ in range(10):
            dhaga.sleep(100)
            environ["wsgi.input"].read(1)
        start_response("200 OK", list(TEXT))
        return [b"done"]

    with virtual_clock() as clock, Client(slow) as client:
        client.sock.sendall(post(b"x" * 10)[:-10])
        for _ in range(10):
            dhaga.sleep(99)
            client.sock.sendall(b"x")
        assert Answer(client.sock.recv(65536)).body == b"done"
        assert clock.now == 1000


def test_an_empty_line_and_silence_is_an_idle_connection() -> None:
    for stray in (b"\r\n", b"\r"):
        with virtual_clock() as clock, Client() as client:
            client.sock.sendall(post(b"abc") + stray)
            assert Answer(client.sock.recv(65536)).body == b"abc"
            assert (to_the_end(client.sock), times(clock)) == (b"", 50)


def test_an_empty_line_before_a_late_request_is_dropped() -> None:
    with virtual_clock(), Client() as client:
        client.sock.sendall(b"\r")
        dhaga.sleep(40)
        client.sock.sendall(b"\n" + get())
        assert Answer(client.sock.recv(65536)).status == "200 OK"


def test_a_body_that_stops_ends_at_the_body_timeout() -> None:
    with virtual_clock() as clock, Client() as client:
        client.sock.sendall(post(b"abc")[:-1])
        assert Answer(to_the_end(client.sock)).status == "408 Request Timeout"
        assert 10 <= clock.now <= 12


def test_an_unread_body_that_trickles_in_does_not_hold_the_connection() -> None:
    def silent(environ: Any, start_response: Any) -> list[bytes]:
        start_response("200 OK", list(TEXT))
        return []

    with virtual_clock() as clock, Client(silent) as client:
        assert client.trickle(post(b"x" * 1000), 0.1).startswith(b"HTTP/1.1 200 OK")
        assert clock.now < 12


def test_a_client_that_does_not_read_is_cut_off() -> None:
    def endless(environ: Any, start_response: Any) -> Any:
        start_response("200 OK", list(TEXT))
        while True:
            yield b"x" * 100_000

    with virtual_clock() as clock, Client(endless) as client:
        client.sock.sendall(get())
        client.dhaga.join()
        assert times(clock) == 5


def test_a_client_that_reads_slowly_gets_all_of_it() -> None:
    def large(environ: Any, start_response: Any) -> Any:
        start_response("200 OK", list(TEXT))
        return [b"x" * 3_000_000]

    with virtual_clock() as clock, Client(large) as client:
        client.sock.sendall(get("/", "Connection: close"))
        got = 0
        while more := client.sock.recv(200_000):
            got += len(more)
            dhaga.sleep(4)
        assert got > 3_000_000 and clock.now > 5


def test_while_the_app_works_there_is_no_deadline() -> None:
    with virtual_clock() as clock, Client() as client:
        client.sock.sendall(get("/long", "Connection: close"))
        assert Answer(to_the_end(client.sock)).status == "200 OK"
        assert times(clock) == 1000


def test_without_timeouts_a_client_may_be_as_slow_as_it_likes() -> None:
    limits = Limits(idle_timeout=None, header_timeout=None, body_timeout=None, write_timeout=None)
    with virtual_clock() as clock, Client(limits=limits) as client:
        dhaga.sleep(10_000)
        assert b"abc" in client.trickle(post(b"abc", "Connection: close"), 1000)
        assert clock.now > 50_000


def test_a_writer_in_another_dhaga_is_the_one_whose_time_is_over() -> None:
    heard: list[Any] = []

    def app(environ: Any, start_response: Any) -> list[bytes]:
        write = start_response("200 OK", list(TEXT))

        def writer() -> None:
            with pytest.raises(OSError, match="read nothing for 5 s"):
                while True:
                    write(b"x" * 100_000)
            heard.append(clock.now)

        dhaga.spawn(writer).join()
        heard.append("joined")
        return []

    with virtual_clock() as clock, Client(app) as client:
        client.sock.sendall(get())
        client.dhaga.join()
    assert heard == [5, "joined"]


def test_a_client_that_never_stops_sending_is_read_for_two_seconds_after_the_response() -> None:
    class Flooded:
        """A socket that always has data. After the shutdown, each receive takes half a second."""

        def __init__(self, sock: socket.socket) -> None:
            self.sock = sock
            self.seconds = 0.0

        def __getattr__(self, name: str) -> Any:
            return getattr(self.sock, name)

        def recv(self, size: int) -> bytes:
            clock.now += self.seconds
            assert clock.now < 100, "the server reads for ever"
            return b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n"

        def shutdown(self, how: int) -> None:
            self.seconds = 0.5

    near, far = socket.socketpair()
    with virtual_clock() as clock, near, far:
        sock: Any = Flooded(near)
        server = Server(lambda e, s: [s("200 OK", list(TEXT)) and b""], limits=replace(LIMITS, write_timeout=None))
        dhaga.spawn(server.serve, sock, "").join()
        assert times(clock) == 2


def test_a_limit_that_ends_while_its_dhaga_is_woken_holds_for_the_rest_of_the_wait() -> None:
    trace: list[Any] = []

    def wait() -> None:
        timer = IdleTimer(dhaga.current())
        timer.arm(10)
        dhaga.park("the first byte")
        trace.append("woken")
        with pytest.raises(TimeoutError):
            dhaga.park("the next byte")
        trace.append(times(clock))
        timer.close()

    with virtual_clock() as clock:
        waiting = dhaga.spawn(wait)
        settle()
        waiting.wake()
        clock.now = 10
        waiting.scheduler.timers.fire(clock.now)
        waiting.join()
    assert trace == ["woken", 10.05]


def test_a_send_leaves_the_limit_of_a_read_in_another_dhaga() -> None:
    heard: list[Any] = []

    def app(environ: Any, start_response: Any) -> list[bytes]:
        write = start_response("200 OK", list(TEXT))

        def read() -> None:
            with pytest.raises(OSError, match="too slowly"):
                environ["wsgi.input"].read()
            heard.append(times(clock))

        reader = dhaga.spawn(read)
        dhaga.sleep(1)
        write(b"x")
        reader.join(100)
        return []

    with virtual_clock() as clock, Client(app) as client:
        client.sock.sendall(post(b"abc")[:-1])
        to_the_end(client.sock)
    assert heard == [10]


def test_a_wait_in_another_os_thread_is_not_limited_and_leaves_the_timer_as_it_was() -> None:
    timer = IdleTimer(this_waiter())
    timer.arm(10)
    before = timer.waiter, timer.deadline, timer.timer
    dhaga.offload(timer.arm, 5)
    assert (timer.waiter, timer.deadline, timer.timer) == before
    timer.close()


def test_a_hundred_slow_clients_cost_a_parked_dhaga_each_and_hold_up_nobody() -> None:
    with virtual_clock() as clock:
        slow = [Client() for _ in range(100)]
        for client in slow:
            client.sock.sendall(b"GET / HT")
        dhaga.sleep(1)
        assert {client.dhaga.state for client in slow} == {"WAITING"}
        with Client() as quick:
            quick.sock.sendall(get("/", "Connection: close"))
            assert Answer(to_the_end(quick.sock)).status == "200 OK"
            assert clock.now == 1
        for client in slow:
            assert Answer(to_the_end(client.sock)).status == "408 Request Timeout"
            client.__exit__()
        assert 20 <= clock.now <= 22.1


def test_over_tls_time_runs_out_just_so() -> None:
    def endless(environ: Any, start_response: Any) -> Any:
        start_response("200 OK", list(TEXT))
        while True:
            yield b"x" * 100_000

    with virtual_clock() as clock, tls() as (near, far):
        served = dhaga.spawn(Server(endless, limits=LIMITS).serve, far, "")
        near.sendall(get()[:5])
        dhaga.sleep(19)
        near.sendall(get()[5:])
        served.join()
        assert times(clock) == 24
    with virtual_clock() as clock, tls() as (near, far):
        dhaga.spawn(Server(echo, limits=LIMITS).serve, far, "").join()
        assert times(clock) == 50
