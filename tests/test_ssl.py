"""``dhaga.ssl``: the standard contract on cooperative sockets; certificates are made here, for the session."""

from __future__ import annotations

import asyncio
import errno
import os
import ssl as standard
import sys
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

import dhaga
from dhaga import socket, ssl
from dhaga.testing import cancel_at_every_park, settle, virtual_clock
from tests.kit.certificates import NAME, authority, certificate, client_context, server_context, stranger
from tests.kit.sockets import by_file, send_a_file
from tests.kit.tls import LOCAL, VERSIONS, caught, fill, received, result_or_error, shake, tls

READERS: dict[str, Callable[[Any], Any]] = {
    "recv": lambda sock: sock.recv(10),
    "read": lambda sock: sock.read(10),
    "recv_into": lambda sock: sock.recv_into(bytearray(10)),
    "makefile": by_file,
}
WRITERS: dict[str, Callable[[Any], Any]] = {
    "send": lambda sock: sock.send(b"!"),
    "write": lambda sock: sock.write(b"!"),
    "sendall": lambda sock: sock.sendall(b"!"),
    "sendfile": send_a_file,
}


# ---- the module


def test_every_public_name_of_the_standard_is_there() -> None:
    names = [name for name in dir(standard) if not name.startswith("_")]
    assert [name for name in names if not hasattr(ssl, name)] == []
    assert set(names) <= set(dir(ssl)) and set(ssl.__all__) == set(names)
    assert issubclass(ssl.SSLContext, standard.SSLContext) and issubclass(ssl.SSLSocket, standard.SSLSocket)
    assert issubclass(ssl.SSLSocket, socket.socket) and ssl.SSLError is standard.SSLError


def test_contexts_verify_by_default_as_the_standards_do() -> None:
    ours, theirs = ssl.create_default_context(), standard.create_default_context()
    assert type(ours) is ssl.SSLContext and type(theirs) is standard.SSLContext
    for name in ("verify_mode", "check_hostname", "verify_flags", "options", "minimum_version", "protocol"):
        assert getattr(ours, name) == getattr(theirs, name)
    assert ours.verify_mode == ssl.CERT_REQUIRED and ours.check_hostname
    ours.minimum_version = ssl.TLSVersion.TLSv1_3
    ours.options |= ssl.OP_NO_TICKET
    assert ours.minimum_version == ssl.TLSVersion.TLSv1_3 and ours.options & ssl.OP_NO_TICKET


def test_a_context_of_the_standard_can_make_our_sockets() -> None:
    context = standard.create_default_context()
    authority().configure_trust(context)
    context.sslsocket_class = ssl.SSLSocket
    one, other = shake(*socket.socketpair(), context, server_context())
    with one, other:
        assert type(one) is ssl.SSLSocket
        other.sendall(b"hello")
        assert one.recv(10) == b"hello"


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="removed in 3.12")
@pytest.mark.filterwarnings("ignore:ssl:DeprecationWarning")
def test_the_function_of_old_programs_makes_our_sockets() -> None:
    near, far = socket.socketpair()
    accepted = dhaga.spawn(server_context().wrap_socket, far, server_side=True)
    with ssl.wrap_socket(near) as one, accepted.result() as other:
        assert type(one) is ssl.SSLSocket
        other.sendall(b"hello")
        assert one.recv(10) == b"hello"


def test_there_is_no_constructor() -> None:
    with pytest.raises(TypeError, match="wrap_socket"):
        ssl.SSLSocket()


# ---- handshakes


@pytest.mark.parametrize("version", VERSIONS)
def test_data_go_both_ways(version: Any) -> None:
    data = bytes(range(256)) * 4000
    with tls(version) as (one, other):
        assert one.version() == other.version() == {3: "TLSv1.2", 4: "TLSv1.3"}[version & 7]
        d = dhaga.spawn(one.sendall, data)
        e = dhaga.spawn(other.sendall, data[::-1])
        f = dhaga.spawn(received, one, len(data))
        assert received(other, len(data)) == data
        assert f.result(30) == data[::-1]
        assert d.result(30) is None and e.result(30) is None


