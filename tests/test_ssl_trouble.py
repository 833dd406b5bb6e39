"""What strikes a connection of TLS: cancels, timeouts, closing, forks, signals, other threads, unusual peers."""

from __future__ import annotations

import errno
import os
import random
import resource
import shutil
import ssl as standard
import subprocess
import threading
from contextlib import suppress
from pathlib import Path
from socket import socketpair as standard_socketpair
from typing import Any

import pytest

import dhaga
from dhaga import select, socket, ssl
from dhaga.testing import cancel_at_every_park, settle, virtual_clock
from dhaga.threading import Event
from tests.kit import scripts
from tests.kit.certificates import NAME, authority, certificate, client_context, server_context
from tests.kit.tls import LOCAL, VERSIONS, caught, fill, received, result_or_error, shake, tcp_pair, tls

RECORD = 1 << 14
END = b"this is the end"

# ---- cancels and timeouts


@pytest.mark.parametrize("server_side", [False, True])
@pytest.mark.parametrize("version", VERSIONS)
def test_a_broken_handshake_closes_the_connection(version: Any, server_side: bool) -> None:
    client, server = client_context(version), server_context()

    def scenario() -> Any:
        near, far = socket.socketpair()
        made: list[Any] = []

        def shakes(sock: Any, is_server: bool) -> None:
            with suppress(OSError):
                context, name = (server, None) if is_server else (client, NAME)
                made.append(context.wrap_socket(sock, server_side=is_server, server_hostname=name))

        def check() -> None:
            assert near.fileno() == far.fileno() == -1  # what there is, is wrapped or closed
            for sock in made:
                sock.sendall(b"whole")
            if len(made) == 2:
                assert received(made[0], 5) == received(made[1], 5) == b"whole"
            for sock in made:
                sock.close()

        victim = dhaga.spawn(shakes, far if server_side else near, server_side)
        dhaga.spawn(shakes, near if server_side else far, not server_side)
        return victim, check

    assert cancel_at_every_park(scenario) >= 1


def test_a_broken_handshake_can_be_taken_up_again() -> None:
    client, server = client_context(), server_context()

    def scenario() -> Any:
        near, far = socket.socketpair()
        one = client.wrap_socket(near, server_hostname=NAME, do_handshake_on_connect=False)
        serving = dhaga.spawn(server.wrap_socket, far, True)
        victim = dhaga.spawn(lambda: one.do_handshake())

        def goes_on() -> Any:
            caught(victim.join)
            one.do_handshake()
            one.sendall(b"hello")

        going = dhaga.spawn(goes_on)

        def check() -> None:
            assert going.result() is None
            with one, serving.result() as other:
                assert other.recv(10) == b"hello"

        return victim, check

    assert cancel_at_every_park(scenario) >= 1


def test_a_broken_unwrap_can_be_taken_up_again() -> None:
    client, server = client_context(), server_context()

    def scenario() -> Any:
        one, other = shake(*socket.socketpair(), client, server)
        other.sendall(b"last words")
        victim = dhaga.spawn(lambda: received(one, 10) and one.unwrap())

        def goes_on() -> bytes:
            caught(victim.join)
            if one._sslobj is not None:
                with suppress(ssl.SSLZeroReturnError):
                    received(one, 10)
                one.unwrap()
            return one.recv(10)

        going = dhaga.spawn(goes_on)

        def unwraps() -> None:
            assert other.recv(1) == b""
            dhaga.sleep(1)
            other.unwrap()
            other.sendall(b"in clear")

        dhaga.spawn(unwraps)

        def check() -> None:
            with one, other:
                assert going.result() == b"in clear"

        return victim, check

    assert cancel_at_every_park(scenario) >= 1


