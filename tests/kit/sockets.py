"""Code shared by the tests of sockets."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from dhaga import socket

LOCAL = ("127.0.0.1", 0)


def free_port() -> int:
    """Return a port on which nobody listens, outside the range from which Linux assigns ports."""
    while True:
        port = random.SystemRandom().randrange(20_000, 30_000)  # a seed of the tests would repeat the numbers
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


@contextmanager
def tcp() -> Iterator[tuple[Any, Any]]:
    """Yield the two ends of a TCP connection over loopback."""
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


def drain(sock: Any) -> int:
    """Receive without waiting until nothing is left."""
    former = sock.gettimeout()
    sock.setblocking(False)
    got = 0
    with suppress(BlockingIOError):
        while data := sock.recv(1 << 20):
            got += len(data)
    sock.settimeout(former)
    return got