def test_a_handshake_parks_and_others_run() -> None:
    with virtual_clock():
        near, far = socket.socketpair()
        with far:
            d = dhaga.spawn(client_context().wrap_socket, near, server_hostname=NAME)
            settle()
            assert d.state == "WAITING" and d.reason.startswith("read fd")
            with server_context().wrap_socket(far, server_side=True) as other, d.result() as one:
                assert one.getpeercert()["subjectAltName"][0] == ("DNS", NAME)
                assert other.getpeercert() is None


def test_a_handshake_honours_the_timeout_and_closes() -> None:
    with virtual_clock() as clock:
        near, far = socket.socketpair()
        with far:
            near.settimeout(3)
            began = clock()
            with pytest.raises(TimeoutError):
                client_context().wrap_socket(near, server_hostname=NAME)
            assert clock() - began == pytest.approx(3) and near.fileno() == -1


@pytest.mark.parametrize("trusted", [authority(), stranger()])
def test_a_certificate_that_is_not_trusted_or_not_of_the_host_is_refused(trusted: Any) -> None:
    near, far = socket.socketpair()
    serving = dhaga.spawn(caught, server_context(certificate("other.example")).wrap_socket, far, True)
    with pytest.raises(ssl.SSLCertVerificationError):
        client_context(trusted=trusted).wrap_socket(near, server_hostname=NAME)
    assert isinstance(serving.result(30), OSError)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_client_certificate_is_asked_for_and_seen(version: Any) -> None:
    client, server = client_context(version), server_context()
    certificate("client@example.org").configure_cert(client)
    authority().configure_trust(server)
    server.verify_mode = ssl.CERT_REQUIRED
    one, other = shake(*socket.socketpair(), client, server)
    with one, other:
        assert other.getpeercert()["subjectAltName"] == (("email", "client@example.org"),)
        assert other.getpeercert(True).startswith(b"\x30")


def test_a_certificate_asked_for_after_the_handshake_comes_while_both_read() -> None:
    client, server = client_context(), server_context()
    certificate("client@example.org").configure_cert(client)
    authority().configure_trust(server)
    client.post_handshake_auth = server.post_handshake_auth = True
    server.verify_mode = ssl.CERT_REQUIRED
    server.verify_mode = ssl.CERT_OPTIONAL
    client.post_handshake_auth = True
    one, other = shake(*socket.socketpair(), client, server)
    with one, other:
        assert other.getpeercert() is None
        other.verify_client_post_handshake()
        other.sendall(b"who")
        d = dhaga.spawn(other.recv, 10)
        assert one.recv(10) == b"who"
        one.sendall(b"me")
        assert d.result(30) == b"me"
        assert other.getpeercert()["subjectAltName"] == (("email", "client@example.org"),)


def test_protocols_are_negotiated() -> None:
    client, server = client_context(), server_context()
    client.set_alpn_protocols(["h2", "http/1.1"])
    server.set_alpn_protocols(["http/1.1"])
    one, other = shake(*socket.socketpair(), client, server)
    with one, other:
        assert one.selected_alpn_protocol() == other.selected_alpn_protocol() == "http/1.1"


def test_the_callback_for_the_servers_name_may_choose_a_context_and_park() -> None:
    asked: list[Any] = []
    server, hidden = server_context(certificate("other.example")), server_context()

    def choose(sock: Any, name: str, context: Any) -> None:
        dhaga.sleep(0.001)
        asked.append((type(sock), name, context))
        sock.context = hidden

    server.sni_callback = choose
    one, other = shake(*socket.socketpair(), client_context(), server)
    with one, other:
        assert asked == [(ssl.SSLSocket, NAME, server)] and other.context is hidden


@pytest.mark.parametrize("version", VERSIONS)
def test_a_session_is_used_again(version: Any) -> None:
    client, server = client_context(version), server_context()
    one, other = shake(*socket.socketpair(), client, server)
    with one, other:
        other.sendall(b"x")
        assert one.recv(1) == b"x" and not one.session_reused
        session = one.session
    one, other = shake(*socket.socketpair(), client, server, session=session)
    with one, other:
        assert one.session_reused and other.session_reused