def test_a_listener_outlives_an_accept_that_is_broken_off() -> None:
    client, server = client_context(), server_context()

    def scenario() -> Any:
        listener = server.wrap_socket(socket.create_server(LOCAL), server_side=True)
        accepted: list[Any] = []
        victim = dhaga.spawn(lambda: accepted.append(listener.accept()[0]))

        def connects() -> Any:
            with socket.create_connection(listener.getsockname()) as sock:
                with client.wrap_socket(sock, server_hostname=NAME) as one:
                    return one.recv(10)

        first = dhaga.spawn(result_or_error, connects)

        def goes_on() -> Any:
            caught(victim.join)
            if accepted:
                accepted[0].sendall(b"1")
                accepted[0].close()
            second = dhaga.spawn(connects)
            while not second.has_ended:  # the first client may still be in the queue
                with suppress(OSError), dhaga.Timeout(1):
                    sock, _ = listener.accept()
                    sock.sendall(b"2")
                    sock.close()
            return second.result()

        going = dhaga.spawn(goes_on)

        def check() -> None:
            listener.close()
            assert going.result() == b"2"
            assert first.result() in (b"", b"1", b"2", ConnectionResetError, ssl.SSLEOFError)

        return victim, check

    assert cancel_at_every_park(scenario) >= 2


def test_a_timeout_says_which_operation_was_late_as_the_standards_does() -> None:
    def late(kind: Any, near: Any, name: str) -> str:
        context = client_context(kind=kind)
        near.settimeout(0.001)
        with pytest.raises(TimeoutError) as caught:
            context.wrap_socket(near, server_hostname=NAME)
        return str(caught.value).partition(": ")[2] or str(caught.value)

    near, far = socket.socketpair()
    with far:
        theirs = late(standard, near, NAME)
    near, far = socket.socketpair()
    with far:
        assert late(ssl, near, NAME) == theirs == "The handshake operation timed out"
    with virtual_clock(), tls() as (one, _):
        one.settimeout(1)
        fill(one)
        for call, text in ((lambda: one.recv(1), "read"), (lambda: one.sendall(b"x"), "write"), (one.unwrap, "write")):
            error = caught(call)
            assert type(error) is TimeoutError and str(error) == f"The {text} operation timed out"


def test_the_timeout_bounds_a_write_of_many_records_as_a_whole() -> None:
    with virtual_clock() as clock, tls() as (one, other):
        one.settimeout(5)
        writing = dhaga.spawn(caught, one.sendall, bytes(10_000_000))

        def reads_slowly() -> None:
            while not writing.has_ended:
                other.recv(1 << 14)
                dhaga.sleep(0.5)

        began = clock()
        reading = dhaga.spawn(reads_slowly)
        assert isinstance(writing.result(), TimeoutError) and clock() - began == pytest.approx(5)
        reading.result()


def test_a_timeout_block_interrupts_what_waits() -> None:
    with virtual_clock(), tls() as (one, other):
        sent = fill(one)
        for wait in (lambda: one.recv(1), lambda: one.sendall(b"x"), one.unwrap):
            with pytest.raises(TimeoutError, match="not done within"), dhaga.Timeout(1):
                wait()
        whole = len(sent) - len(one.pending_piece)
        assert received(other, whole) == sent[:whole]


# ---- ends


def test_closing_sends_nothing_of_a_broken_write() -> None:
    near, far = socket.socketpair()
    one, other = shake(near, far, client_context(), server_context(), suppress_ragged_eofs=False)
    with one:
        sent = fill(other)
        assert other.pending_piece
        whole = len(sent) - len(other.pending_piece)
        other.close()
        assert received(one, whole) == sent[:whole]
        with pytest.raises(ssl.SSLEOFError):
            one.recv(1)


def test_after_a_half_close_reading_and_writing_are_as_the_standards() -> None:
    def after(one: Any, other: Any) -> list[Any]:
        one.shutdown(socket.SHUT_WR)
        return [result_or_error(lambda: one.send(b"x")), one.version(), one.pending(), other.recv(1)]

    with tls() as (one, other):
        ours = after(one, other)
    near, far = standard_socketpair()
    ends: list[Any] = []
    thread = threading.Thread(target=lambda: ends.append(server_context(kind=standard).wrap_socket(far, True)))
    thread.start()
    with client_context(kind=standard).wrap_socket(near, server_hostname=NAME) as one:
        thread.join(30)
        with ends[0] as other:
            assert after(one, other) == ours == [BrokenPipeError, None, 0, b""]


