"""Sockets: each blocking call parks within its timeout, closing wakes whoever waits, and no byte is lost."""

from __future__ import annotations

import array
import asyncio
import errno
import os
import resource
import socket as standard
import struct
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

import dhaga
from dhaga import resolve, socket
from dhaga.testing import cancel_at_every_park, open_fds, settle, virtual_clock

LOCAL = ("127.0.0.1", 0)


@contextmanager
def tcp() -> Iterator[tuple[Any, Any]]:
    """Two ends of a connection over loopback."""
    with socket.create_server(LOCAL) as listener:
        one = socket.create_connection(listener.getsockname())
        other, _ = listener.accept()
    with one, other:
        yield one, other


@contextmanager
def unix() -> Iterator[tuple[Any, Any]]:
    one, other = socket.socketpair()
    with one, other:
        yield one, other


def fill(sock: Any) -> int:
    """Send without waiting until nothing more fits."""
    former = sock.gettimeout()
    sock.setblocking(False)
    sent = 0
    with suppress(BlockingIOError):
        while True:
            sent += sock.send(bytes(1 << 16))
    sock.settimeout(former)
    return sent


def drain(sock: Any) -> int:
    """Receive without waiting until there is nothing."""
    former = sock.gettimeout()
    sock.setblocking(False)
    got = 0
    with suppress(BlockingIOError):
        while data := sock.recv(1 << 20):
            got += len(data)
    sock.settimeout(former)
    return got


def received(sock: Any, size: int, step: int = 1 << 16) -> bytes:
    """Receive as many bytes as that, or up to the end."""
    data = bytearray()
    while len(data) < size and (more := sock.recv(min(step, size - len(data)))):
        data += more
    return bytes(data)


def by_file(sock: Any) -> bytes:
    with sock.makefile("rb") as file:
        return file.read(1)


def send_a_file(sock: Any) -> int:
    with tempfile.TemporaryFile() as file:
        file.write(b"!")
        file.seek(0)
        return sock.sendfile(file)


READERS: dict[str, Callable[[Any], Any]] = {
    "recv": lambda sock: sock.recv(10),
    "recv with MSG_PEEK": lambda sock: sock.recv(10, socket.MSG_PEEK),
    "recv_into": lambda sock: sock.recv_into(bytearray(10)),
    "recvfrom": lambda sock: sock.recvfrom(10),
    "recvfrom_into": lambda sock: sock.recvfrom_into(bytearray(10)),
    "recvmsg": lambda sock: sock.recvmsg(10),
    "recvmsg_into": lambda sock: sock.recvmsg_into([bytearray(5), bytearray(5)]),
    "makefile": by_file,
}
WRITERS: dict[str, Callable[[Any], Any]] = {
    "send": lambda sock: sock.send(b"!"),
    "sendall": lambda sock: sock.sendall(b"!"),
    "sendmsg": lambda sock: sock.sendmsg([b"!"]),
    "sendfile": send_a_file,
    "makefile": lambda sock: write_by_file(sock),
}


def write_by_file(sock: Any) -> None:
    with sock.makefile("wb", buffering=0) as file:
        file.write(b"!")


def ends_within(seconds: float, d: Any) -> Any:
    """Return the result of a dhaga that must not hang."""
    try:
        return d.result(seconds)
    finally:
        d.cancel()
        with suppress(BaseException):
            d.join(1)


def caught(call: Callable[..., Any], *args: Any) -> BaseException | None:
    """Return the error that a call raises."""
    try:
        call(*args)
    except BaseException as error:
        return error
    return None


# ---- parking and timeouts


@pytest.mark.parametrize("pair", [tcp, unix])
@pytest.mark.parametrize("name", READERS)
def test_reading_parks_until_something_comes(name: str, pair: Any) -> None:
    with virtual_clock(), pair() as (one, other):
        d = dhaga.spawn(READERS[name], one)
        settle()
        assert f"WAITING read fd {one.fileno()}" in repr(d)
        other.send(b"?")
        result = ends_within(5, d)
        assert result in (b"?", 1) or result[0] in (b"?", 1)


@pytest.mark.parametrize("name", READERS)
def test_reading_honours_the_timeout(name: str) -> None:
    with virtual_clock() as clock, tcp() as (one, other):
        one.settimeout(7)
        d = dhaga.spawn(READERS[name], one)
        with pytest.raises(TimeoutError):
            d.result()
        assert clock() == 7
        if name != "makefile":  # a file that timed out reads no more
            other.send(b"?")
            READERS[name](one)


@pytest.mark.parametrize("name", READERS)
def test_reading_without_patience_raises_at_once(name: str) -> None:
    with unix() as (one, _):
        one.setblocking(False)
        if name == "makefile":
            with one.makefile("rb", buffering=0) as file:
                assert file.read(1) is None
        else:
            with pytest.raises(BlockingIOError):
                READERS[name](one)


@pytest.mark.parametrize("name", WRITERS)
def test_writing_parks_while_the_buffer_is_full(name: str) -> None:
    with virtual_clock(), unix() as (one, other):
        sent = fill(one)
        d = dhaga.spawn(WRITERS[name], one)
        settle()
        assert f"WAITING write fd {one.fileno()}" in repr(d)
        assert drain(other) == sent
        ends_within(5, d)
        assert other.recv(10) == b"!"