def test_a_listener_of_tls_accepts_and_a_client_connects() -> None:
    with server_context().wrap_socket(socket.create_server(LOCAL), server_side=True) as listener:
        d = dhaga.spawn(listener.accept)
        with client_context().wrap_socket(socket.socket(), server_hostname=NAME) as one:
            one.connect(listener.getsockname())
            other, address = d.result(30)
            with other:
                assert type(other) is ssl.SSLSocket and address == one.getsockname()
                other.sendall(b"hello")
                assert one.recv(10) == b"hello" and one.gettimeout() is None


def test_the_certificate_of_a_server_is_fetched() -> None:
    with server_context().wrap_socket(socket.create_server(LOCAL), server_side=True) as listener:
        d = dhaga.spawn(listener.accept)
        text = ssl.get_server_certificate(listener.getsockname())
        d.result(30)[0].close()
        assert ssl.PEM_cert_to_DER_cert(text) == ssl.PEM_cert_to_DER_cert(
            certificate().cert_chain_pems[0].bytes().decode()
        )


def test_a_handshake_can_be_left_for_later() -> None:
    near, far = socket.socketpair()
    one = client_context().wrap_socket(near, server_hostname=NAME, do_handshake_on_connect=False)
    d = dhaga.spawn(server_context().wrap_socket, far, True)
    one.settimeout(0)
    with pytest.raises(ssl.SSLWantReadError):
        one.do_handshake()
    one.do_handshake(block=True)
    assert one.gettimeout() == 0
    with one, d.result(30):
        assert one.version() == "TLSv1.3"


# ---- waiting


@pytest.mark.parametrize("name", READERS)
def test_reading_parks_until_something_comes(name: str) -> None:
    with virtual_clock(), tls() as (one, other):
        d = dhaga.spawn(READERS[name], one)
        settle()
        assert d.state == "WAITING" and d.reason == f"read fd {one.fileno()}"
        other.sendall(b"!")
        assert d.result() in (b"!", 1)


@pytest.mark.parametrize("name", WRITERS)
def test_writing_parks_while_the_buffer_is_full(name: str) -> None:
    with virtual_clock(), tls() as (one, other):
        sent = fill(one)
        d = dhaga.spawn(WRITERS[name], one)
        settle()
        assert d.state == "WAITING" and d.reason == f"write fd {one.fileno()}"
        assert received(other, len(sent) + 1) == sent + b"!"
        assert d.result() in (None, 1)


@pytest.mark.parametrize("name", [*READERS, *WRITERS])
def test_the_timeout_is_honoured(name: str) -> None:
    with virtual_clock() as clock, tls() as (one, _):
        fill(one)
        one.settimeout(5)
        began = clock()
        with pytest.raises(TimeoutError):
            (READERS | WRITERS)[name](one)
        assert clock() - began == pytest.approx(5)


def test_the_timeout_bounds_the_wait_for_ones_turn_to_write() -> None:
    with virtual_clock() as clock, tls() as (one, _):
        fill(one)
        d = dhaga.spawn(caught, one.sendall, b"first")
        settle()
        one.settimeout(5)
        began = clock()
        with pytest.raises(TimeoutError):
            one.send(b"second")
        assert clock() - began == pytest.approx(5)
        one.settimeout(0)
        with pytest.raises(ssl.SSLWantWriteError):
            one.send(b"second")
        d.cancel()
        assert isinstance(d.result(), dhaga.Cancelled)


def test_with_timeout_0_it_raises_what_it_lacks() -> None:
    with tls() as (one, other):
        one.settimeout(0)
        with pytest.raises(ssl.SSLWantReadError):
            one.recv(1)
        sent = fill(one)
        with pytest.raises(ssl.SSLWantWriteError):
            one.send(b"!")
        whole = len(sent) - len(one.pending_piece)
        assert received(other, whole) == sent[:whole]
        assert one.send(b"!") == 1
        assert received(other, len(sent) + 1 - whole) == sent[whole:] + b"!"


def test_closing_wakes_readers_and_writers() -> None:
    with tls() as (one, _):
        fill(one)
        dhagas = [dhaga.spawn(caught, call, one) for call in (READERS["recv"], WRITERS["send"], WRITERS["sendall"])]
        settle()
        one.close()
        assert [d.result(30).errno for d in dhagas] == [errno.EBADF] * 3
        assert one.fileno() == -1


