"""Listening sockets: addresses, ports that are shared, files of Unix sockets."""

from __future__ import annotations

import errno
import os
import pathlib
import re
import socket as standard
from typing import Any

import pytest

from dhaga import socket
from dhaga.servers import TCPServer, _listeners
from tests.kit.servers import LOCAL, ask, client, echo, serving


def test_no_host_means_every_interface_with_one_port() -> None:
    with serving(address=("", 0)) as server:
        assert {address[0] for address in server.addresses} >= {"0.0.0.0"}
        assert len({address[1] for address in server.addresses}) == 1
        for address in server.addresses:
            assert ask((address[0].replace("0.0.0.0", "127.0.0.1").replace("::", "::1"), address[1])) == b"hello"


def test_ipv6_is_served() -> None:
    try:
        server = TCPServer(echo, ("::1", 0)).start()
    except OSError as error:
        pytest.skip(f"no IPv6 here: {error}")
    assert ask(server) == b"hello"
    assert f"[::1]:{server.address[1]}" in repr(server)
    server.stop(0)


def test_the_scope_of_an_ipv6_address_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A link-local address is ambiguous without its scope. Few machines have one, so the bind is only recorded."""
    asked: list[Any] = []

    def refuse(address: Any, **options: Any) -> None:
        asked.append(address)
        raise OSError(errno.EADDRNOTAVAIL, "not available")

    monkeypatch.setattr(_listeners, "create_server", refuse)
    with pytest.raises(OSError, match="not available"):
        TCPServer(echo, ("fe80::1%1", 8080)).start()
    assert asked == [("fe80::1", 8080, 0, 1)]


def test_localhost_is_served_at_each_of_its_addresses() -> None:
    with serving(address=("localhost", 0)) as server:
        for address in server.addresses:
            assert ask(address) == b"hello"


def test_a_host_without_an_address_is_named() -> None:
    with pytest.raises(OSError, match=r"the host 'no-such-host\.invalid'"):
        TCPServer(echo, ("no-such-host.invalid", 0)).start()


def test_an_address_in_use_is_refused_and_nothing_is_left_open() -> None:
    with serving() as server:
        with pytest.raises(OSError, match="in use"):
            TCPServer(echo, [LOCAL, server.address]).start()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", ""])
@pytest.mark.parametrize("reuse_port", [False, True])
def test_the_error_of_an_address_in_use_says_what_to_do(host: str, reuse_port: bool) -> None:
    if reuse_port and not hasattr(standard, "SO_REUSEPORT"):
        pytest.skip("the platform has no SO_REUSEPORT")
    with serving() as server:
        port = server.address[1]
        with pytest.raises(OSError, match=rf"in use: (127\.0\.0\.1|0\.0\.0\.0):{port}\. Choose another port") as caught:
            TCPServer(echo, (host, port), reuse_port=reuse_port).start()
    assert caught.value.errno == errno.EADDRINUSE
    text = str(caught.value)
    assert f"`lsof -i :{port}` or `ss -ltnp`" in text and "sets reuse_port" in text


@pytest.mark.parametrize(
    ("number", "kind", "advice"),
    [
        (errno.EACCES, PermissionError, "A port below 1024 needs a privilege: choose another port"),
        (errno.EADDRNOTAVAIL, OSError, "No interface of this machine has this address"),
        (errno.EMFILE, OSError, "Too many open files: 127.0.0.1:80"),
    ],
)
def test_other_errors_of_an_address_name_it_and_what_to_do(
    number: int, kind: type[OSError], advice: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(address: Any, **options: Any) -> None:
        raise OSError(number, f"{os.strerror(number)} (while attempting to bind on address {address})")

    monkeypatch.setattr(_listeners, "create_server", refuse)
    with pytest.raises(kind, match=f"{os.strerror(number)}: 127.0.0.1:80") as caught:
        TCPServer(echo, ("127.0.0.1", 80)).start()
    assert caught.value.errno == number and advice in str(caught.value) and "attempting" not in str(caught.value)


@pytest.mark.skipif(not hasattr(standard, "SO_REUSEPORT"), reason="the platform has no SO_REUSEPORT")
def test_servers_share_a_port_with_reuse_port() -> None:
    with serving(reuse_port=True) as one, serving(address=one.address, reuse_port=True):
        assert ask(one) == b"hello"


@pytest.mark.parametrize("kind", [standard, socket])
def test_a_listening_socket_is_served_and_stays_the_callers(kind: Any) -> None:
    with kind.create_server(LOCAL) as listener:
        with serving(address=listener) as server:
            assert server.address == listener.getsockname()
            assert ask(server) == b"hello"
        with serving(address=listener) as server:
            assert ask(server) == b"hello"


def test_a_unix_socket_is_served_and_its_file_removed(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "socket"
    with serving(address=path) as server:
        assert server.address == str(path)
        assert ask(server) == b"hello"
    assert not path.exists()


def test_the_socket_file_of_a_dead_server_is_taken_over(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "socket"
    with standard.socket(standard.AF_UNIX) as dead:
        dead.bind(str(path))
        dead.listen()
    with serving(address=path) as server:
        assert ask(server) == b"hello"


def test_the_socket_file_of_a_live_server_is_in_use(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "socket"
    with serving(address=path) as server:
        with pytest.raises(
            OSError, match=r"in use \(choose another path, or end the server that listens there\): the Unix socket"
        ) as caught:
            TCPServer(echo, path).start()
        assert caught.value.errno == errno.EADDRINUSE
        assert ask(server) == b"hello"


def test_a_path_that_is_too_long_is_named() -> None:
    path = "/tmp/" + "a" * 200
    with pytest.raises(OSError, match=f"too long: the Unix socket '{path}'") as caught:
        TCPServer(echo, path).start()
    assert caught.value.errno == errno.ENAMETOOLONG


@pytest.mark.parametrize(
    ("text", "meant"),
    [("127.0.0.1:80", "('127.0.0.1', 80)"), (":8000", "('', 8000)"), ("[::1]:80", "('::1', 80)")],
)
def test_a_host_and_port_in_a_str_name_no_unix_socket(
    text: str, meant: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=re.escape(f"write {meant}, or './{text}' for a Unix socket")):
        TCPServer(echo, text).start()
    assert os.listdir() == []
    with serving(address=f"./{text}") as server:
        assert ask(server) == b"hello"


def test_a_file_that_is_no_socket_is_left_alone(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "socket"
    path.write_text("precious")
    with pytest.raises(OSError, match="in use"):
        TCPServer(echo, path).start()
    assert path.read_text() == "precious"


def test_the_socket_file_of_a_successor_is_left_alone(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "socket"
    former = TCPServer(echo, path).start()
    path.unlink()
    with serving(address=path) as server:
        former.stop()
        assert ask(server) == b"hello"


@pytest.mark.logs
def test_a_server_stops_even_if_its_socket_file_cannot_be_removed(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(path: str) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)

    path = tmp_path / "socket"
    server = TCPServer(echo, path).start()
    (listener,) = server.listeners
    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", refuse)
        server.stop(0)
    assert (server.ended, listener.fileno()) == (True, -1)
    assert f"the file of a closed Unix socket remains: [Errno 13] Permission denied: '{path}'" in caplog.text


@pytest.mark.skipif(not hasattr(standard, "AF_UNIX") or os.uname().sysname != "Linux", reason="names without file")
def test_a_unix_socket_without_a_file() -> None:
    with serving(address=f"\0dhaga-{os.getpid()}") as server:
        name = os.fsdecode(server.address)
        assert ask(name) == b"hello"


def test_connections_of_a_server_send_small_pieces_at_once() -> None:
    delays = []
    handler = lambda sock, peer: delays.append(sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))  # noqa: E731
    with serving(handler) as server, client(server) as sock:
        assert sock.recv(1) == b""
    assert delays and delays[0]
