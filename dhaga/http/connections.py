"""What a fetch of Tornado's simple client connects: names, sockets and TLS, of which any step can be stopped.

Tornado's own ``TCPClient`` can only be left to itself, and looks up even numbers in an OS thread. Not here: what goes
over a connection (``client.py``), and curl, which connects by itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import functools
import itertools
import socket
from asyncio import CancelledError, Future
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from typing import Any

from tornado.iostream import IOStream
from tornado.netutil import Resolver
from tornado.tcpclient import TCPClient

from ..aio import run_in_dhaga
from ..resolve import getaddrinfo, needs_look_up

STAGGER = 0.25
"""Seconds that an address may be silent before the next one is tried beside it (RFC 8305, 5)."""

Address = tuple[int, Any]
"""A family, and what a socket of it connects to."""


class Names(Resolver):
    """Look names up as ``dhaga.socket`` does: in an OS thread of Dhaga's; what is numeric already, at once."""

    async def resolve(
        self, host: str, port: int, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[tuple[int, Any]]:
        query = host, port, family, socket.SOCK_STREAM
        found = await run_in_dhaga(getaddrinfo, *query) if needs_look_up(host) else getaddrinfo(*query)
        return [(each[0], each[4]) for each in found]


class Dial:
    """A connection, on its way or made. ``stop(error)`` closes it, and has ``connect`` raise the error.

    Each step leaves its ``undo``. Only a look-up is cancelled by its Task: with a socket, that might come just when it
    has connected, and nobody would close it.
    """

    def __init__(self, host: str, port: int) -> None:
        self.host = host
        self.port = port
        self.error: Exception | None = None
        self.doing = ""
        self.undo: Callable[[], object] = int
        self.task: Any = asyncio.current_task()

    def begin(self, doing: str, undo: Callable[[], object]) -> None:
        """Take the next step. Raises: what the dial was stopped with."""
        if self.error is not None:
            raise self.error
        self.doing, self.undo = doing, undo

    def stop(self, error: Exception) -> None:
        """Give up whatever is being done. From: the loop's thread."""
        if self.error is None:
            self.error = error
            self.undo()

    def time_out(self) -> None:
        self.stop(TimeoutError(f"Timeout {self.doing}"))

    async def connect(
        self, timeout: float | None, resolver: Resolver, family: Any, make: Callable[[int], IOStream], tls: Any
    ) -> IOStream:
        """Take all the steps within so many seconds. Raises: TimeoutError, StreamClosedError, OSError."""
        alarm = None if timeout is None else self.task.get_loop().call_later(timeout, self.time_out)
        try:
            stream = await self.reach(await self.look_up(resolver, family), make)
            if tls is not None:
                stream = await self.shake_hands(stream, tls)
            self.begin("talking", stream.close)
            return stream
        except (CancelledError, Exception):
            if self.error is not None:
                raise self.error from None
            raise
        finally:
            if alarm is not None:
                alarm.cancel()

    async def look_up(self, resolver: Resolver, family: Any) -> list[Address]:
        self.begin(f"while resolving {self.host}", self.task.cancel)
        try:
            return await resolver.resolve(self.host, self.port, family)
        except CancelledError:
            if self.error is not None:
                self.task.uncancel()
            raise

    async def reach(self, addresses: list[Address], make: Callable[[int], IOStream]) -> IOStream:
        """Connect to the first address that answers."""
        left = in_turn(addresses)
        attempts: dict[Future[IOStream], IOStream] = {}
        failure: BaseException = OSError(f"{self.host} has no address")
        try:
            while left or attempts:
                self.begin(f"while connecting to {self.host} port {self.port}", lambda: close_all(attempts.values()))
                try:
                    if left:
                        family, address = left.pop(0)
                        stream = make(family)
                        attempts[stream.connect(address)] = stream
                except OSError as error:  # no such family here, no file descriptor left
                    failure = error
                for attempt in await settled(attempts, STAGGER if left else None):
                    stream = attempts.pop(attempt)
                    if attempt.exception() is None:
                        return stream
                    failure = attempt.exception() or failure
            raise failure
        finally:
            close_all(attempts.values())

    async def shake_hands(self, stream: IOStream, tls: Any) -> IOStream:
        self.begin("during TLS handshake", int)
        shaking = stream.start_tls(False, tls, self.host)
        self.undo = functools.partial(close_encrypted, shaking)
        return await shaking


def in_turn(addresses: list[Address]) -> list[Address]:
    """Put the addresses of the first one's family in turn with the others, for where one family leads nowhere."""
    first = [each for each in addresses if each[0] == addresses[0][0]]
    others = [each for each in addresses if each[0] != addresses[0][0]]
    return [each for two in itertools.zip_longest(first, others) for each in two if each]


async def settled(attempts: Iterable[Future[Any]], timeout: float | None) -> Iterable[Future[Any]]:
    """Wait until some are done, or for so many seconds."""
    attempts = list(attempts)
    if timeout is None and len(attempts) == 1:  # as most often; asyncio.wait takes 10 µs
        with contextlib.suppress(Exception):
            await attempts[0]
        return attempts
    if not attempts:
        return ()
    done, _ = await asyncio.wait(attempts, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
    return done


def close_all(streams: Iterable[IOStream]) -> None:
    for stream in streams:
        stream.close()


def close_encrypted(shaking: Future[Any]) -> None:
    """Close what a handshake brings, or has just brought."""
    if not shaking.cancel() and shaking.exception() is None:
        shaking.result().close()


def stream_from(source: tuple[str, int] | None, max_buffer_size: int | None, family: int) -> IOStream:
    """Make a stream that is not connected yet."""
    sock = socket.socket(family)
    try:
        if source is not None:
            sock.bind(source)
        return IOStream(sock, max_buffer_size=max_buffer_size)
    except BaseException:
        sock.close()
        raise


announce: ContextVar[Callable[[Dial], object]] = ContextVar("announce")
"""Who is to hear of each dial that is made in this context."""


class Connections(TCPClient):
    """Tornado's ``TCPClient``, which tells of each dial, so that it can be stopped."""

    async def connect(
        self,
        host: str,
        port: int,
        af: socket.AddressFamily = socket.AF_UNSPEC,
        ssl_options: Any = None,
        max_buffer_size: int | None = None,
        source_ip: str | None = None,
        source_port: int | None = None,
        timeout: float | datetime.timedelta | None = None,
    ) -> IOStream:
        """Connect as Tornado's does. Raises: what the dial was stopped with, TimeoutError, OSError."""
        seconds = timeout.total_seconds() if isinstance(timeout, datetime.timedelta) else timeout
        source = (source_ip or "", source_port or 0) if source_ip or source_port else None
        dial = Dial(host, port)
        announce.get()(dial)
        return await dial.connect(
            seconds, self.resolver, af, functools.partial(stream_from, source, max_buffer_size), ssl_options
        )