def test_another_thread_may_close() -> None:
    with tls() as (one, _):
        d = dhaga.spawn(caught, one.recv, 1)
        settle()
        thread = threading.Thread(target=one.close)
        thread.start()
        assert d.result(30).errno == errno.EBADF
        thread.join()


def test_a_plain_thread_waits_for_real() -> None:
    got: list[Any] = []

    def serve(far: Any) -> None:
        with server_context().wrap_socket(far, server_side=True) as other:
            got.append(other.recv(5))
            other.settimeout(0.01)
            got.append(type(caught(other.recv, 5)))
            other.settimeout(None)
            other.sendall(bytes(1 << 20))

    near, far = socket.socketpair()
    thread = threading.Thread(target=serve, args=(far,))
    thread.start()
    with client_context().wrap_socket(near, server_hostname=NAME) as one:
        one.sendall(b"hello")
        assert received(one, 1 << 20) == bytes(1 << 20)
        thread.join(30)
    assert got == [b"hello", TimeoutError]


def test_in_a_coroutine_it_does_not_wait() -> None:
    with tls() as (one, other):

        async def main() -> None:
            with pytest.raises(dhaga.ParkError):
                one.recv(1)
            other.sendall(b"!")
            assert one.recv(1) == b"!"

        thread = threading.Thread(target=lambda: asyncio.run(main()))
        thread.start()
        thread.join(30)
        assert not thread.is_alive()


def test_what_openssl_has_decrypted_is_read_without_the_fd() -> None:
    with tls() as (one, other):
        other.sendall(b"abcdef")
        readers = [dhaga.spawn(one.recv, 2) for _ in range(2)]
        assert sorted(d.result(30) for d in readers) == [b"ab", b"cd"]
        assert one.pending() == 2 and one.recv(9) == b"ef"


# ---- the stream


def test_a_cancelled_reader_loses_no_byte() -> None:
    chunks = [bytes([65 + n]) * (n + 2) for n in range(3)]

    def scenario() -> Any:
        got = bytearray()
        one, other = made_in_dhagas()

        def reads() -> None:
            with suppress(TimeoutError):
                while data := one().recv(3):
                    got.extend(data)

        def writes() -> None:
            with other() as sock:
                for chunk in chunks:
                    sock.send(chunk)
                    dhaga.sleep(1)

        def check() -> None:
            with one() as sock:
                while data := sock.recv(100):
                    got.extend(data)
            assert bytes(got) == b"".join(chunks)

        dhaga.spawn(writes)
        return dhaga.spawn(reads), check

    assert cancel_at_every_park(scenario) >= 3


def made_in_dhagas() -> tuple[Callable[[], Any], Callable[[], Any]]:
    """Shake hands in full, then tell how to get the ends."""
    near, far = shake(*socket.socketpair(), client_context(), server_context())
    far.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8192)  # less than a record
    return lambda: near, lambda: far


@pytest.mark.parametrize("following", [bytes(20_000), b"!"])
def test_a_cancelled_writer_has_sent_a_prefix_and_the_next_is_whole(following: bytes) -> None:
    data = bytes(40_000)

    def scenario() -> Any:
        got = bytearray()
        other, one = made_in_dhagas()  # the server writes: what a client leaves unread resets the connection

        def writes() -> None:
            with suppress(TimeoutError):
                one().sendall(data)

        def writes_more() -> None:
            with suppress(BaseException):
                victim.join()
            one().sendall(following)
            one().close()

        def reads() -> None:
            with other() as sock:
                while more := sock.recv(10_000):
                    got.extend(more)
                    dhaga.sleep(0.1)

        def check() -> None:
            assert bytes(got).endswith(following)
            prefix = bytes(got[: len(got) - len(following)])
            assert prefix == data[: len(prefix)]

        victim = dhaga.spawn(writes)
        dhaga.spawn(writes_more)
        dhaga.spawn(reads)
        return victim, check

    assert cancel_at_every_park(scenario) >= 2


