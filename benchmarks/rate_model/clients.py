"""HTTP/1.1 over kept-alive connections, a pool for each upstream: twice the same, in calls and in coroutines."""

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
"""A socket of the rival's: the standard module's, or what has its face."""


def complete(answer: bytes) -> bool:
    """Return whether all of an answer is there. Raises: ConnectionError if it is none that was asked for."""
    head, gap, body = answer.partition(b"\r\n\r\n")
    if not gap:
        return False
    found = HEAD.match(head + b"\r\n")
    if not found:
        raise ConnectionError(f"the upstream answered {head[:40]!r}")
    return len(body) >= int(found[1])


def more(answer: bytes, data: bytes) -> bytes:
    """Return what has been received so far. Raises: ConnectionError at its end."""
    if not data:
        raise ConnectionError("the upstream hung up")
    return answer + data


class Pool:
    """The idle connections to one upstream; a call takes one or makes one. `new` makes a socket of the rival's."""

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
        """Make one more connection, without looking a name up. Raises: OSError."""
        sock = self.new()
        try:
            sock.connect(self.address)
        except BaseException:
            sock.close()
            raise
        return sock

    def taken(self) -> Socket | None:
        """Return an idle connection, if there is one; threads may ask at once."""
        try:
            return self.idle.pop()
        except IndexError:
            return None


class AsyncPool:
    """The same for coroutines, over the loop's own `sock_` methods."""

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
        """Make one more connection. Raises: OSError."""
        sock = socket.socket()
        try:
            sock.setblocking(False)
            await self.loop.sock_connect(sock, self.address)
        except BaseException:
            sock.close()
            raise
        return sock


def calling(ports: Sequence[int], new: Callable[[], Socket]) -> Callable[[int], None]:
    """Return a call whose upstreams are processes at these ports."""
    pools = [Pool(new, port) for port in ports]

    def call(number: int) -> None:
        pools[number % len(pools)].call()

    return call
