"""Stream sockets: what cancels, short reads, ends, resets, urgent data and passed descriptors do."""

from __future__ import annotations

import array
import os
import socket as standard
import struct
import sys
import tempfile
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import dhaga
import dhaga.os
from dhaga import socket
from dhaga._kernel import outside
from dhaga._kernel.fast.compiled import python_twin
from dhaga.testing import cancel_at_every_park, settle, virtual_clock
from tests.kit.sockets import (
    LOCAL,
    caught,
    ends_within,
    fill,
    tcp,
    unix,
)


def received(sock: Any, size: int, step: int = 1 << 16) -> bytes:
    """Receive as many bytes as that, or up to the end."""
    data = bytearray()
    while len(data) < size and (more := sock.recv(min(step, size - len(data)))):
        data += more
    return bytes(data)


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


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the file is sent in parts")
@pytest.mark.parametrize("call", ["send", "sendmsg", "sendto", "os.sendfile"])
def test_a_cancelled_send_tells_how_much_it_has_sent(call: str, tmp_path: Path) -> None:
    data = bytes(range(256)) * 4096
    (tmp_path / "data").write_bytes(data)

    def send(sock: socket.socket) -> int:
        if call == "os.sendfile":
            with open(tmp_path / "data", "rb") as file:
                return dhaga.os.sendfile(sock.fileno(), file.fileno(), 0, len(data))
        if call == "sendmsg":
            return sock.sendmsg([data[:1000], data[1000:]])
        return sock.send(data) if call == "send" else sock.sendto(data, 0, sock.getpeername())

    def scenario() -> Any:
        with socket.create_server(("127.0.0.1", 0)) as server:
            one = socket.create_connection(server.getsockname())
            other = server.accept()[0]
        one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 100_000)
        got, told = bytearray(), []

        def reads() -> None:
            with other:
                while more := other.recv(100_000):
                    got.extend(more)
                    dhaga.sleep(1)

        def writes() -> None:
            with one, suppress(TimeoutError):
                told.append(send(one))
                dhaga.sleep(0)  # a cancel that came late is raised here

        victim = dhaga.spawn(writes)
        dhaga.spawn(reads)
        return victim, lambda: check(bytes(got), told)

    def check(got: bytes, told: list[int]) -> None:
        assert got == data[: sum(told)]

    assert cancel_at_every_park(scenario) >= 2


def test_a_send_that_cannot_wait_tells_how_much_it_has_sent() -> None:
    data = bytes(1_000_000)
    with unix() as (one, other), dhaga.no_park():
        sent = one.send(data)
        assert 0 < sent < len(data)
        assert len(other.recv(len(data), socket.MSG_DONTWAIT)) <= sent
        with pytest.raises(dhaga.ParkError):
            while True:
                one.send(data)


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
        got += [d.result(30) for d in readers]
        thread.join(30)
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
    plain = outside.sockets

    class Counted(plain):  # type: ignore[valid-type]
        @staticmethod
        def recv(sock: Any, *args: Any) -> bytes:
            calls.append(args[0])
            return plain.recv(sock, *args)

    monkeypatch.setattr(outside, "sockets", Counted)
    with tcp() as (one, other):
        one.settimeout(60)
        got: list[bytes] = []
        recv = python_twin(socket.socket.recv)  # the compiled one makes its system calls by itself
        d = dhaga.spawn(lambda: [got.append(recv(one, 100)) for _ in range(4)])
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
        d.result(30)
        assert got == data


def test_sendall_takes_a_view_of_items_wider_than_a_byte() -> None:
    items = array.array("q", range(1 << 17))
    with unix() as (one, other):
        d = dhaga.spawn(one.sendall, memoryview(items))
        got = received(other, len(items) * 8)
        d.result(30)
        assert got == items.tobytes()
        d = dhaga.spawn(one.sendall, items)
        assert received(other, len(items) * 8) == items.tobytes()
        d.result(30)


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
        assert dhaga.spawn(one.recv, 6, socket.MSG_WAITALL).result(30) == b"g"


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
        assert d.result(30) == 900_000 and file.tell() == 901_000
        file.seek(0)
        d = dhaga.spawn(one.sendfile, file)
        assert received(other, len(data)) == data
        assert d.result(30) == len(data)


@pytest.mark.skipif(not hasattr(os, "sendfile"), reason="this platform has no sendfile")
def test_two_dhagas_send_files_on_a_socket_and_neither_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    def send(fd: int, *args: Any) -> int:
        assert not os.get_blocking(fd)
        return os.sendfile(fd, *args)

    monkeypatch.setattr("dhaga._iowait.socket_sendfile.os_sendfile", send)
    with tcp() as (one, other), tempfile.TemporaryFile() as short, tempfile.TemporaryFile() as long:
        for file, data in ((short, b"short"), (long, bytes(4_000_000))):
            file.write(data)
            file.seek(0)
        filled = fill(one)
        senders = [dhaga.spawn(one.sendfile, short), dhaga.spawn(one.sendfile, long)]
        settle()
        ends_within(30, dhaga.spawn(received, other, filled + 4_000_005))
        assert [sender.result(30) for sender in senders] == [5, 4_000_000]
        assert os.get_blocking(one.fileno())


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