def test_a_write_repeated_after_a_timeout_is_sent_once() -> None:
    with virtual_clock(), tls() as (one, other):
        sent = fill(one)
        one.settimeout(1)
        for _ in range(2):
            with pytest.raises(TimeoutError):
                one.send(b"message")
        one.settimeout(None)
        d = dhaga.spawn(one.send, b"message")
        assert received(other, len(sent)) == sent
        d.result()
        one.send(b"end")
        assert received(other, 10) == b"messageend"


def test_writers_take_turns() -> None:
    with tls() as (one, other):
        texts = [bytes([65 + n]) * 200_000 for n in range(4)]
        writers = [dhaga.spawn(one.sendall, text) for text in texts]
        assert received(other, 800_000) == b"".join(texts)
        for d in writers:
            d.result(30)


def test_a_ragged_end_is_an_end_unless_it_is_to_be_told() -> None:
    for suppressed in (True, False):
        near, far = socket.socketpair()
        one, other = shake(near, far, client_context(), server_context(), suppress_ragged_eofs=suppressed)
        with one:
            calls = [lambda one=one: one.recv(1), lambda one=one: one.recv_into(bytearray(1))]
            dhagas = [dhaga.spawn(result_or_error, call) for call in calls]
            settle()
            other.close()
            ends = [d.result(30) for d in dhagas]
            # Python 3.11.2 has OpenSSL take such an end for an ordinary one, and sees neither.
            untold = suppressed or client_context().options & ssl.OP_IGNORE_UNEXPECTED_EOF
            assert ends == ([b"", 0] if untold else [ssl.SSLEOFError, ssl.SSLEOFError])


@pytest.mark.parametrize("version", VERSIONS)
def test_after_unwrap_the_connection_goes_on_in_clear(version: Any) -> None:
    with tls(version) as (one, other):
        d = dhaga.spawn(other.unwrap)
        settle()
        assert d.state == "WAITING"
        assert one.recv(5) == b""
        clear = one.unwrap()
        assert os.get_blocking(clear.fileno()) == (sys.platform == "linux")  # else it never blocks
        clear.sendall(b"plain")
        assert d.result(30) is other
        assert other.recv(10) == b"plain" and other.version() is None
        with pytest.raises(ValueError):
            one.unwrap()


def test_unwrap_finishes_what_was_broken_off() -> None:
    with virtual_clock(), tls() as (one, other):
        sent = fill(one)
        d = dhaga.spawn(one.unwrap)
        assert received(other, len(sent)) == sent
        assert other.recv(1) == b""
        other.unwrap()
        assert d.result() is one


def test_a_file_is_sent() -> None:
    with tls() as (one, other), tempfile.TemporaryFile() as file:
        file.write(bytes(range(256)) * 1000)
        file.seek(0)
        d = dhaga.spawn(one.sendfile, file, 256, 100_000)
        assert received(other, 100_000) == (bytes(range(256)) * 1000)[256:100_256]
        assert d.result(30) == 100_000 and file.tell() == 100_256


def test_in_memory_it_is_the_standards() -> None:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    connection = client_context().wrap_bio(incoming, outgoing, server_hostname=NAME)
    assert type(connection) is standard.SSLObject
    with pytest.raises(ssl.SSLWantReadError):
        connection.do_handshake()
    assert outgoing.read()[0] == 22


def test_a_hundred_connections_at_once() -> None:
    client, server = client_context(), server_context()

    def talk(listener: Any) -> bytes:
        with socket.create_connection(listener.getsockname()) as sock:
            with client.wrap_socket(sock, server_hostname=NAME) as one:
                one.sendall(b"ping")
                return one.recv(10)

    def answer(sock: Any) -> None:
        with server.wrap_socket(sock, server_side=True) as other:
            other.sendall(other.recv(10) + b" pong")
            other.recv(1)

    with socket.create_server(LOCAL, backlog=100) as listener:
        clients = [dhaga.spawn(talk, listener) for _ in range(100)]
        servers = [dhaga.spawn(answer, listener.accept()[0]) for _ in range(100)]
        assert {d.result(30) for d in clients} == {b"ping pong"}
        for d in servers:
            d.result(30)
