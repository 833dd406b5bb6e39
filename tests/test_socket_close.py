"""Sockets that are closed while they are waited for, or are no longer open; numbers used again."""

from __future__ import annotations

import asyncio
import errno
import os
import resource
import socket as standard
import threading
import time
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

import dhaga
from dhaga import os as dhaga_os
from dhaga import socket
from dhaga.testing import open_fds, settle
from tests.kit.sockets import (
    LOCAL,
    READERS,
    WRITERS,
    caught,
    ends_within,
    fill,
    unix,
)

# ---- closing


def same_scheduler(call: Callable[[], Any], sock: Any, then: Callable[[], None]) -> Any:
    d = dhaga.spawn(caught, call)
    settle()
    assert d.state == "WAITING"
    then()
    return d.result(30)


def another_scheduler(call: Callable[[], Any], sock: Any, then: Callable[[], None]) -> Any:
    with dhaga.Scheduler() as scheduler:
        d = scheduler.spawn(caught, call)
        while d.state != "WAITING":
            time.sleep(0.001)
        then()
        return d.result(30)


def plain_thread(call: Callable[[], Any], sock: Any, then: Callable[[], None]) -> Any:
    errors: list[BaseException | None] = []
    thread = threading.Thread(target=lambda: errors.append(caught(call)))
    thread.start()
    while None not in sock.watchers_ or not sock.watchers_[None].wakeup_fds:
        time.sleep(0.001)
    then()
    thread.join(30)
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
            error = d.result(30)
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
        assert isinstance(d.result(30), OSError)


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
        d.join(30)
        assert d.state == "DONE"
        one.detach()
        reader = dhaga.spawn(new.recv, 10)
        settle()
        peer.send(b"still")
        assert ends_within(5, reader) == b"still"


@pytest.mark.parametrize("end", ["close", "detach"])
def test_a_second_close_does_no_harm_to_the_next_owner_of_the_number(end: str) -> None:
    sock = socket.socket()
    number = sock.fileno()
    getattr(sock, end)()
    bell, button = os.pipe()
    os.dup2(bell, number)
    reader = dhaga.spawn(dhaga_os.read, number, 10)
    settle()
    sock.close()
    os.write(button, b"x")
    try:
        assert ends_within(5, reader) == b"x"
    finally:
        for fd in {bell, button, number}:
            os.close(fd)


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
            assert all(d.result(30) for d in clients)
            server.join(30)
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
