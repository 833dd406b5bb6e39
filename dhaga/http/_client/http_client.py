"""HTTPClient: Tornado's ``AsyncHTTPClient``, called as a function.

It has one of Tornado's clients per scheduler, each used only on its loop's thread; ``permits`` bounds the fetches of
all. A forked child starts without clients, and keeps the parent's alive but unused: the connections are the parent's.
One fetch: ``fetch``; its connection: ``dialer``; for kept connections use ``requests.Session``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from functools import partial
from typing import Any

from tornado.httpclient import AsyncHTTPClient, HTTPRequest, HTTPResponse
from tornado.netutil import OverrideResolver, Resolver
from tornado.simple_httpclient import HTTPStreamClosedError, SimpleAsyncHTTPClient

from ..._kernel.api import Timeout, current
from ..._kernel.faces.foreign_names import refuse_async_with
from ..._kernel.run.main_code import Main
from ..._kernel.run.microthread import Dhaga
from ..._kernel.run.scheduler import Scheduler
from ..._sync.semaphore import Semaphore
from ...aio._await import Awaited
from .dialer import Dialer, DialerResolver
from .fetch import Connection, Fetch

MAX_CLIENTS = 5_000
"""Concurrent fetches per client; Tornado has 10. Curl allocates all its handles at once: 21 MB, 22 ms."""


@refuse_async_with()
class HTTPClient:
    """Fetches pages with Tornado's ``AsyncHTTPClient`` and its settings, for any number of dhagas and OS threads.

    Source: ``tornado.httpclient.HTTPClient``; but it waits without stopping the loop, and threads may share it. It uses
    curl if ``AsyncHTTPClient.configure`` selects it.
    """

    def __init__(self, max_clients: int = MAX_CLIENTS, **settings: Any) -> None:
        if max_clients < 1:
            raise ValueError("max_clients must be one or more")
        self.settings: dict[str, Any] = {"max_clients": max_clients, **settings}
        self.inherited: list[Any] = []
        self.closed: bool = False
        self.reset()

    def reset(self) -> None:
        """Start without clients and fetches: in ``__init__``, and in a forked child."""
        self.pid: int = os.getpid()
        self.permits: Semaphore = Semaphore(self.settings["max_clients"])
        self.clients: dict[Scheduler, AsyncHTTPClient] = {}
        self.fetches: set[Fetch] = set()

    def __repr__(self) -> str:
        return f"<HTTPClient {'closed' if self.closed else 'open'}, {len(self.fetches)} in flight>"

    def __enter__(self) -> HTTPClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def fetch(
        self, request: str | HTTPRequest, raise_error: bool = True, *, timeout: float | None = None, **options: Any
    ) -> HTTPResponse:
        """Fetch a page: a URL with the options of ``HTTPRequest``, or an ``HTTPRequest``.

        Parks: until the response arrives (``await``). From: a dhaga, main code; any other OS thread blocks. A cancel
        or the ``timeout`` (seconds, for all steps together) closes the connection. ``streaming_callback`` and
        ``body_producer`` run in dhagas and may park, except with curl; ``header_callback`` must not. Raises: errors of
        these, HTTPError (also for Tornado's own timeouts), OSError, TimeoutError, Cancelled, RuntimeError once the
        client is closed.
        """
        if self.closed:
            raise RuntimeError(f"{self!r} is closed: create a new one")
        me = current()
        if self.pid != os.getpid():
            self.inherited.append(self.clients)  # kept alive: closing them would close the parent's connections
            self.reset()
        prepared = request_for(request, options)
        if timeout is None:
            return self.fetch_with_permit(me, prepared, raise_error, prepared is request)
        with Timeout(timeout):
            return self.fetch_with_permit(me, prepared, raise_error, prepared is request)

    def fetch_with_permit(self, me: Dhaga | Main, *what: Any) -> HTTPResponse:
        with self.permits:
            fetch = me.scheduler.call_as_callback(self.begin, me.scheduler, *what)
            awaited = Awaited(me, fetch)
            try:
                awaited.wait(None)
                return awaited.outcome()  # type: ignore[no-any-return]
            finally:
                self.fetches.discard(fetch)

    def begin(self, scheduler: Scheduler, *what: Any) -> Fetch:
        """Begin a fetch. From: the scheduler's thread. ``what``: the arguments of ``Fetch.begin``."""
        if self.closed:
            raise HTTPStreamClosedError("the HTTPClient was closed")
        fetch = Fetch(self.client_for(scheduler), scheduler)
        fetch.begin(*what)
        self.fetches.add(fetch)
        return fetch

    def client_for(self, scheduler: Scheduler) -> AsyncHTTPClient:
        client = self.clients.get(scheduler)
        if client is None:
            for ended in [each for each in list(self.clients) if not each.thread_ident]:
                self.clients.pop(ended, None)
            client = self.clients[scheduler] = new_client(self.settings)
        return client

    def close(self) -> None:
        """Refuse further fetches and end those in flight with HTTPStreamClosedError. Parks: never. From: any thread."""
        self.closed = True
        for scheduler in list(self.clients):
            scheduler.call(self.close_on, scheduler)

    def close_on(self, scheduler: Scheduler) -> None:
        """Close the client of one scheduler, on its thread."""
        client: Any = self.clients.pop(scheduler, None)
        own = [fetch for fetch in list(self.fetches) if fetch.scheduler is scheduler]
        for fetch in own:
            fetch.stop(HTTPStreamClosedError("the HTTPClient was closed"))
        if own:
            scheduler.loop.call_soon(client.close)  # after their transfers have left curl
        elif client is not None:
            client.close()


UNQUOTED = re.compile(r"[\0-\x20\x7f]")


def request_for(request: str | HTTPRequest, options: dict[str, Any]) -> HTTPRequest:
    """Return a request for a URL. Raises: TypeError; ValueError for an unquoted URL.

    Tornado would send a space unquoted, and drop CR and LF silently.
    """
    url = request if isinstance(request, str) else getattr(request, "url", "")
    if UNQUOTED.search(url):
        raise ValueError(f"spaces and control characters must be quoted in a URL (urllib.parse.quote): {url!r}")
    if isinstance(request, str):
        return HTTPRequest(request, **options)
    if not isinstance(request, HTTPRequest):
        raise TypeError(f"fetch needs a URL or an HTTPRequest, not {request!r}")
    if options:
        raise TypeError(f"an HTTPRequest contains its options: pass {', '.join(options)} to HTTPRequest")
    return request


def new_client(settings: dict[str, Any]) -> AsyncHTTPClient:
    """Return a Tornado client for the running loop, of the configured kind."""
    client = AsyncHTTPClient(force_instance=True, **settings)
    if isinstance(client, SimpleAsyncHTTPClient):
        if client.own_resolver and Resolver.configured_class() is Resolver.configurable_default():
            use_dhaga_resolver(client)
        client.tcp_client = Dialer(client.resolver)
        client._connection_class = lambda: Connection  # type: ignore[method-assign]
        client.fetch_impl = partial(fetch_without_proxy_login, client.fetch_impl)  # type: ignore[method-assign]
    return client


def fetch_without_proxy_login(fetch_impl: Callable[..., None], request: Any, callback: Any) -> None:
    """Begin a request for Tornado; drop Proxy-Authorization after a redirect, as requests does.

    Tornado itself drops Authorization and Cookie if the origin changes.
    """
    if hasattr(request, "original_request"):
        request.headers.pop("Proxy-Authorization", None)
    fetch_impl(request, callback)


def use_dhaga_resolver(client: SimpleAsyncHTTPClient) -> None:
    """Replace Tornado's default resolver, also one below an ``OverrideResolver``."""
    if isinstance(client.resolver, OverrideResolver):
        client.resolver.resolver = DialerResolver()
    else:
        client.resolver = DialerResolver()