def test_a_handshake_of_a_closed_socket_fails_as_the_standards() -> None:
    for module in standard, ssl:
        near, far = standard_socketpair()
        with near, far:
            one = client_context(kind=module).wrap_socket(near, server_hostname=NAME, do_handshake_on_connect=False)
            one.close()
            with pytest.raises(OSError, match="Bad file descriptor"):
                one.do_handshake()


@pytest.mark.parametrize("how", [socket.SHUT_RD, socket.SHUT_WR, socket.SHUT_RDWR])
def test_a_shutdown_leaves_nobody_waiting_who_cannot_go_on(how: int) -> None:
    with tls(pair=tcp_pair) as (one, other):
        reading = dhaga.spawn(result_or_error, lambda: one.recv(1))
        writing = dhaga.spawn(caught, one.sendall, bytes(1 << 25))  # more than any buffers hold
        settle()
        one.shutdown(how)
        if how != socket.SHUT_WR:
            assert reading.result(30) in (b"", ssl.SSLEOFError)
        if how != socket.SHUT_RD:
            assert isinstance(writing.result(30), OSError)
        other.close()
        for d in (reading, writing):
            d.result(30)


def test_detaching_gives_the_fd_away_in_clear_and_wakes_who_waits() -> None:
    with tls() as (one, other):
        d = dhaga.spawn(caught, one.recv, 1)
        settle()
        fd = one.detach()
        assert d.result(30).errno == errno.EBADF and one.fileno() == -1
        assert os.get_blocking(fd)
        with socket.socket(fileno=fd) as clear:
            clear.sendall(b"what is this?")
            with pytest.raises(ssl.SSLError, match=r"WRONG_VERSION_NUMBER|RECORD_LAYER_FAILURE"):
                other.recv(1)
        assert isinstance(caught(one.recv, 1), OSError)


def test_a_file_keeps_the_connection_open() -> None:
    with tls() as (one, other):
        file = one.makefile("rwb")
        one.close()
        file.write(b"line\n")
        file.flush()
        assert other.recv(10) == b"line\n"
        other.sendall(b"answer\n")
        assert file.readline() == b"answer\n" and one.fileno() != -1
        file.close()
        assert one.fileno() == -1 and other.recv(1) == b""


def test_what_has_no_meaning_for_a_stream_of_tls_is_refused() -> None:
    with tls() as (one, _):
        for call in (one.recvfrom, one.recvfrom_into, one.sendto):
            with pytest.raises(ValueError, match="not allowed"):
                call(bytearray(1), 1)
        for call in (one.recvmsg, one.recvmsg_into, one.sendmsg):
            with pytest.raises(NotImplementedError, match="not allowed"):
                call([b"x"])
        with pytest.raises(NotImplementedError):
            one.dup()
        for call in (one.recv, one.recv_into, one.send, one.sendall):
            with pytest.raises(ValueError, match="flags"):
                call(bytearray(1), flags=socket.MSG_PEEK)
        with pytest.raises(TypeError):
            one.sendall("text")
        assert one.send(b"") == 0 and one.sendall(b"") is None


def test_a_closed_connection_says_so() -> None:
    with tls() as (one, _):
        one.close()
        for call in (lambda: one.read(1), lambda: one.write(b"x"), one.unwrap, one.verify_client_post_handshake):
            with pytest.raises(ValueError):
                call()
        for call in (lambda: one.recv(1), lambda: one.send(b"x"), lambda: one.sendall(b"x")):
            with pytest.raises(OSError, match="Bad file descriptor"):
                call()
        assert one.pending() == 0 and one.version() is None
        one.close()


def test_closing_while_openssl_is_at_work_waits_with_the_number_of_the_fd() -> None:
    """Else the number might stand for another connection, on which OpenSSL would go on."""
    server = server_context()
    inside = threading.Event()
    closed = Event()

    def choose(sock: Any, name: str, context: Any) -> None:
        inside.set()
        closed.wait(30)

    server.sni_callback = choose
    near, far = socket.socketpair()
    number = far.fileno()
    other = server.wrap_socket(far, server_side=True, do_handshake_on_connect=False)
    shaking = dhaga.spawn(caught, other.do_handshake)
    d = dhaga.spawn(caught, client_context().wrap_socket, near, server_hostname=NAME)
    settle()
    assert inside.is_set()
    other.close()
    assert other.fileno() == -1
    os.fstat(number)  # open still
    closed.set()
    assert isinstance(shaking.result(30), OSError)
    with pytest.raises(OSError):
        os.fstat(number)
    assert isinstance(d.result(30), OSError)


