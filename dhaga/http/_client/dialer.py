"""The dialer of Tornado's simple client: name lookup, TCP connect and TLS handshake, each abortable.

A ``DialAttempt`` is in one step at a time; ``begin_step`` names it (for the timeout's text) and stores its ``undo``.
``stop`` keeps the error and runs the undo, which makes the awaited future fail; ``connect`` then raises the error. Only
the lookup is undone by cancelling the Task: a cancel just after a socket has connected would leave it open. Everything
runs on the loop's thread.
Tornado's own ``TCPClient`` cannot be aborted, and looks up even numeric addresses in an OS thread. curl dials by
itself, without this module. The fetch over a connection: ``fetch``.
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

from ..._iowait.dns import getaddrinfo, needs_lookup
from ...aio import run_in_dhaga

STAGGER = 0.25
"""Seconds without an answer after which the next address is tried in parallel: Happy Eyeballs (RFC 8305, 5)."""

Address = tuple[int, Any]
"""An address family, and an address of it."""


class DialerResolver(Resolver):
    """Looks up names as ``dhaga.socket`` does, in one of Dhaga's OS threads; numeric addresses inline."""

    async def resolve(
        self, host: str, port: int, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[tuple[int, Any]]:
        query = host, port, family, socket.SOCK_STREAM
        found = await run_in_dhaga(getaddrinfo, *query) if needs_lookup(host) else getaddrinfo(*query)
        return [(each[0], each[4]) for each in found]


class DialAttempt:
    """One connection, established or not yet. ``stop(error)`` closes it and makes ``connect`` raise the error."""

    def __init__(self, host: str, port: int) -> None:
        self.host = host
        self.port = port
        self.error: Exception | None = None
        self.step: str = ""
        self.undo: Callable[[], object] = int
        self.task: Any = asyncio.current_task()

    def begin_step(self, step: str, undo: Callable[[], object]) -> None:
        """Enter the next step. Raises: the error that the attempt was stopped with."""
        if self.error is not None:
            raise self.error
        self.step, self.undo = step, undo

    def stop(self, error: Exception) -> None:
        """Abort the current step. From: the loop's thread."""
        if self.error is None:
            self.error = error
            self.undo()

    def time_out(self) -> None:
        self.stop(TimeoutError(f"Timeout {self.step}"))

    async def connect(
        self, timeout: float | None, resolver: Resolver, family: Any, make_stream: Callable[[int], IOStream], tls: Any
    ) -> IOStream:
        """Run all steps within ``timeout`` seconds. Raises: TimeoutError, StreamClosedError, OSError."""
        timer = None if timeout is None else self.task.get_loop().call_later(timeout, self.time_out)
        try:
            stream = await self.connect_first(await self.look_up(resolver, family), make_stream)
            if tls is not None:
                stream = await self.start_tls(stream, tls)
            self.begin_step("connected", stream.close)
            return stream
        except (CancelledError, Exception):
            if self.error is not None:
                raise self.error from None
            raise
        finally:
            if timer is not None:
                timer.cancel()

    async def look_up(self, resolver: Resolver, family: Any) -> list[Address]:
        self.begin_step(f"while resolving {self.host}", self.task.cancel)
        try:
            return await resolver.resolve(self.host, self.port, family)
        except CancelledError:
            if self.error is not None:
                self.task.uncancel()
            raise

    async def connect_first(self, addresses: list[Address], make_stream: Callable[[int], IOStream]) -> IOStream:
        """Connect to the first address that answers; a further one is tried in parallel after ``STAGGER``."""
        untried = interleave_families(addresses)
        attempts: dict[Future[IOStream], IOStream] = {}
        failure: BaseException = OSError(f"{self.host} has no address")
        try:
            while untried or attempts:
                self.begin_step(
                    f"while connecting to {self.host} port {self.port}", lambda: close_all(attempts.values())
                )
                try:
                    if untried:
                        family, address = untried.pop(0)
                        stream = make_stream(family)
                        attempts[stream.connect(address)] = stream
                except OSError as error:  # family not supported, or no file descriptor left
                    failure = error
                for attempt in await wait_for_any(attempts, STAGGER if untried else None):
                    stream = attempts.pop(attempt)
                    if attempt.exception() is None:
                        return stream
                    failure = attempt.exception() or failure
            raise failure
        finally:
            close_all(attempts.values())

    async def start_tls(self, stream: IOStream, tls: Any) -> IOStream:
        self.begin_step("during TLS handshake", int)
        handshake = stream.start_tls(False, tls, self.host)
        self.undo = functools.partial(close_handshake, handshake)
        return await handshake


def interleave_families(addresses: list[Address]) -> list[Address]:
    """Alternate between the first address's family and the others, because one family may be unreachable."""
    first = [each for each in addresses if each[0] == addresses[0][0]]
    others = [each for each in addresses if each[0] != addresses[0][0]]
    return [each for two in itertools.zip_longest(first, others) for each in two if each]


async def wait_for_any(attempts: Iterable[Future[Any]], timeout: float | None) -> Iterable[Future[Any]]:
    """Wait until at least one attempt is done, for ``timeout`` seconds at most. Returns: the attempts done."""
    attempts = list(attempts)
    if timeout is None and len(attempts) == 1:  # the usual case; asyncio.wait takes 10 µs
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


def close_handshake(handshake: Future[Any]) -> None:
    """Cancel a handshake, or close its stream if it has just succeeded."""
    if not handshake.cancel() and handshake.exception() is None:
        handshake.result().close()


def new_stream(source: tuple[str, int] | None, max_buffer_size: int | None, family: int) -> IOStream:
    """Return a stream that is not connected yet."""
    sock = socket.socket(family)
    try:
        if source is not None:
            sock.bind(source)
        return IOStream(sock, max_buffer_size=max_buffer_size)
    except BaseException:
        sock.close()
        raise


on_dial: ContextVar[Callable[[DialAttempt], object]] = ContextVar("on_dial")
"""Called with each dial attempt made in this context."""


class Dialer(TCPClient):
    """Tornado's ``TCPClient``, which reports each dial attempt to ``on_dial``, so that it can be stopped."""

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
        """Connect as Tornado's does. Raises: the error that the attempt was stopped with, TimeoutError, OSError."""
        seconds = timeout.total_seconds() if isinstance(timeout, datetime.timedelta) else timeout
        source = (source_ip or "", source_port or 0) if source_ip or source_port else None
        dial = DialAttempt(host, port)
        on_dial.get()(dial)
        return await dial.connect(
            seconds, self.resolver, af, functools.partial(new_stream, source, max_buffer_size), ssl_options
        )