@pytest.mark.parametrize("name", WRITERS)
def test_writing_honours_the_timeout(name: str) -> None:
    with virtual_clock() as clock, unix() as (one, _):
        fill(one)
        one.settimeout(7)
        with pytest.raises(TimeoutError):
            dhaga.spawn(WRITERS[name], one).result()
        assert clock() == 7


def test_sendto_parks_while_a_named_unix_socket_has_no_room_and_honours_the_timeout(tmp_path: Path) -> None:
    with (
        virtual_clock() as clock,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender,
    ):
        path = str(tmp_path / "s")
        receiver.bind(path)
        sender.setblocking(False)
        with suppress(BlockingIOError):
            while True:
                sender.sendto(b"?", path)
        sender.settimeout(3)
        for send in (lambda: sender.sendto(b"!", path), lambda: sender.sendmsg([b"!"], [], 0, path)):
            began = clock()
            with pytest.raises(TimeoutError):
                send()
            assert clock() - began == pytest.approx(3)
        sender.settimeout(None)
        d = dhaga.spawn(sender.sendto, b"!", path)
        dhaga.sleep(1)
        assert d.state == "WAITING"
        assert receiver.recv(10) == b"?"
        assert ends_within(5, d) == 1


def test_accept_parks_and_honours_the_timeout() -> None:
    with virtual_clock() as clock, socket.create_server(LOCAL) as listener:
        listener.settimeout(5)
        with pytest.raises(TimeoutError):
            listener.accept()
        assert clock() == 5
        listener.settimeout(None)
        d = dhaga.spawn(listener.accept)
        settle()
        assert f"WAITING read fd {listener.fileno()}" in repr(d)
        with socket.create_connection(listener.getsockname()) as client:
            accepted, address = ends_within(5, d)
            with accepted:
                assert address == client.getsockname() and isinstance(accepted, socket.socket)
                assert accepted.gettimeout() is None and accepted.getblocking()


def test_connect_honours_the_timeout_and_lets_others_run() -> None:
    """A listener whose backlog is full answers nothing."""
    with virtual_clock() as clock, socket.create_server(LOCAL, backlog=0) as listener:
        address = listener.getsockname()
        clients = [socket.socket() for _ in range(4)]
        ticks: list[float] = []
        ticker = dhaga.spawn(lambda: [(dhaga.sleep(0.25), ticks.append(clock())) for _ in range(4)])
        timed_out = 0
        for client in clients:
            client.settimeout(2)
            try:
                client.connect(address)
            except TimeoutError:
                timed_out += 1
        ticker.join()
        assert timed_out and clock() >= 2 * timed_out and ticks[:4] == [0.25, 0.5, 0.75, 1]
        with socket.socket() as last:
            last.settimeout(1)
            assert last.connect_ex(address) == errno.EAGAIN
        for client in clients:
            client.close()


def test_connect_reports_a_refusal_as_the_standard_does() -> None:
    with socket.create_server(LOCAL) as listener:
        address = listener.getsockname()
    with socket.socket() as sock:
        assert sock.connect_ex(address) == errno.ECONNREFUSED
    with socket.socket() as sock, pytest.raises(ConnectionRefusedError):
        sock.connect(address)


