"""dhaga.stream: reads of every kind, cut short and taken up by others, on Tornado's own streams."""

from __future__ import annotations

import socket as stdsocket
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import tornado
from tornado.iostream import IOStream, StreamClosedError, UnsatisfiableReadError

import dhaga
from dhaga import stream
from dhaga.stream import Stream
from dhaga.testing import virtual_clock
from tests.parking import parked

Pair = tuple[Stream, Stream]


@pytest.fixture
def pair() -> Iterator[Pair]:
    near, far = dhaga.spawn(make_pair).result()
    yield near, far
    near.close()
    far.close()


def make_pair(**options: Any) -> Pair:
    near, far = stdsocket.socketpair()
    return Stream(IOStream(near, **options)), Stream(IOStream(far, **options))


KINDS: list[tuple[str, Callable[[Stream], Any], bytes]] = [
    ("read_bytes", lambda s: s.read_bytes(5), b"ab\r\n-"),
    ("partial", lambda s: s.read_bytes(9, partial=True), b"ab\r\n-rest"),
    ("read_until", lambda s: s.read_until(b"\r\n"), b"ab\r\n"),
    ("read_until_regex", lambda s: s.read_until_regex(rb"\n-+"), b"ab\r\n-"),
    ("read_into", lambda s: filled(s, 5), b"ab\r\n-"),
]


def error_of(fn: Callable[..., object], *args: Any) -> BaseException:
    with pytest.raises(Exception) as caught:
        fn(*args)
    return caught.value


def filled(near: Stream, size: int) -> bytes:
    data = bytearray(size)
    assert near.read_into(data) == size
    return bytes(data)


@pytest.mark.parametrize("kind, read, expected", KINDS, ids=[kind[0] for kind in KINDS])
def test_a_read_gets_its_bytes_and_leaves_the_rest(
    pair: Pair, kind: str, read: Callable[[Stream], Any], expected: bytes
) -> None:
    near, far = pair
    reader = parked(read, near)
    far.write(b"ab\r\n-rest")
    assert reader.result() == expected
    far.close()
    assert near.read_until_close() == b"ab\r\n-rest"[len(expected) :]


@pytest.mark.parametrize("first", KINDS, ids=[kind[0] for kind in KINDS])
@pytest.mark.parametrize("second", KINDS, ids=[kind[0] for kind in KINDS])
@pytest.mark.parametrize("early", [b"", b"a", b"ab\r"])
def test_what_a_cancelled_reader_waited_for_is_the_next_ones(pair: Pair, first: Any, second: Any, early: bytes) -> None:
    near, far = pair
    if first[0] == "partial" and early:
        early = b""  # it would have them
    reader = parked(first[1], near)
    if early:
        far.write(early)
        dhaga.sleep(0.01)
    reader.cancel()
    with pytest.raises(dhaga.Cancelled):
        reader.result()
    far.write(b"ab\r\n-rest"[len(early) :])
    far.close()
    got = second[1](near)
    assert got == second[2] or (second[0] == "partial" and got == early)
    assert got + near.read_until_close() == b"ab\r\n-rest"


def test_readers_take_turns_in_the_order_they_come(pair: Pair) -> None:
    near, far = pair
    readers = [parked(near.read_bytes, 2), parked(near.read_until, b"\n"), parked(near.read_bytes, 1)]
    far.write(b"aabb\nc")
    assert [reader.result() for reader in readers] == [b"aa", b"bb\n", b"c"]


def test_writers_keep_their_order(pair: Pair) -> None:
    near, far = pair
    pieces = [bytes([n]) * 200_000 for n in range(8)]
    writers = [dhaga.spawn(near.write, piece) for piece in pieces]
    assert far.read_bytes(1_600_000) == b"".join(pieces)
    assert [writer.result() for writer in writers] == [None] * 8


def test_what_a_cancelled_writer_has_handed_over_is_written(pair: Pair) -> None:
    near, far = pair
    data = bytes(range(256)) * 20_000
    writer = parked(near.write, data)
    assert writer.cancel()
    with pytest.raises(dhaga.Cancelled):
        writer.result()
    dhaga.spawn(near.write, b"end")
    assert far.read_bytes(len(data) + 3) == data + b"end"


@pytest.mark.parametrize("read", ["read_until", "read_until_regex"])
@pytest.mark.parametrize("data", [b"123456", b"123456\n"])
def test_a_read_beyond_its_limit_closes_the_stream(pair: Pair, read: str, data: bytes) -> None:
    near, far = pair
    far.write(data)
    with pytest.raises(StreamClosedError) as caught:
        getattr(near, read)(b"\n", max_bytes=5)
    assert isinstance(caught.value.real_error, UnsatisfiableReadError)
    assert near.closed()


def test_a_read_up_to_its_limit_is_within(pair: Pair) -> None:
    near, far = pair
    far.write(b"1234\n5")
    assert near.read_until(b"\n", max_bytes=5) == b"1234\n"