# ---- callbacks


def test_a_cancel_in_the_callback_for_the_servers_name_ends_the_handshake(capsys: Any, monkeypatch: Any) -> None:
    told: list[Any] = []
    monkeypatch.setattr("sys.unraisablehook", lambda what: told.append(what.exc_type))
    server = server_context()
    server.sni_callback = lambda *_: dhaga.sleep(1000)
    near, far = socket.socketpair()
    serving = dhaga.spawn(server.wrap_socket, far, True)
    d = dhaga.spawn(caught, client_context().wrap_socket, near, server_hostname=NAME)
    settle()
    assert serving.reason == "sleep"
    serving.cancel()
    assert isinstance(caught(serving.result, 10), (OSError, dhaga.Cancelled))
    assert isinstance(d.result(30), ssl.SSLError) and told == [dhaga.Cancelled]
    assert far.fileno() == near.fileno() == -1


def test_many_handshakes_can_be_parked_in_their_callbacks() -> None:
    server = server_context()
    gate = Event()
    server.sni_callback = lambda *_: gate.wait() and None
    client = client_context()
    serving, shaking = [], []
    for _ in range(20):
        near, far = socket.socketpair()
        serving.append(dhaga.spawn(server.wrap_socket, far, True))
        shaking.append(dhaga.spawn(client.wrap_socket, near, server_hostname=NAME))
    settle()
    assert all(d.reason == "event.wait" for d in serving)
    gate.set()
    for d in reversed(serving):
        d.result(30).sendall(b"x")
    for d in shaking:
        assert d.result(30).recv(1) == b"x"
        d.result().close()
    for d in serving:
        d.result().close()


def test_the_keys_are_logged(tmp_path: Path) -> None:
    client = client_context(ssl.TLSVersion.TLSv1_3)
    client.keylog_filename = str(tmp_path / "keys")
    one, other = shake(*socket.socketpair(), client, server_context())
    with one, other:
        assert "CLIENT_TRAFFIC_SECRET_0" in (tmp_path / "keys").read_text()


# ---- two at once


def asking() -> tuple[Any, Any]:
    """Return two ends, of which the server may ask for the client's certificate after the handshake."""
    client, server = client_context(ssl.TLSVersion.TLSv1_3), server_context()
    certificate("client@example.org").configure_cert(client)
    authority().configure_trust(server)
    client.post_handshake_auth = server.post_handshake_auth = True
    server.verify_mode = ssl.CERT_OPTIONAL
    return shake(*socket.socketpair(), client, server)


def test_a_certificate_is_asked_for_once_a_stuck_write_is_through() -> None:
    one, other = asking()
    with one, other:
        sent = fill(other)
        asks = dhaga.spawn(other.verify_client_post_handshake)
        writes = dhaga.spawn(other.sendall, b"who")
        settle()
        assert asks.reason.startswith("write fd") and writes.reason == "lock.acquire"
        assert received(one, len(sent) + 3) == sent + b"who"
        one.sendall(b"me")
        assert other.recv(10) == b"me" and other.getpeercert()["subjectAltName"]
        assert asks.result() is None and writes.result() is None


def test_a_certificate_asked_for_while_the_client_is_stuck_ends_all_with_errors() -> None:
    """OpenSSL cannot send it in the middle of a record: it breaks the connection."""
    one, other = asking()
    with one, other:
        fill(one)
        writing = dhaga.spawn(caught, one.sendall, b"x")
        settle()
        other.verify_client_post_handshake()
        other.sendall(b"who")
        assert isinstance(caught(one.recv, 10), ssl.SSLError)
        draining = dhaga.spawn(caught, received, other, 1 << 22)
        assert isinstance(writing.result(30), ssl.SSLError)
        assert isinstance(caught(one.sendall, b"x"), ssl.SSLError)
        one.close()
        draining.join(30)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_writer_goes_on_when_a_reader_has_finished_its_handshake(version: Any) -> None:
    near, far = socket.socketpair()
    one = client_context(version).wrap_socket(near, server_hostname=NAME, do_handshake_on_connect=False)
    server = server_context()
    server.num_tickets = 0
    with one, server.wrap_socket(far, server_side=True, do_handshake_on_connect=False) as other:
        writing = dhaga.spawn(one.sendall, b"hello")
        settle()
        other.settimeout(0)
        while True:
            with suppress(ssl.SSLWantReadError):
                other.do_handshake()
                break
            one.settimeout(0)
            assert isinstance(caught(one.recv, 1), ssl.SSLWantReadError)  # takes what the writer waits for
            one.settimeout(None)
            settle()
        writing.result(30)
        other.settimeout(10)
        assert other.recv(5) == b"hello"