def test_connect_to_a_unix_socket_parks_while_the_backlog_is_full(tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    with virtual_clock() as clock, socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(0)
        with socket.socket(socket.AF_UNIX) as first, socket.socket(socket.AF_UNIX) as second:
            first.connect(path)
            second.settimeout(3)
            with pytest.raises(TimeoutError):
                second.connect(path)
            assert clock() == pytest.approx(3)
            second.settimeout(None)
            d = dhaga.spawn(second.connect, path)
            dhaga.sleep(1)
            assert d.state == "WAITING"
            listener.accept()[0].close()
            ends_within(5, d)
            listener.accept()[0].close()


def test_the_timeout_of_sendall_bounds_the_whole_call() -> None:
    with virtual_clock() as clock, unix() as (one, other):
        one.settimeout(10)
        size = fill(one)
        d = dhaga.spawn(one.sendall, bytes(100 * size))

        def reads_slowly() -> None:
            while d.state != "DONE":
                dhaga.sleep(4)
                drain(other)

        reader = dhaga.spawn(reads_slowly)
        with pytest.raises(TimeoutError):
            d.result()
        assert clock() == 10
        reader.join()


def test_a_timeout_set_by_default_counts_for_new_sockets() -> None:
    standard.setdefaulttimeout(4)
    try:
        with virtual_clock() as clock:
            with socket.socket() as sock:
                assert sock.gettimeout() == sock.timeout == 4 and sock.getblocking()
            one, other = socket.socketpair()
            with one, other, pytest.raises(TimeoutError):
                one.recv(1)
            assert clock() == 4
    finally:
        standard.setdefaulttimeout(None)


@pytest.mark.parametrize("value", [-1, float("nan"), "1"])
def test_a_wrong_timeout_is_refused_and_changes_nothing(value: Any) -> None:
    with socket.socket() as sock:
        sock.settimeout(3)
        with pytest.raises((ValueError, TypeError)):
            sock.settimeout(value)
        assert sock.gettimeout() == 3


def test_a_plain_thread_waits_for_real_and_honours_the_timeout() -> None:
    outcome: list[object] = []

    def thread_code() -> None:
        with unix() as (one, other):
            one.settimeout(0.05)
            began = time.monotonic()
            try:
                one.recv(1)
            except TimeoutError:
                outcome.append(time.monotonic() - began)
            other.send(b"x")
            outcome.append(one.recv(1))

    thread = threading.Thread(target=thread_code)
    thread.start()
    thread.join()
    assert 0.04 <= outcome[0] < 1 and outcome[1] == b"x"  # type: ignore[operator]


def test_dhagas_of_a_scheduler_go_on_while_another_waits_on_a_socket() -> None:
    with tcp() as (one, other):
        steps: list[int] = []

        def counts() -> None:
            for n in range(5):
                dhaga.sleep(0.001)
                steps.append(n)
            other.send(b"now")

        counter = dhaga.spawn(counts)
        assert one.recv(10) == b"now" and steps == [0, 1, 2, 3, 4]
        counter.join()


# ---- closing


def same_scheduler(call: Callable[[], Any], sock: Any, then: Callable[[], None]) -> Any:
    d = dhaga.spawn(caught, call)
    settle()
    assert d.state == "WAITING"
    then()
    return d.result(5)


def another_scheduler(call: Callable[[], Any], sock: Any, then: Callable[[], None]) -> Any:
    with dhaga.Scheduler() as scheduler:
        d = scheduler.spawn(caught, call)
        while d.state != "WAITING":
            time.sleep(0.001)
        then()
        return d.result(5)


def plain_thread(call: Callable[[], Any], sock: Any, then: Callable[[], None]) -> Any:
    errors: list[BaseException | None] = []
    thread = threading.Thread(target=lambda: errors.append(caught(call)))
    thread.start()
    while None not in sock.channels or not sock.channels[None].buttons:
        time.sleep(0.001)
    then()
    thread.join(5)
    assert not thread.is_alive()
    return errors[0]


@pytest.mark.parametrize("end", ["close", "detach"])
@pytest.mark.parametrize("run", [same_scheduler, another_scheduler, plain_thread])
@pytest.mark.parametrize("what", ["recv", "recvmsg", "accept", "send", "sendall"])
def test_closing_wakes_a_waiter_with_an_error(what: str, run: Any, end: str) -> None:
    def ended() -> None:
        if end == "close":
            sock.close()
        else:
            os.close(sock.detach())

    with unix() as (one, _):
        sock: Any = one
        if what == "accept":
            sock = socket.create_server(LOCAL)
        elif what.startswith("send"):
            fill(one)
        call = {**READERS, **WRITERS, "accept": lambda sock: sock.accept()}[what]
        error = run(lambda: call(sock), sock, ended)
        assert isinstance(error, OSError) and error.errno == errno.EBADF
        assert sock.fileno() == -1


def test_closing_wakes_all_waiters_readers_and_writers() -> None:
    with unix() as (one, _):
        fill(one)
        dhagas = [dhaga.spawn(caught, READERS["recv"], one) for _ in range(3)]
        dhagas += [dhaga.spawn(caught, WRITERS["send"], one) for _ in range(3)]
        settle()
        one.close()
        for d in dhagas:
            error = d.result(5)
            assert isinstance(error, OSError) and error.errno == errno.EBADF


USES: dict[str, Callable[[Any], Any]] = {
    **READERS,
    **WRITERS,
    "accept": lambda sock: sock.accept(),
    "connect": lambda sock: sock.connect("x"),
    "sendto": lambda sock: sock.sendto(b"", "x"),
    "listen": lambda sock: sock.listen(),
    "getpeername": lambda sock: sock.getpeername(),
}
del USES["sendfile"]  # falls back to send, as in the standard


@pytest.mark.parametrize("name", USES)
def test_a_closed_socket_refuses_to_be_used(name: str) -> None:
    one, other = socket.socketpair()
    dhaga.spawn(other.send, b"x").join()
    assert one.recv(1) == b"x"  # it has a channel
    other.close()
    one.close()
    one.close()
    with pytest.raises(OSError) as info:
        USES[name](one)
    assert info.value.errno == errno.EBADF


def test_connect_ex_of_a_closed_socket_returns_or_raises_ebadf() -> None:
    sock = socket.socket()
    sock.close()
    try:
        number = sock.connect_ex(("127.0.0.1", 1))
    except OSError as error:
        number = error.errno or 0
    assert number == errno.EBADF


def test_a_coroutine_gets_park_error_only_where_it_would_have_to_wait() -> None:
    async def main() -> None:
        with unix() as (one, other):
            other.send(b"here")
            assert one.recv(10) == b"here"
            for call in (READERS["recv"], READERS["recvmsg"], READERS["recv_into"]):
                with pytest.raises(dhaga.ParkError):
                    call(one)
            fill(one)
            with pytest.raises(dhaga.ParkError):
                one.sendall(b"x")
            with socket.create_server(LOCAL) as listener, pytest.raises(dhaga.ParkError):
                listener.accept()

    asyncio.run(main())


# ---- the stream


def test_a_cancelled_reader_loses_no_byte() -> None:
    chunks = [bytes([65 + n]) * (n + 2) for n in range(6)]

    def scenario() -> Any:
        one, other = socket.socketpair()
        got = bytearray()

        def reads() -> None:
            with suppress(TimeoutError):
                while data := one.recv(3):
                    got.extend(data)

        def writes() -> None:
            with other:
                for chunk in chunks:
                    other.send(chunk)
                    dhaga.sleep(1)

        def check() -> None:
            with one:
                while data := one.recv(100):
                    got.extend(data)
            assert bytes(got) == b"".join(chunks)

        victim = dhaga.spawn(reads)
        dhaga.spawn(writes)
        return victim, check

    assert cancel_at_every_park(scenario) >= 5


def test_a_cancelled_acceptor_loses_no_connection() -> None:
    def scenario() -> Any:
        listener = socket.create_server(LOCAL)
        accepted: list[Any] = []
        clients: list[Any] = []

        def accepts() -> None:
            while len(accepted) < 3:
                accepted.append(listener.accept()[0])

        def accepts_in_time() -> None:
            with suppress(TimeoutError):
                accepts()

        def connects() -> None:
            for _ in range(3):
                clients.append(socket.create_connection(listener.getsockname()))
                dhaga.sleep(1)

        def check() -> None:
            with listener:
                accepts()
            assert [a.getpeername() for a in accepted] == [c.getsockname() for c in clients]
            for sock in accepted + clients:
                sock.close()

        victim = dhaga.spawn(accepts_in_time)
        dhaga.spawn(connects)
        return victim, check

    assert cancel_at_every_park(scenario) >= 3


def test_a_cancelled_sender_has_sent_a_prefix() -> None:
    data = bytes(range(256)) * 4096

    def scenario() -> Any:
        one, other = socket.socketpair()
        got = bytearray()

        def reads() -> None:
            with other:
                while more := other.recv(100_000):
                    got.extend(more)
                    dhaga.sleep(1)

        def writes() -> None:
            with one, suppress(TimeoutError):
                one.sendall(data)

        victim = dhaga.spawn(writes)
        dhaga.spawn(reads)
        return victim, lambda: check(bytes(got))

    def check(got: bytes) -> None:
        assert got == data[: len(got)]

    assert cancel_at_every_park(scenario) >= 2


@pytest.mark.parametrize("pair", [tcp, unix])
def test_reader_and_writer_are_parked_on_one_socket(pair: Any) -> None:
    with pair() as (one, other):
        sent = fill(one)
        reader = dhaga.spawn(one.recv, 10)
        writer = dhaga.spawn(one.sendall, b"end")
        settle()
        assert reader.state == "WAITING"
        other.send(b"hello")
        assert ends_within(5, reader) == b"hello"
        assert received(other, sent + 3)[-3:] == b"end"
        ends_within(5, writer)


def test_several_acceptors_on_one_listener_get_a_connection_each() -> None:
    with socket.create_server(LOCAL) as listener:
        acceptors = [dhaga.spawn(listener.accept) for _ in range(8)]
        settle()
        clients = [socket.create_connection(listener.getsockname()) for _ in range(8)]
        accepted = [ends_within(5, d) for d in acceptors]
        assert {address for _, address in accepted} == {client.getsockname() for client in clients}
        for sock in [*clients, *(sock for sock, _ in accepted)]:
            sock.close()


def test_several_readers_of_one_socket_lose_nothing() -> None:
    with tcp() as (one, other):
        readers = [dhaga.spawn(one.recv, 1) for _ in range(5)]
        settle()
        other.send(b"abcde")
        assert sorted(ends_within(5, d) for d in readers) == [b"a", b"b", b"c", b"d", b"e"]


def test_schedulers_and_threads_may_share_a_socket() -> None:
    with tcp() as (one, other), dhaga.Scheduler() as scheduler:
        got: list[bytes] = []
        readers = [dhaga.spawn(one.recv, 1), scheduler.spawn(one.recv, 1)]
        thread = threading.Thread(target=lambda: got.append(one.recv(1)))
        thread.start()
        other.send(b"abc")
        got += [d.result(5) for d in readers]
        thread.join(5)
        assert sorted(got) == [b"a", b"b", b"c"]


@pytest.mark.parametrize("pair", [tcp, unix])
def test_more_data_after_a_short_read_is_seen(pair: Any) -> None:
    with pair() as (one, other):

        def reads() -> list[bytes]:
            return [one.recv(100) for _ in range(20)]

        d = dhaga.spawn(reads)
        for n in range(20):
            settle()
            other.send(b"x" * (n + 1))
            settle()
        assert [len(data) for data in ends_within(5, d)] == list(range(1, 21))


@pytest.mark.parametrize("pair", [tcp, unix])
def test_the_end_directly_after_data_is_seen(pair: Any) -> None:
    for parked_first in (True, False):
        with pair() as (one, other):
            d = dhaga.spawn(lambda one: [one.recv(100), one.recv(100), one.recv(100)], one)
            if parked_first:
                settle()
            other.sendall(b"data")
            other.close()
            assert ends_within(5, d) == [b"data", b"", b""]


def test_a_short_read_spares_the_next_one_a_system_call_with_a_timeout_too(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    plain_recv = socket.plain_recv

    def counted(sock: Any, *args: Any) -> bytes:
        calls.append(args[0])
        return plain_recv(sock, *args)

    monkeypatch.setattr(socket, "plain_recv", counted)
    with tcp() as (one, other):
        one.settimeout(60)
        got: list[bytes] = []
        d = dhaga.spawn(lambda: [got.append(one.recv(100)) for _ in range(4)])
        for _ in range(4):
            settle()
            other.sendall(b"x")
        ends_within(5, d)
    assert got == [b"x"] * 4 and len(calls) == 5  # the first read of all tries in vain


@pytest.mark.parametrize("pair", [tcp, unix])
def test_the_end_between_a_short_read_and_the_next_is_seen(pair: Any) -> None:
    with pair() as (one, other):
        d = dhaga.spawn(lambda: [one.recv(100), one.recv(100)])
        other.send(b"data")
        settle()
        other.close()
        assert ends_within(5, d) == [b"data", b""]


@pytest.mark.parametrize("pair", [tcp, unix])
def test_half_closed_the_other_half_still_goes(pair: Any) -> None:
    with pair() as (one, other):
        d = dhaga.spawn(lambda: [one.recv(100), one.recv(100)])
        settle()
        other.sendall(b"request")
        other.shutdown(socket.SHUT_WR)
        assert ends_within(5, d) == [b"request", b""]
        one.sendall(b"answer")
        assert other.recv(100) == b"answer"


def test_shutdown_by_our_own_side_wakes_the_reader() -> None:
    with tcp() as (one, _):
        d = dhaga.spawn(one.recv, 10)
        settle()
        one.shutdown(socket.SHUT_RDWR)
        assert ends_within(5, d) == b""


def test_a_reset_wakes_reader_and_writer() -> None:
    with tcp() as (one, other):
        fill(one)
        reader, writer = dhaga.spawn(caught, one.recv, 10), dhaga.spawn(caught, one.sendall, bytes(1 << 22))
        settle()
        other.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        other.close()
        errors = [ends_within(5, reader), ends_within(5, writer)]
        # The first to run gets the reset, the other the end of the stream or a broken pipe.
        assert any(isinstance(error, ConnectionResetError) for error in errors)
        assert errors[1] is not None


@pytest.mark.parametrize("take", [True, False])
@pytest.mark.parametrize("inline", [True, False])
def test_urgent_data_in_mid_stream_does_not_hang(take: bool, inline: bool) -> None:
    with tcp() as (one, other):
        if inline:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_OOBINLINE, 1)

        def reads() -> bytes:
            got = bytearray()
            while more := one.recv(100):
                got += more
                if take and not inline and b"ab" in got and b"!" not in got:
                    with suppress(OSError):
                        got += one.recv(1, socket.MSG_OOB)
            return bytes(got)

        d = dhaga.spawn(reads)
        settle()
        other.send(b"ab")
        settle()
        other.send(b"!", socket.MSG_OOB)
        other.send(b"cd")
        other.shutdown(socket.SHUT_WR)
        got = ends_within(5, d)
        assert got.replace(b"!", b"") == b"abcd" and (b"!" in got or not inline)


def test_urgent_data_sent_before_anybody_reads_does_not_hang() -> None:
    with tcp() as (one, other):
        other.send(b"ab")
        other.send(b"!", socket.MSG_OOB)
        other.send(b"cd")
        assert ends_within(5, dhaga.spawn(received, one, 4)) == b"abcd"


@pytest.mark.parametrize("parked_first", [True, False])
def test_descriptors_passed_in_mid_stream_do_not_hang_the_reader(parked_first: bool) -> None:
    bell, button = os.pipe()
    with unix() as (one, other):

        def reads() -> tuple[bytes, list[int]]:
            got, fds = bytearray(), array.array("i")
            while len(got) < 6:
                data, ancillary, _, _ = one.recvmsg(100, socket.CMSG_SPACE(4))
                got += data
                for _, _, content in ancillary:
                    fds.frombytes(content)
            return bytes(got), list(fds)

        d = dhaga.spawn(reads)
        if parked_first:
            settle()
        other.send(b"ab")
        socket.send_fds(other, [b"cd"], [button])
        other.send(b"ef")
        got, fds = ends_within(5, d)
        assert got == b"abcdef" and len(fds) == 1
        os.write(fds[0], b"!")
        assert os.read(bell, 1) == b"!"
    for fd in (bell, button, *fds):
        os.close(fd)


def test_descriptors_passed_to_a_plain_recv_do_not_hang_it() -> None:
    with unix() as (one, other), open(os.devnull) as file:
        d = dhaga.spawn(received, one, 60, 100)
        for _ in range(10):
            other.send(b"ab")
            socket.send_fds(other, [b"cd"], [file.fileno()])
            other.send(b"ef")
            settle()
        assert ends_within(5, d) == b"abcdef" * 10


@pytest.mark.parametrize("pair", [tcp, unix])
def test_a_big_sendall_gets_through_a_slow_reader(pair: Any) -> None:
    data = os.urandom(1 << 12) * (1 << 10)
    with pair() as (one, other):
        d = dhaga.spawn(lambda: (one.sendall(data), one.shutdown(socket.SHUT_WR)))
        got = bytearray()
        while more := other.recv(50_000):
            got += more
            dhaga.sleep(0)
        d.result(5)
        assert got == data


def test_sendall_takes_a_view_of_items_wider_than_a_byte() -> None:
    items = array.array("q", range(1 << 17))
    with unix() as (one, other):
        d = dhaga.spawn(one.sendall, memoryview(items))
        got = received(other, len(items) * 8)
        d.result(5)
        assert got == items.tobytes()
        d = dhaga.spawn(one.sendall, items)
        assert received(other, len(items) * 8) == items.tobytes()
        d.result(5)


def test_recv_into_fills_a_buffer_of_items_wider_than_a_byte() -> None:
    """A short read is short in bytes, not items."""
    with tcp() as (one, other):
        buffer = array.array("q", [0] * 4)
        sizes: list[int] = []
        d = dhaga.spawn(lambda: [sizes.append(one.recv_into(buffer)) for _ in range(3)])
        settle()
        for _ in range(3):
            other.send(array.array("q", [7]).tobytes())
            settle()
        ends_within(5, d)
        assert sizes == [8, 8, 8] and buffer[0] == 7
        other.send(bytes(40))
        assert one.recv_into(buffer) == 32 and one.recv_into(buffer) == 8


def test_zero_bytes_are_received_without_waiting() -> None:
    with virtual_clock(), unix() as (one, _):
        dhaga.spawn(one.recv, 0).result()
        with pytest.raises(ValueError):
            dhaga.spawn(one.recv, -1).result()


def test_wait_all_parks_until_everything_is_there_or_the_stream_ends() -> None:
    with tcp() as (one, other):
        d = dhaga.spawn(one.recv, 6, socket.MSG_WAITALL)
        settle()
        other.send(b"abc")
        settle()
        assert d.state == "WAITING"
        other.send(b"defg")
        assert ends_within(5, d) == b"abcdef"
        other.close()
        assert dhaga.spawn(one.recv, 6, socket.MSG_WAITALL).result(5) == b"g"


def test_peeking_takes_nothing() -> None:
    with tcp() as (one, other):
        other.send(b"abc")
        d = dhaga.spawn(lambda: [one.recv(10, socket.MSG_PEEK), one.recv(10, socket.MSG_PEEK), one.recv(10)])
        assert ends_within(5, d) == [b"abc"] * 3


@pytest.mark.parametrize("pair", [tcp, unix])
def test_non_blocking_mode_after_a_short_read_sees_new_data(pair: Any) -> None:
    with pair() as (one, other):

        def reads() -> None:
            assert one.recv(100) == b"one"
            one.setblocking(False)
            with pytest.raises(BlockingIOError):
                one.recv(100)
            other.send(b"two")
            assert one.recv(100) == b"two"
            one.setblocking(True)
            other.send(b"three")
            assert one.recv(100) == b"three"
            one.settimeout(0)
            other.send(b"four")
            assert one.recv_into(bytearray(100)) == 4

        d = dhaga.spawn(reads)
        settle()
        other.send(b"one")
        ends_within(5, d)


@pytest.mark.skipif(not hasattr(os, "sendfile"), reason="this platform has no sendfile")
def test_sendfile_sends_from_an_offset_and_moves_the_file() -> None:
    data = os.urandom(1 << 20)
    with tcp() as (one, other), tempfile.TemporaryFile() as file:
        file.write(data)
        d = dhaga.spawn(one.sendfile, file, 1000, 900_000)
        assert received(other, 900_000) == data[1000:901_000]
        assert d.result(5) == 900_000 and file.tell() == 901_000
        file.seek(0)
        d = dhaga.spawn(one.sendfile, file)
        assert received(other, len(data)) == data
        assert d.result(5) == len(data)


def test_sendfile_of_a_file_that_cannot_be_read_raises_as_the_standard_one(tmp_path: Path) -> None:
    """The system calls that a bad descriptor, as it does a closed socket."""
    errors = []
    with open(tmp_path / "file", "w+b") as filled:
        filled.write(b"content")
    with open(tmp_path / "file", "ab") as file, tcp() as (one, _):
        with standard.socket(fileno=os.dup(one.fileno())) as its:
            for sock in (one, its):
                with pytest.raises(OSError) as info:
                    sock.sendfile(file)
                errors.append((type(info.value), str(info.value)))
    assert errors[0] == errors[1]


# ---- ways to make one


def test_dup_shares_the_connection_and_lives_on() -> None:
    with tcp() as (one, other):
        twin = one.dup()
        assert isinstance(twin, socket.socket) and twin.fileno() != one.fileno()
        one.close()
        with twin:
            d = dhaga.spawn(twin.recv, 10)
            settle()
            other.send(b"x")
            assert ends_within(5, d) == b"x"


def test_detach_gives_the_fd_away_open_and_as_blocking_as_the_timeout_says() -> None:
    for timeout, blocking in ((None, True), (5, False), (0, False)):
        with tcp() as (one, other):
            one.settimeout(timeout)
            dhaga.spawn(other.send, b"ab").join()
            assert one.recv(1) == b"a"
            fd = one.detach()
            assert one.fileno() == -1 and os.get_blocking(fd) is blocking
            with standard.socket(fileno=fd) as plain:
                assert plain.recv(10) == b"b"


def test_two_objects_over_one_fd_are_both_told() -> None:
    with tcp() as (one, other):
        twin = socket.socket(fileno=one.fileno())
        readers = [dhaga.spawn(one.recv, 1), dhaga.spawn(twin.recv, 1)]
        settle()
        other.send(b"ab")
        assert sorted(ends_within(5, d) for d in readers) == [b"a", b"b"]
        twin.detach()


def test_fromfd_duplicates() -> None:
    with tcp() as (one, other), socket.fromfd(one.fileno(), socket.AF_INET, socket.SOCK_STREAM) as twin:
        assert isinstance(twin, socket.socket) and twin.fileno() != one.fileno()
        d = dhaga.spawn(twin.recv, 10)
        settle()
        other.send(b"x")
        assert ends_within(5, d) == b"x"


def test_a_file_over_a_socket_keeps_it_open_and_reads_lines() -> None:
    with tcp() as (one, other):
        file = one.makefile("rw", encoding="ascii", newline="\n")
        one.close()
        d = dhaga.spawn(lambda: [file.readline(), file.readline(), file.write("bye\n"), file.flush()])
        for part in (b"fi", b"rst\nsec", b"ond\n"):
            settle()
            other.send(part)
        assert ends_within(5, d)[:2] == ["first\n", "second\n"]
        assert other.recv(10) == b"bye\n"
        file.close()
        assert other.recv(10) == b""


def test_create_server_listens_with_its_options() -> None:
    with socket.create_server(LOCAL, backlog=3, reuse_port=True) as listener:
        assert isinstance(listener, socket.socket) and listener.gettimeout() is None
        assert listener.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT)
        with socket.create_connection(listener.getsockname(), timeout=5, source_address=LOCAL) as client:
            assert client.gettimeout() == 5
            with listener.accept()[0] as server:
                server.send(b"x")
                assert client.recv(1) == b"x"


