"""HTTPClient: Tornado's ``AsyncHTTPClient``, called as a function.

Each scheduler that fetches has one of Tornado's. Not here: what becomes of a fetch that is cancelled
(``transfers.py``), what it connects (``connections.py``), connections that are used again (``requests.Session``).
"""

from __future__ import annotations

import os
from typing import Any

from tornado.httpclient import AsyncHTTPClient, HTTPRequest, HTTPResponse
from tornado.netutil import OverrideResolver, Resolver
from tornado.simple_httpclient import HTTPStreamClosedError, SimpleAsyncHTTPClient

from ..kernel.api import current
from ..kernel.microthread import Dhaga, Main
from ..kernel.scheduler import Scheduler
from ..semaphores import Semaphore
from ..stream import bounded, call
from ..tasks import Awaited
from .connections import Connections, Names
from .transfers import Transfer

MAX_CLIENTS = 5_000
"""How many fetches of a client go on at once; Tornado has 10. Curl makes a handle for each at once: 21 MB, 22 ms."""


class HTTPClient:
    """Fetch pages: Tornado's ``AsyncHTTPClient``, and its settings, for dhagas and OS threads, any number at once.

    Source: ``tornado.httpclient.HTTPClient``; but it waits without stopping the loop, and is shared by threads. It uses
    curl where ``AsyncHTTPClient.configure`` says so.
    """

    def __init__(self, max_clients: int = MAX_CLIENTS, **settings: Any) -> None:
        if max_clients < 1:
            raise ValueError("max_clients must be one or more")
        self.settings = {"max_clients": max_clients, **settings}
        self.inherited: list[Any] = []
        self.closed = False
        self.start_anew()

    def start_anew(self) -> None:
        """Have nothing on its way: in the beginning, and in a forked child."""
        self.pid = os.getpid()
        self.permits = Semaphore(self.settings["max_clients"])
        self.clients: dict[Scheduler, AsyncHTTPClient] = {}
        self.transfers: set[Transfer] = set()

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
        the ``timeout`` (seconds, all together), closes the connection. ``streaming_callback`` and ``body_producer`` run
        in dhagas and may park, except with curl; ``header_callback`` may not. What they raise, fetch does. Raises also:
        HTTPError (its own timeouts, too), OSError, TimeoutError, Cancelled, RuntimeError once it is closed.
        """
        if self.closed:
            raise RuntimeError(f"{self!r} is closed: make another one")
        me = current()
        if self.pid != os.getpid():
            self.inherited.append(self.clients)  # whose connections are the parent's to close
            self.start_anew()
        made = request_for(request, options)
        return bounded(timeout, self.fetch_in_turn, me, made, raise_error, made is request)

    def fetch_in_turn(self, me: Dhaga | Main, *what: Any) -> HTTPResponse:
        with self.permits:
            transfer = call(me, self.begin, me.scheduler, *what)
            try:
                Awaited(me, transfer).wait(None)
                return transfer.result()  # type: ignore[no-any-return]
            finally:
                self.transfers.discard(transfer)

    def begin(self, scheduler: Scheduler, *what: Any) -> Transfer:
        """Begin a transfer, in the thread of the scheduler; ``what``: see there."""
        if self.closed:
            raise HTTPStreamClosedError("the HTTPClient was closed")
        transfer = Transfer(self.client_on(scheduler), scheduler)
        transfer.begin(*what)
        self.transfers.add(transfer)
        return transfer

    def client_on(self, scheduler: Scheduler) -> AsyncHTTPClient:
        client = self.clients.get(scheduler)
        if client is None:
            for ended in [each for each in list(self.clients) if not each.ident]:
                self.clients.pop(ended, None)
            client = self.clients[scheduler] = new_client(self.settings)
        return client

    def close(self) -> None:
        """Fetch no more; what is on its way raises HTTPStreamClosedError. Parks: never. From: anywhere."""
        self.closed = True
        for scheduler in list(self.clients):
            scheduler.call(self.close_on, scheduler)

    def close_on(self, scheduler: Scheduler) -> None:
        """Do what ``close`` does, in the thread of one scheduler."""
        client: Any = self.clients.pop(scheduler, None)
        mine = [transfer for transfer in list(self.transfers) if transfer.scheduler is scheduler]
        for transfer in mine:
            transfer.stop(HTTPStreamClosedError("the HTTPClient was closed"))
        if mine:
            scheduler.loop.call_soon(client.close)  # when they have dropped what is curl's
        elif client is not None:
            client.close()


def request_for(request: str | HTTPRequest, options: dict[str, Any]) -> HTTPRequest:
    """Make a request of a URL. Raises: TypeError."""
    if isinstance(request, str):
        return HTTPRequest(request, **options)
    if not isinstance(request, HTTPRequest):
        raise TypeError(f"fetch needs a URL or an HTTPRequest, not {request!r}")
    if options:
        raise TypeError(f"an HTTPRequest has its options in it: give {', '.join(options)} to that")
    return request


def new_client(settings: dict[str, Any]) -> AsyncHTTPClient:
    """Make one of Tornado's for the running loop, in the way that it is configured for."""
    client = AsyncHTTPClient(force_instance=True, **settings)
    if isinstance(client, SimpleAsyncHTTPClient):
        if client.own_resolver and Resolver.configured_class() is Resolver.configurable_default():
            look_up_ourselves(client)
        client.tcp_client = Connections(client.resolver)
    return client


def look_up_ourselves(client: SimpleAsyncHTTPClient) -> None:
    """Replace a resolver that nobody has asked for, be it under a mapping of names."""
    if isinstance(client.resolver, OverrideResolver):
        client.resolver.resolver = Names()
    else:
        client.resolver = Names()