def test_what_came_together_is_read_by_one_read_each() -> None:
    with virtual_clock(), tls() as (one, other):
        for _ in range(3):
            d = dhaga.spawn(lambda: [one.recv(100) for _ in range(4)])
            settle()
            for text in (b"a", b"bc", bytes(100), b"d"):
                other.sendall(text)
            assert d.result() == [b"a", b"bc", bytes(100), b"d"]
            other.sendall(b"ef")
            assert dhaga.spawn(lambda: [one.recv(1), one.recv(1)]).result() == [b"e", b"f"]


def test_a_read_of_nothing_does_not_wait() -> None:
    with tls() as (one, other):
        other.sendall(b"x")
        for timeout in (None, 5):
            one.settimeout(timeout)
            d = dhaga.spawn(lambda: [one.recv(1), one.recv(0), one.recv_into(bytearray()), caught(one.recv, -1)])
            *read, error = d.result(30)
            assert read == [b"x", b"", 0] and isinstance(error, ValueError)
            other.sendall(b"x")


def test_select_tells_what_can_be_read() -> None:
    with tls() as (one, other):
        other.sendall(b"ticket")
        assert one.recv(10) == b"ticket"
        assert select.select([one], [], [], 0)[0] == []
        other.sendall(b"abc")
        assert select.select([one], [one], [], 10) == ([one], [one], [])
        assert one.recv(1) == b"a" and one.pending() == 2


def possible_ends(got: bytes, begins: set[int], data: bytes, whole: bool) -> set[int]:
    """Return where a write may have ended in what arrived: whole, or broken off after any of its records."""
    if whole:
        return {begin + len(data) for begin in begins if got.startswith(data, begin)}
    lengths = {*range(0, len(data), RECORD), len(data)}
    return {begin + length for begin in begins for length in lengths if got.startswith(data[:length], begin)}


def writes_at_random(rnd: random.Random, sock: Any) -> list[tuple[bytes, bool]]:
    """Write, and break many of the writes off. Returns: what, and whether it was whole."""
    log = []
    for _ in range(12):
        data = rnd.randbytes(rnd.choice([1, 100, RECORD, RECORD + 1, 100_000]))
        writing = dhaga.spawn(sock.sendall, rnd.choice([data, bytearray(data)]))
        if rnd.random() < 0.5:
            for _ in range(rnd.randrange(4)):
                dhaga.sleep(0)
            writing.cancel()
        error = caught(writing.result, 30)
        assert error is None or isinstance(error, dhaga.Cancelled)
        log.append((data, error is None))
    return log


def reads_at_random(rnd: random.Random, sock: Any) -> bytes:
    """Read to the end, and break many of the reads off."""
    got = bytearray()
    while not got.endswith(END):
        with suppress(TimeoutError), dhaga.Timeout(rnd.choice([0, 0.0001, 0.01, 30])):
            got += sock.recv(rnd.choice([1, 1000, 1 << 16]))
        if rnd.random() < 0.1:
            dhaga.sleep(0.0002)
    return bytes(got)


