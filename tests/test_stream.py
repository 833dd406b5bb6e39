"""dhaga.stream: reads of every kind, cut short and taken up by others, on Tornado's own streams."""

from __future__ import annotations

import array
import asyncio
import socket as stdsocket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tornado.iostream import IOStream, StreamBufferFullError, StreamClosedError, UnsatisfiableReadError

import dhaga
from dhaga.stream import Stream
from dhaga.testing import cancel_at_every_park, settle, virtual_clock
from tests.kit.parking import parked, victim
from tests.kit.scripts import Program

Pair = tuple[Stream, Stream]


@pytest.fixture
def pair() -> Iterator[Pair]:
    near, far = dhaga.spawn(make_pair).result()
    yield near, far
    near.close()
    far.close()


def make_pair(**options: Any) -> Pair:
    near, far = stdsocket.socketpair()
    return stream_over(near, **options), stream_over(far, **options)


def stream_over(sock: stdsocket.socket, **options: Any) -> Stream:
    async def make() -> IOStream:
        return IOStream(sock, **options)

    return Stream(dhaga.await_(make()))


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
        settle()
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


@pytest.mark.parametrize("size", [10, 3000])  # Tornado joins small pieces, and keeps large ones as they are
@pytest.mark.parametrize("view", [lambda items: items, lambda items: memoryview(items.tobytes())[::2]])
def test_buffers_of_any_layout_are_written_whole(pair: Pair, view: Callable[[Any], Any], size: int) -> None:
    near, far = pair
    data = view(array.array("I", range(size)))
    near.write(data)
    near.close()
    assert far.read_until_close() == memoryview(data).tobytes()


def test_a_buffer_may_be_reused_after_a_cancelled_write(pair: Pair) -> None:
    near, far = pair
    data = bytearray(b"x" * 3_000_000)
    writer = parked(near.write, data)
    assert writer.cancel()
    data[:] = b"y" * len(data)
    data.clear()
    assert far.read_bytes(3_000_000) == b"x" * 3_000_000


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


@pytest.mark.parametrize("read", [lambda s: s.read_until(b"\n"), lambda s: s.read_bytes(1001)])
def test_a_buffer_that_is_full_closes_the_stream(read: Callable[[Stream], bytes]) -> None:
    near, far = dhaga.spawn(make_pair, max_buffer_size=1000).result()
    with near, far:
        reader = parked(error_of, read, near)
        far.write(b"x" * 2000)
        error = reader.result()
        assert isinstance(error, StreamClosedError) and isinstance(error.real_error, StreamBufferFullError)
        assert near.closed()


@pytest.mark.parametrize(
    "read",
    [
        lambda s: s.read_bytes(-1),
        lambda s: s.read_bytes("1"),
        lambda s: s.read_until(b""),
        lambda s: s.read_until("\n"),
        lambda s: s.read_until_regex("x"),
        lambda s: s.read_into(b"12"),
        lambda s: s.write("text"),
    ],
)
def test_what_cannot_be_meant_is_refused_and_takes_nothing(pair: Pair, read: Callable[[Stream], object]) -> None:
    near, far = pair
    far.write(b"12345\n")
    assert near.read_bytes(1) == b"1"
    assert isinstance(error_of(read, near), (TypeError, ValueError))
    assert near.read_until(b"\n") == b"2345\n"


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


def test_a_read_of_nothing_waits_for_nothing(pair: Pair) -> None:
    near, _ = pair
    assert (near.read_bytes(0), near.read_into(bytearray())) == (b"", 0)


def test_another_thread_may_close_a_stream(pair: Pair) -> None:
    near, _ = pair
    reader = parked(error_of, near.read_bytes, 1)
    thread = threading.Thread(target=near.close)
    thread.start()
    assert isinstance(reader.result(), StreamClosedError)
    thread.join()


@pytest.mark.parametrize("read", [kind[1] for kind in KINDS], ids=[kind[0] for kind in KINDS])
def test_a_read_cut_short_at_any_park_loses_no_byte(read: Callable[[Stream], bytes]) -> None:
    def scenario() -> tuple[dhaga.Dhaga, Callable[[], object]]:
        near, far = dhaga.spawn(make_pair).result()
        got: list[bytes] = []
        pieces = [b"a", b"b\r", b"\n-", b"rest"]

        def send() -> None:
            for piece in pieces:
                far.write(piece)
                dhaga.sleep(1)
            far.close()

        def check() -> None:
            near.close()
            assert b"".join(got) == b"ab\r\n-rest"

        other = dhaga.spawn(lambda: got.append(near.read_bytes(1)))
        first = victim(lambda: got.append(read(near)))
        dhaga.spawn(lambda: (first.join(), other.join(), got.append(near.read_until_close())))
        dhaga.spawn(send)
        return first, check

    assert cancel_at_every_park(scenario) >= 2


def test_a_write_cut_short_at_any_park_is_written() -> None:
    def scenario() -> tuple[dhaga.Dhaga, Callable[[], object]]:
        near, far = dhaga.spawn(make_pair).result()
        size = 3_000_000
        writer = victim(near.write, bytes(size))
        dhaga.spawn(lambda: (writer.join(), near.write(b"end")))

        def read() -> None:
            assert far.read_bytes(size + 3) == bytes(size) + b"end"
            near.close()
            far.close()

        return writer, dhaga.spawn(read).result

    assert cancel_at_every_park(scenario) >= 1


# ---- lives


def run_by_uvloop(main: Any) -> Any:
    return pytest.importorskip("uvloop").run(main)


@pytest.mark.parametrize("run", [asyncio.run, run_by_uvloop])
def test_streams_work_on_a_loop_that_others_run(run: Any) -> None:
    def talk() -> bytes:
        near, far = make_pair()
        with near, far:
            reader = dhaga.spawn(near.read_until, b"\n")
            far.write(b"line\n")
            return reader.result()

    assert run(dhaga.aio.run_in_dhaga(talk)) == b"line\n"


@pytest.mark.parametrize("count", [50, pytest.param(2_000, marks=pytest.mark.slow)])
def test_many_streams_talk_at_once(count: int) -> None:
    def echo(sock: stdsocket.socket) -> None:
        with Stream(sock) as far:
            for _ in range(3):
                far.write(far.read_until(b"\n"))

    def talk(sock: stdsocket.socket, line: bytes) -> bool:
        with Stream(sock) as near:
            for _ in range(3):
                near.write(line)
                if near.read_until(b"\n") != line:
                    return False
        return True

    pairs = [stdsocket.socketpair() for _ in range(count)]
    echoes = [dhaga.spawn(echo, far) for _, far in pairs]
    talks = [dhaga.spawn(talk, near, b"%d\n" % number) for number, (near, _) in enumerate(pairs)]
    assert all(each.result() for each in talks)
    for each in echoes:
        each.join()


@pytest.mark.once
def test_ctrl_c_ends_a_read_of_main_code_and_loses_no_byte() -> None:
    code = """
        import socket, dhaga
        from dhaga.stream import Stream
        near, far = [Stream(end) for end in socket.socketpair()]
        far.write(b"half a ")
        dhaga.spawn(print, "waiting", flush=True)  # once the main code is parked
        try:
            near.read_until(b"\\n")
        except KeyboardInterrupt:
            far.write(b"line\\n")
            print(near.read_until(b"\\n"))
    """
    outcome = Program(code).interrupt_at("waiting").outcome()
    assert (outcome.status, outcome.lines, outcome.err) == (0, ["b'half a line\\n'"], "")
