"""TLS connections with both ends in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import dhaga
from dhaga import socket, ssl
from tests.kit.certificates import NAME, client_context, server_context

LOCAL = ("127.0.0.1", 0)
VERSIONS = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]


def shake(near: Any, far: Any, client: Any, server: Any, **options: Any) -> tuple[Any, Any]:
    """Wrap both ends of a connection, the server's end in a dhaga."""
    options.setdefault("server_hostname", NAME)
    serving = dhaga.spawn(server.wrap_socket, far, server_side=True)
    one = client.wrap_socket(near, **options)
    return one, serving.result(30)


def tcp_pair() -> tuple[Any, Any]:
    """Return the two ends of a new TCP connection."""
    with socket.create_server(LOCAL) as listener:
        near = socket.create_connection(listener.getsockname())
        return near, listener.accept()[0]


@contextmanager
def tls(
    version: Any = ssl.TLSVersion.TLSv1_3, pair: Callable[[], Any] = socket.socketpair
) -> Iterator[tuple[Any, Any]]:
    """Yield the client's and the server's end of a connection."""
    near, far = pair()
    one, other = shake(near, far, client_context(version), server_context())
    with one, other:
        yield one, other


def received(sock: Any, size: int) -> bytes:
    """Receive ``size`` bytes, or fewer at the end of the stream."""
    data = bytearray()
    while len(data) < size and (more := sock.recv(min(1 << 16, size - len(data)))):
        data += more
    return bytes(data)


def fill(sock: Any) -> bytes:
    """Send without waiting until nothing more fits. Returns: the data, with the unsent part of the last record."""
    sent = bytearray()
    former = sock.gettimeout()
    sock.settimeout(0)
    with suppress(ssl.SSLWantWriteError):
        while True:
            data = bytes([len(sent) >> 14 & 255]) * (1 << 14)
            sock.send(data)
            sent += data
    sock.settimeout(former)
    return bytes(sent + sock.pending_piece)


def caught(call: Callable[..., Any], *args: Any, **options: Any) -> BaseException | None:
    """Return the error that a call raises, or None."""
    try:
        call(*args, **options)
    except BaseException as error:
        return error
    return None


def result_or_error(call: Callable[[], Any]) -> Any:
    """Return the result of a call, or the class of its error."""
    try:
        return call()
    except Exception as error:
        return type(error)