@pytest.mark.parametrize("rounds", [2, pytest.param(30, marks=pytest.mark.slow)])
def test_whatever_is_broken_off_in_both_directions_the_streams_are_right(rounds: int) -> None:
    for seed in range(rounds):
        rnd = random.Random(seed)
        with tls(rnd.choice(VERSIONS), rnd.choice([socket.socketpair, tcp_pair])) as (one, other):
            for end in (one, other):
                end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, rnd.choice([8192, 1 << 16]))
            writing = [dhaga.spawn(writes_at_random, rnd, end) for end in (one, other)]
            reading = [dhaga.spawn(reads_at_random, rnd, end) for end in (other, one)]
            logs = [d.result(30) for d in writing]
            one.sendall(END)
            other.sendall(END)
            for log, got in zip(logs, [d.result(30) for d in reading], strict=True):
                ends = {0}
                for data, whole in [*log, (END, True)]:
                    ends = possible_ends(got, ends, data, whole)
                assert len(got) in ends, f"seed {seed}"


# ---- threads and processes


def test_two_threads_use_a_connection_in_one_direction_each() -> None:
    """Our end is read in one thread and written in another, dhagas in one and a plain thread in the other."""
    data = os.urandom(3_000_000)
    with tls() as (one, other):
        echo: list[bytes] = []
        thread = threading.Thread(target=lambda: echo.append(received(one, len(data))))
        thread.start()

        def echoes() -> None:
            left = len(data)
            while left:
                more = other.recv(1 << 16)
                other.sendall(more)
                left -= len(more)

        echoing = dhaga.spawn(echoes)
        dhaga.spawn(one.sendall, data).result(30)
        echoing.result(30)
        thread.join(30)
        assert echo == [data]


def test_two_schedulers_use_a_connection_in_one_direction_each() -> None:
    data = os.urandom(1_000_000)
    with tls() as (one, other):
        with dhaga.Scheduler("aside") as aside:
            reading = aside.spawn(received, one, len(data))
            echoing = dhaga.spawn(lambda: other.sendall(received(other, len(data))))
            one.sendall(data)
            assert reading.result(30) == data
            echoing.result(30)


def test_a_thread_that_closes_disturbs_no_other_connection() -> None:
    """Numbers of fds are given out anew at once; nobody may go on with the former one."""
    for _ in range(5):
        with tls() as (one, other):
            reading = dhaga.spawn(caught, lambda one=one: [one.recv(10) for _ in range(1000)])
            writing = dhaga.spawn(caught, lambda one=one: [one.sendall(b"x") for _ in range(100_000)])
            draining = dhaga.spawn(caught, received, other, 1 << 30)
            dhaga.sleep(0)
            thread = threading.Thread(target=one.close)
            thread.start()
            thread.join()
            newcomers = socket.socketpair()
            for d in (reading, writing):
                assert d.result(30).errno == errno.EBADF
            for newcomer in newcomers:
                newcomer.shutdown(socket.SHUT_WR)
            for newcomer in newcomers:
                with newcomer:
                    assert newcomer.recv(1) == b""
            draining.result(30)


def test_a_child_process_does_not_disturb_the_connection() -> None:
    lines = scripts.prints(
        """
        import gc, os
        import dhaga
        from tests.kit.tls import fill, received, tls
        with tls() as (one, other):
            sent = fill(one)
            writing = dhaga.spawn(one.sendall, b"tail")
            reading = dhaga.spawn(one.recv, 5)
            dhaga.sleep(0)
            for how in ("close", "drop"):
                pid = os.fork()
                if not pid:
                    if how == "close":
                        one.close(), other.close()
                    del one, other, writing, reading
                    gc.collect()
                    os._exit(0)
                assert os.waitpid(pid, 0)[1] == 0
            assert received(other, len(sent) + 4) == sent + b"tail"
            other.sendall(b"hello")
            print(reading.result(30), writing.result(30))
        """
    )
    assert lines == ["b'hello' None"]


def test_ctrl_c_breaks_a_handshake_off_and_closes() -> None:
    program = scripts.Program(
        """
        import threading
        from dhaga import socket
        from tests.kit.certificates import client_context
        near, far = socket.socketpair()
        def hears():
            global first
            first = far.recv(1)
            print("ready", flush=True)
        thread = threading.Thread(target=hears)
        thread.start()
        try:
            client_context().wrap_socket(near, server_hostname="localhost")
        except KeyboardInterrupt:
            thread.join()
            print("interrupted", near.fileno(), first, far.recv(1 << 14)[:1], far.recv(1))
        """
    )
    outcome = program.interrupt_at("ready").outcome()
    assert outcome.lines == [r"interrupted -1 b'\x16' b'\x03' b''"], outcome