def test_create_connection_tries_each_address_and_raises_the_first_or_all_errors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with socket.create_server(LOCAL) as gone:
        refused = gone.getsockname()
    with socket.create_server(LOCAL) as listener:
        found = [refused, refused]
        row = (socket.AF_INET, socket.SOCK_STREAM, 0, "")
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_: [(*row, address) for address in found])
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("name", 1))
        with pytest.raises(ExceptionGroup, match="create_connection failed") as info:
            socket.create_connection(("name", 1), all_errors=True)
        assert [type(error) for error in info.value.exceptions] == [ConnectionRefusedError] * 2
        found.append(listener.getsockname())
        socket.create_connection(("name", 1)).close()
        found.clear()
        with pytest.raises(OSError, match="empty list"):
            socket.create_connection(("name", 1), all_errors=True)


def test_what_is_not_defined_is_the_standards() -> None:
    assert socket.AF_INET is standard.AF_INET and socket.inet_aton is standard.inet_aton
    assert set(dir(standard)) <= set(dir(socket)) and issubclass(socket.socket, standard.socket)
    assert socket.timeout is TimeoutError and socket.error is OSError
    with pytest.raises(AttributeError):
        socket.nonsense


# ---- names


def test_a_look_up_does_not_block_others(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = threading.Event()

    def slow(*args: Any) -> list[Any]:
        assert gate.wait(5)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", args[1] or 0))]

    monkeypatch.setattr(resolve, "look_up_address", slow)
    with socket.create_server(LOCAL) as listener:
        port = listener.getsockname()[1]
        look_up = dhaga.spawn(socket.getaddrinfo, "slow.example", 80)
        connects = dhaga.spawn(socket.create_connection, ("slow.example", port))
        with socket.socket() as sock:
            connects_too = dhaga.spawn(sock.connect, ("slow.example", port))
            for _ in range(3):
                dhaga.sleep(0.001)
            assert {d.state for d in (look_up, connects, connects_too)} == {"WAITING"}
            assert "offload" in repr(look_up)
            gate.set()
            assert look_up.result(5)[0][4] == ("127.0.0.1", 80)
            connects.result(5).close()
            connects_too.result(5)


def test_a_cancelled_look_up_lets_go_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = threading.Event()
    monkeypatch.setattr(resolve, "look_up_address", lambda *_: gate.wait(5))
    d = dhaga.spawn(socket.getaddrinfo, "slow.example", 80)
    settle()
    d.cancel()
    with pytest.raises(dhaga.Cancelled):
        d.result(1)
    gate.set()


def test_numeric_hosts_are_answered_without_parking() -> None:
    async def main() -> None:
        assert socket.getaddrinfo("127.0.0.1", 80, type=socket.SOCK_STREAM)[0][4] == ("127.0.0.1", 80)
        assert socket.getaddrinfo(None, 80) and socket.gethostbyname("127.0.0.1") == "127.0.0.1"
        flags = socket.NI_NUMERICHOST | socket.NI_NUMERICSERV
        assert socket.getnameinfo(("127.0.0.1", 80), flags) == ("127.0.0.1", "80")
        with pytest.raises(dhaga.ParkError):
            socket.getaddrinfo("localhost", 80)

    asyncio.run(main())


def test_localhost_is_found() -> None:
    assert socket.gethostbyname("localhost") == "127.0.0.1"


# ---- datagrams


def test_datagrams_are_sent_and_received() -> None:
    with socket.socket(type=socket.SOCK_DGRAM) as one, socket.socket(type=socket.SOCK_DGRAM) as other:
        one.bind(LOCAL)
        other.bind(LOCAL)
        d = dhaga.spawn(lambda: [one.recvfrom(3), one.recvfrom(100), one.recv(100), one.recv(100)])
        settle()
        other.sendto(b"truncated", one.getsockname())
        other.sendto(b"whole", 0, one.getsockname())
        other.sendmsg([b"pa", b"rts"], [], 0, one.getsockname())
        other.connect(one.getsockname())
        other.send(b"")  # is one, too
        sender = other.getsockname()
        assert ends_within(5, d) == [(b"tru", sender), (b"whole", sender), b"parts", b""]
        with pytest.raises(TypeError):
            other.sendto(b"x")


def test_short_datagrams_in_a_row_are_all_read() -> None:
    one, other = socket.socketpair(type=socket.SOCK_DGRAM)
    with one, other:
        d = dhaga.spawn(lambda: [one.recv(100) for _ in range(5)])
        settle()
        for n in range(5):
            other.send(b"%d" % n)
        assert ends_within(5, d) == [b"0", b"1", b"2", b"3", b"4"]


def test_a_datagram_to_nobody_comes_back_as_an_error_to_the_reader() -> None:
    with socket.socket(type=socket.SOCK_DGRAM) as one:
        with socket.socket(type=socket.SOCK_DGRAM) as gone:
            gone.bind(LOCAL)
            address = gone.getsockname()
        one.connect(address)
        d = dhaga.spawn(one.recv, 10)
        settle()
        one.send(b"x")
        with pytest.raises(ConnectionRefusedError):
            ends_within(5, d)


# ---- numbers and numbers of them


def test_a_number_used_again_after_close_is_a_new_socket() -> None:
    for n in range(5):
        one, other = socket.socketpair()
        d = dhaga.spawn(one.recv, 10)
        settle()
        other.send(b"%d" % n)
        assert ends_within(5, d) == b"%d" % n
        d = dhaga.spawn(caught, one.recv, 10)
        settle()
        one.close()
        other.close()
        assert isinstance(d.result(5), OSError)


def test_a_number_closed_behind_its_back_does_no_harm_to_its_next_owner() -> None:
    one, other = socket.socketpair()
    dhaga.spawn(other.send, b"x").join()
    assert one.recv(10) == b"x"
    d = dhaga.spawn(caught, one.recv, 10)
    settle()
    number = one.fileno()
    os.close(number)
    new, peer = socket.socketpair()
    assert number in (new.fileno(), peer.fileno())
    with new, peer, other:
        for sender, receiver in ((new, peer), (peer, new), (new, peer)):
            reader = dhaga.spawn(receiver.recv, 10)
            settle()
            sender.send(b"new")
            assert ends_within(5, reader) == b"new"
        d.cancel()
        d.join(5)
        assert d.state == "DONE"
        one.detach()
        reader = dhaga.spawn(new.recv, 10)
        settle()
        peer.send(b"still")
        assert ends_within(5, reader) == b"still"


def test_a_dropped_socket_leaves_nothing_registered() -> None:
    one, other = socket.socketpair()
    dhaga.spawn(other.send, b"x").join()
    assert one.recv(10) == b"x"
    fds = {one.fileno(), other.fileno()}
    with pytest.warns(ResourceWarning):
        del one, other
    assert not fds & open_fds()


def test_a_thousand_connections_at_once() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = 5000
    if hard != resource.RLIM_INFINITY and hard < needed:
        pytest.skip("too few descriptors are allowed")
    if soft != resource.RLIM_INFINITY:
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, needed), hard))
    try:
        with socket.create_server(LOCAL, backlog=1000) as listener:

            def echoes(sock: Any) -> None:
                with sock:
                    while data := sock.recv(100):
                        sock.sendall(data)

            def serves() -> None:
                for _ in range(1000):
                    dhaga.spawn(echoes, listener.accept()[0])

            def asks(n: int) -> bool:
                with closing(socket.create_connection(listener.getsockname())) as sock:
                    for _ in range(3):
                        sock.sendall(b"%d" % n)
                        if sock.recv(100) != b"%d" % n:
                            return False
                        dhaga.sleep(0)
                    return True

            server = dhaga.spawn(serves)
            clients = [dhaga.spawn(asks, n) for n in range(1000)]
            assert all(d.result(10) for d in clients)
            server.join(5)
            settle()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_create_connection_uses_what_a_program_puts_in_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    class Proxied(socket.socket):
        pass

    found = [(standard.AF_INET, standard.SOCK_STREAM, 0, "", ("127.0.0.1", 0))]
    with socket.create_server(("127.0.0.1", 0)) as server:
        found[0] = (*found[0][:4], server.getsockname())
        monkeypatch.setattr(standard, "socket", Proxied)
        monkeypatch.setattr(standard, "getaddrinfo", lambda *_: found)
        with socket.create_connection(("nowhere.invalid", 1)) as sock:
            assert isinstance(sock, Proxied)
