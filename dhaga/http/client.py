"""HTTPClient: Tornado's ``AsyncHTTPClient``, called as a function.

Each fetch has an AsyncHTTPClient of its own. Tornado's simple one keeps no connections for a second fetch, so that
nothing is lost; and what a fetch has opened can be closed when it is cancelled, which Tornado does not do. Not here:
connections that are used again (``requests.Session``).
"""

from __future__ import annotations

import asyncio
import datetime
import socket
from asyncio import CancelledError, Future
from collections.abc import Callable
from typing import Any

from tornado.httpclient import AsyncHTTPClient, HTTPRequest, HTTPResponse
from tornado.iostream import IOStream, StreamClosedError
from tornado.netutil import Resolver
from tornado.simple_httpclient import HTTPStreamClosedError, SimpleAsyncHTTPClient
from tornado.tcpclient import TCPClient

from ..kernel.api import Timeout, current, spawn
from ..kernel.errors import Cancelled
from ..kernel.scheduler import Scheduler
from ..semaphores import Semaphore
from ..stream import dial
from ..tasks import await_

MAX_CLIENTS = 10_000
"""How many fetches of a client go on at once; Tornado has 10. What bounds them before is the limit of open files."""


class Connections(TCPClient):
    """What one fetch connects, redirects included, and can be closed as a whole."""

    def __init__(self, resolver: Resolver, resolves_all: bool) -> None:
        super().__init__(resolver)
        self.resolves_all = resolves_all
        self.undos: list[Callable[[], object]] = []
        self.aborted = False

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
        """Connect as Tornado's does, in a dhaga, which can be cancelled. Raises: StreamClosedError if it was."""
        seconds = timeout.total_seconds() if isinstance(timeout, datetime.timedelta) else timeout
        source = (source_ip or "", source_port or 0) if source_ip or source_port else None
        addresses = [(host, port)]
        if self.resolves_all or af != socket.AF_UNSPEC:
            addresses = [address[:2] for _, address in await self.resolver.resolve(host, port, af)]
        try:
            connected = await self.undone_by_abort(spawn(dial_first, addresses, seconds, source, name=f"dial {host}"))
            stream = IOStream(connected, max_buffer_size=max_buffer_size)
            if ssl_options is not None:
                stream = await self.undone_by_abort(stream.start_tls(False, ssl_options, host))
            self.close_at_abort(stream)
        except (Cancelled, CancelledError) as error:
            raise StreamClosedError from error
        return stream

    def undone_by_abort(self, step: Any) -> Any:
        self.undos.append(step.cancel)
        if self.aborted:
            step.cancel()
        return step

    def close_at_abort(self, stream: IOStream) -> None:
        self.undos.append(stream.close)
        if self.aborted:  # while it became one
            stream.close()
            raise StreamClosedError

    def abort(self) -> None:
        """Close whatever is open, and connect no more."""
        self.aborted = True
        while self.undos:
            self.undos.pop()()


def dial_first(
    addresses: list[tuple[str, int]], timeout: float | None, source: tuple[str, int] | None
) -> socket.socket:
    """Connect to the first address that answers; see ``dial``."""
    *others, last = addresses
    for address in others:
        try:
            return dial(address, timeout, source)
        except OSError:
            continue
    return dial(last, timeout, source)


class Transfer:
    """A fetch on its way."""

    def __init__(self, client: HTTPClient, scheduler: Scheduler) -> None:
        self.client = client
        self.scheduler = scheduler
        self.abort: Callable[[], object] | None = None

    async def run(self, request: str | HTTPRequest, raise_error: bool, options: dict[str, Any]) -> HTTPResponse:
        """Fetch, and leave nothing open, however that ends."""
        if self.client.closed:
            raise HTTPStreamClosedError("the HTTPClient was closed")
        settings = self.client.settings
        asynchronous = AsyncHTTPClient(force_instance=True, **settings)
        try:
            if isinstance(asynchronous, SimpleAsyncHTTPClient):
                own = "resolver" in settings or "hostname_mapping" in settings
                asynchronous.tcp_client = Connections(asynchronous.resolver, own)
                self.abort = asynchronous.tcp_client.abort
            response: Any = asynchronous.fetch(request, raise_error, **options)
            self.abort = self.abort or response.cancel
            return await self.outcome(response)
        finally:
            asynchronous.close()

    async def outcome(self, response: Future[HTTPResponse]) -> HTTPResponse:
        """Return what comes; a cancel closes the connections, and waits until Tornado has noticed."""
        assert self.abort is not None
        try:
            await asyncio.wait([response])  # which does not cancel it: Tornado logs what comes after
            return response.result()
        finally:
            self.abort()
            if not response.done():
                await asyncio.wait([response])
                response.cancelled() or response.exception()  # seen

    def stop(self) -> None:
        """Have it raise; in the thread of its scheduler."""
        if self.abort is not None:
            self.abort()


class HTTPClient:
    """Fetch pages: Tornado's ``AsyncHTTPClient``, and its settings, for dhagas and OS threads, any number at once.

    Source: ``tornado.httpclient.HTTPClient``; but it waits without stopping the loop, and is shared by threads.
    """

    def __init__(self, max_clients: int = MAX_CLIENTS, **settings: Any) -> None:
        if max_clients < 1:
            raise ValueError("max_clients must be one or more")
        self.settings = settings
        self.permits = Semaphore(max_clients)
        self.transfers: set[Transfer] = set()
        self.closed = False

    def __repr__(self) -> str:
        return f"<HTTPClient {'closed' if self.closed else 'open'}, {len(self.transfers)} on their way>"

    def __enter__(self) -> HTTPClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def fetch(
        self, request: str | HTTPRequest, raise_error: bool = True, *, timeout: float | None = None, **options: Any
    ) -> HTTPResponse:
        """Fetch a page: a URL with the options of ``HTTPRequest``, or one of these.

        Parks: until it has come (``await``). From: a dhaga, main code; any other OS thread, which blocks. A cancel, or
        the ``timeout`` (seconds, all together), closes the connection. Raises: HTTPError (also its own timeouts; see
        ``raise_error``), OSError, TimeoutError, Cancelled, RuntimeError once it is closed.
        """
        if self.closed:
            raise RuntimeError(f"{self!r} is closed: make another one")
        current()  # or say at once that parking cannot work here
        if timeout is None:
            return self.fetch_in_turn(request, raise_error, options)
        with Timeout(timeout):
            return self.fetch_in_turn(request, raise_error, options)

    def fetch_in_turn(self, request: str | HTTPRequest, raise_error: bool, options: dict[str, Any]) -> HTTPResponse:
        with self.permits:
            transfer = Transfer(self, current().scheduler)
            self.transfers.add(transfer)
            try:
                return await_(transfer.run(request, raise_error, options))
            finally:
                self.transfers.discard(transfer)

    def close(self) -> None:
        """Fetch no more; what is on its way raises HTTPStreamClosedError. Parks: never. From: anywhere."""
        self.closed = True
        for transfer in list(self.transfers):
            transfer.scheduler.call(transfer.stop)