def test_without_a_free_fd_accept_says_so_and_the_connection_waits() -> None:
    with server_context().wrap_socket(socket.create_server(LOCAL), server_side=True) as listener:
        connecting = dhaga.spawn(socket.create_connection, listener.getsockname())
        sock = connecting.result(30)
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        spare = os.open("/dev/null", os.O_RDONLY)
        os.close(spare)
        resource.setrlimit(resource.RLIMIT_NOFILE, (spare, hard))
        try:
            error = caught(listener.accept)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert isinstance(error, OSError) and error.errno == errno.EMFILE
        d = dhaga.spawn(listener.accept)
        with client_context().wrap_socket(sock, server_hostname=NAME) as one, d.result(30)[0] as other:
            other.sendall(b"!")
            assert one.recv(1) == b"!"


# ---- the standard's sockets and contexts


def test_our_context_takes_a_standard_socket() -> None:
    near, far = standard_socketpair()
    one, other = shake(near, far, client_context(), server_context())
    with one, other:
        assert type(one) is type(other) is ssl.SSLSocket and near.fileno() == -1
        d = dhaga.spawn(one.recv, 5)
        settle()
        other.sendall(b"hello")
        assert d.result(30) == b"hello"


def test_the_standards_context_makes_a_blocking_socket_of_ours() -> None:
    near, far = socket.socketpair()
    got: list[Any] = []

    def shakes() -> None:
        with client_context(kind=standard).wrap_socket(near, server_hostname=NAME) as one:
            got.extend([type(one), one.recv(5)])

    thread = threading.Thread(target=shakes)
    thread.start()
    with server_context().wrap_socket(far, server_side=True) as other:
        other.sendall(b"hello")
        thread.join(30)
    assert got == [standard.SSLSocket, b"hello"]


def test_a_socket_that_nobody_closed_is_closed_when_it_is_dropped() -> None:
    near, far = socket.socketpair()
    one, other = shake(near, far, client_context(), server_context())
    number = one.fileno()
    with other:
        other.sendall(b"x")
        assert one.recv(1) == b"x"
        with pytest.warns(ResourceWarning, match="unclosed"):
            del one
        with pytest.raises(OSError):
            os.fstat(number)
        assert other.recv(1) == b""


# ---- other peers, and many

ALLOW_CLIENT_RENEGOTIATION = 1 << 8
"""SSL_OP_ALLOW_CLIENT_RENEGOTIATION of OpenSSL 3, which not every Python has a name for."""


@pytest.mark.once
@pytest.mark.skipif(shutil.which("openssl") is None, reason="there is no program openssl here")
@pytest.mark.parametrize(("version", "order"), [("tls1_2", b"RENEGOTIATING"), ("tls1_3", b"KEYUPDATE")])
def test_a_client_may_renew_its_keys_while_the_server_reads(version: str, order: bytes) -> None:
    server = server_context()
    server.options |= ALLOW_CLIENT_RENEGOTIATION
    with socket.create_server(LOCAL) as listener:
        command = ["openssl", "s_client", f"-{version}", "-connect", f"127.0.0.1:{listener.getsockname()[1]}"]
        pipe: Any = subprocess.PIPE
        with subprocess.Popen(command, bufsize=0, stdin=pipe, stdout=pipe, stderr=pipe) as client:
            assert client.stdin and client.stdout and client.stderr
            with server.wrap_socket(listener.accept()[0], server_side=True) as connection:
                connection.settimeout(10)
                client.stdin.write(b"one\n")
                assert connection.recv(100) == b"one\n"
                client.stdin.write(order[:1] + b"\n")
                while client.stderr.readline().strip() != order:
                    pass
                client.stdin.write(b"two\n")
                assert connection.recv(100) == b"two\n"
                connection.sendall(b"the answer\n")
                heard = b""
                while not heard.endswith(b"the answer\n"):
                    more = client.stdout.read(1000)
                    assert more, heard
                    heard += more
                client.stdin.close()
                assert connection.recv(100) == b""
