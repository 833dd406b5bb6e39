"""A ``TCPClient`` for Tornado's simple HTTP client. Its name lookups, TCP connects and TLS handshakes can be aborted.

A ``DialAttempt`` is in one step at a time. ``begin_step`` stores the name of the step, for the message of a timeout,
and the function ``undo`` that aborts the step. ``stop`` stores an error and calls ``undo``. Then the step's ``await``
fails, and ``connect`` raises the stored error. During a lookup, ``undo`` cancels the Task that runs ``connect``. During
other steps, a cancel could leave a newly connected socket open, so ``undo`` closes the sockets instead. All code runs
on the loop's thread.

Tornado's own ``TCPClient`` cannot be aborted, and looks up even numeric addresses in an OS thread. Fetches with curl do
not use this module. The module ``fetch`` sends a request over a connection.
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
"""Seconds to wait for an answer before the next address is also tried (Happy Eyeballs: RFC 8305, section 5)."""

Address = tuple[int, Any]
"""An address family, and an address of this family."""


class DialerResolver(Resolver):
    """A resolver that looks up names in Dhaga's OS threads, like ``dhaga.socket``. Numeric addresses need no thread."""

    async def resolve(
        self, host: str, port: int, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[tuple[int, Any]]:
        query = host, port, family, socket.SOCK_STREAM
        found = await run_in_dhaga(getaddrinfo, *query) if needs_lookup(host) else getaddrinfo(*query)
        return [(each[0], each[4]) for each in found]


class DialAttempt:
    """An attempt to connect. ``stop(error)`` ends it in any step, and a running ``connect`` raises the error."""

    def __init__(self, host: str, port: int) -> None:
        self.host = host
        self.port = port
        self.error: Exception | None = None
        self.step: str = ""
        self.undo: Callable[[], object] = int
        self.task: Any = asyncio.current_task()

    def begin_step(self, step: str, undo: Callable[[], object]) -> None:
        """Enter the next step. Raises: the error passed to ``stop``, if any."""
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
        """Connect to the first address that answers.

        After each failure, and after each ``STAGGER`` seconds without an answer, try one more address in parallel.
        """
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
                except OSError as error:  # the family is not supported, or the process has no free fd
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
    """Order addresses so that IPv6 and IPv4 alternate, because one family may be unreachable."""
    first = [each for each in addresses if each[0] == addresses[0][0]]
    others = [each for each in addresses if each[0] != addresses[0][0]]
    return [each for two in itertools.zip_longest(first, others) for each in two if each]


async def wait_for_any(attempts: Iterable[Future[Any]], timeout: float | None) -> Iterable[Future[Any]]:
    """Wait until at least one attempt is done, for at most ``timeout`` seconds. Returns: the attempts that are done."""
    attempts = list(attempts)
    if timeout is None and len(attempts) == 1:  # the usual case, in which asyncio.wait would take 10 µs
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
    """Cancel a handshake. If the handshake has just succeeded, close its stream."""
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
"""The function, set per context, that ``Dialer`` calls with each new dial attempt."""


class Dialer(TCPClient):
    """A ``TCPClient`` that passes each dial attempt to the function ``on_dial``, so that the attempt can be stopped."""

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
        """Connect as Tornado's ``TCPClient`` does. Raises: the error passed to ``stop``, TimeoutError, OSError."""
        seconds = timeout.total_seconds() if isinstance(timeout, datetime.timedelta) else timeout
        source = (source_ip or "", source_port or 0) if source_ip or source_port else None
        dial = DialAttempt(host, port)
        on_dial.get()(dial)
        return await dial.connect(
            seconds, self.resolver, af, functools.partial(new_stream, source, max_buffer_size), ssl_options
        )
