"""HTTP/1.1 clients with a pool of kept connections for each upstream, as blocking calls and as coroutines."""

import asyncio
import re
import socket
from collections.abc import Callable, Sequence
from typing import Any

REQUEST = b"GET / HTTP/1.1\r\nHost: upstream\r\n\r\n"
HEAD = re.compile(rb"HTTP/1\.1 200 .*?\r\ncontent-length: (\d+)\r\n", re.IGNORECASE | re.DOTALL)
HOST = "127.0.0.1"
BYTES = 4096

Socket = Any
"""A socket of the rival: of the standard module, or of a module with the same API."""


def complete(answer: bytes) -> bool:
    """Return whether an answer is complete. Raises: ConnectionError if it is not the expected answer."""
    head, gap, body = answer.partition(b"\r\n\r\n")
    if not gap:
        return False
    found = HEAD.match(head + b"\r\n")
    if not found:
        raise ConnectionError(f"the upstream answered {head[:40]!r}")
    return len(body) >= int(found[1])


def more(answer: bytes, data: bytes) -> bytes:
    """Return the answer extended by the received data. Raises: ConnectionError at the end of the stream."""
    if not data:
        raise ConnectionError("the upstream hung up")
    return answer + data


class Pool:
    """The idle connections to one upstream. A call takes one or opens one. `new` creates a socket of the rival."""

    def __init__(self, new: Callable[[], Socket], port: int) -> None:
        self.new = new
        self.address = (HOST, port)
        self.idle: list[Socket] = []

    def call(self) -> None:
        """Ask once. Raises: OSError."""
        sock = self.taken() or self.connect()
        try:
            sock.sendall(REQUEST)
            answer = b""
            while not complete(answer):
                answer = more(answer, sock.recv(BYTES))
        except BaseException:
            sock.close()
            raise
        self.idle.append(sock)

    def connect(self) -> Socket:
        """Open a connection, without a name look-up. Raises: OSError."""
        sock = self.new()
        try:
            sock.connect(self.address)
        except BaseException:
            sock.close()
            raise
        return sock

    def taken(self) -> Socket | None:
        """Return an idle connection, or None. Several threads may call this at the same time."""
        try:
            return self.idle.pop()
        except IndexError:
            return None


class AsyncPool:
    """A Pool for coroutines, based on the loop's `sock_` methods."""

    def __init__(self, loop: asyncio.AbstractEventLoop, port: int) -> None:
        self.loop = loop
        self.address = (HOST, port)
        self.idle: list[Socket] = []

    async def call(self) -> None:
        """Ask once. Raises: OSError."""
        loop = self.loop
        sock = self.idle.pop() if self.idle else await self.connect()
        try:
            await loop.sock_sendall(sock, REQUEST)
            answer = b""
            while not complete(answer):
                answer = more(answer, await loop.sock_recv(sock, BYTES))
        except BaseException:
            sock.close()
            raise
        self.idle.append(sock)

    async def connect(self) -> Socket:
        """Open a connection. Raises: OSError."""
        sock = socket.socket()
        try:
            sock.setblocking(False)
            await self.loop.sock_connect(sock, self.address)
        except BaseException:
            sock.close()
            raise
        return sock


def calling(ports: Sequence[int], new: Callable[[], Socket]) -> Callable[[int], None]:
    """Return a function that calls the upstream of a request; the upstreams are processes at these ports."""
    pools = [Pool(new, port) for port in ports]

    def call(number: int) -> None:
        pools[number % len(pools)].call()

    return call