def test_a_buffer_that_is_full_closes_the_stream() -> None:
    near, far = dhaga.spawn(make_pair, max_buffer_size=1000).result()
    with near, far:
        far.iostream.max_buffer_size = 10_000
        writer = dhaga.spawn(far.write, b"x" * 900)
        reader = parked(error_of, near.read_until, b"\n")
        writer.join()
        dhaga.spawn(far.write, b"x" * 900).join()
        assert isinstance(reader.result(), StreamClosedError)
        assert near.closed()


def test_a_timeout_ends_a_read_and_loses_nothing() -> None:
    with virtual_clock():

        def scenario() -> None:
            near, far = make_pair()
            with near, far:
                with pytest.raises(TimeoutError):
                    near.read_until(b"\n", timeout=30)
                far.write(b"line\n")
                assert near.read_until(b"\n", timeout=30) == b"line\n"

        dhaga.spawn(scenario).result()


def test_close_wakes_whoever_waits(pair: Pair) -> None:
    near, _ = pair
    waits = [(near.read_bytes, 1), (near.read_until, b"\n"), (near.write, bytes(10_000_000))]
    waiters = [parked(error_of, *wait) for wait in waits]
    near.close()
    assert [type(waiter.result()) for waiter in waiters] == [StreamClosedError] * 3
    assert repr(near) == "<Stream closed, 0 bytes read ahead>"


def test_a_line_cut_off_by_the_end_raises_and_stays(pair: Pair) -> None:
    near, far = pair
    far.write(b"half a li")
    far.close()
    with pytest.raises(StreamClosedError):
        near.read_until(b"\n")
    assert near.read_until_close() == b"half a li"


def test_a_stream_is_refused_in_another_thread(pair: Pair) -> None:
    near, _ = pair
    with dhaga.Scheduler("other") as other:
        assert "only close()" in str(other.spawn(error_of, near.read_bytes, 1).result())


def test_connect_reaches_a_listener() -> None:
    with stdsocket.create_server(("127.0.0.1", 0)) as listener:
        with stream.connect(listener.getsockname(), timeout=10) as near:
            far, _ = listener.accept()
            with far:
                near.write(b"ping")
                assert far.recv(4) == b"ping"
                far.sendall(b"pong")
                assert near.read_bytes(4) == b"pong"


def contexts() -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Return a server's and a client's, with the certificate of Tornado's own tests, of foo.example.com."""
    folder = Path(tornado.__file__).parent / "test"
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(folder / "test.crt", folder / "test.key")
    return server, ssl.create_default_context(cafile=str(folder / "test.crt"))


def test_start_tls_goes_on_encrypted(pair: Pair) -> None:
    near, far = pair
    server, client = contexts()
    client.check_hostname = False
    accepting = parked(far.start_tls, True, server)
    near.start_tls(False, client, timeout=10)
    accepting.result()
    near.write(b"hidden\n")
    assert far.read_until(b"\n") == b"hidden\n"
    assert near.iostream.socket.version().startswith("TLS")


@pytest.mark.logs
def test_start_tls_with_the_wrong_name_raises_and_closes(pair: Pair) -> None:
    near, far = pair
    server, client = contexts()
    accepting = parked(error_of, far.start_tls, True, server)
    with pytest.raises(ssl.SSLError):
        near.start_tls(False, client, "wrong.example.com", timeout=10)
    far.close()
    assert isinstance(accepting.result(), (ssl.SSLError, StreamClosedError))
    assert near.closed()


def test_start_tls_cut_short_closes(pair: Pair) -> None:
    near, far = pair
    shaking = parked(near.start_tls, False, contexts()[1], "foo.example.com")
    shaking.cancel()
    with pytest.raises(dhaga.Cancelled):
        shaking.result()
    far.read_until_close()  # ends: the other side is closed
    assert near.closed()


def test_close_ends_start_tls(pair: Pair) -> None:
    near, _ = pair
    shaking = parked(error_of, near.start_tls, False, contexts()[1], "foo.example.com")
    with pytest.raises(RuntimeError, match="is in start_tls"):
        near.write(b"too early")
    near.close()
    assert isinstance(shaking.result(), StreamClosedError)
    assert near.closed()
    with pytest.raises(StreamClosedError):
        near.read_bytes(1)


def test_start_tls_is_refused_while_somebody_reads(pair: Pair) -> None:
    near, _ = pair
    reader = parked(error_of, near.read_bytes, 1)
    with pytest.raises(ValueError, match="not idle"):
        near.start_tls()
    near.close()
    assert isinstance(reader.result(), StreamClosedError)


def test_connect_tells_that_nobody_listens() -> None:
    with stdsocket.create_server(("127.0.0.1", 0)) as listener:
        address = listener.getsockname()
    with pytest.raises(ConnectionRefusedError):
        stream.connect(address)
