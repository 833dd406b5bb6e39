"""HTTPClient: an HTTP client that fetches a page with Tornado's ``AsyncHTTPClient`` while the caller is parked.

An HTTPClient has one Tornado client per scheduler. Each Tornado client is used only on the thread of its scheduler's
loop. ``permits`` limits the fetches of all Tornado clients together. A forked child creates new Tornado clients. The
child keeps the inherited clients unused, because their connections belong to the parent. The module ``fetch`` performs
one fetch, and ``dialer`` opens its connection. To reuse connections, use ``dhaga.http.requests.Session``.
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

from ..._kernel.api import current
from ..._kernel.faces.foreign_names import refuse_async_with
from ..._kernel.run.main_code import Main
from ..._kernel.run.microthread import Dhaga
from ..._kernel.run.scheduler import Scheduler
from ..._kernel.timeout import Timeout
from ..._sync.semaphore import Semaphore
from ...aio._await import Awaited
from .dialer import Dialer, DialerResolver
from .fetch import Connection, Fetch

MAX_CLIENTS = 5_000
"""Default maximum number of concurrent fetches per client. Tornado's default is 10.

With curl, a client allocates all 5,000 handles at its start. This takes 21 MB and 22 ms.
"""


@refuse_async_with()
class HTTPClient:
    """An HTTP client that any number of dhagas and OS threads can use at once.

    ``settings`` are passed to Tornado's ``AsyncHTTPClient``. ``AsyncHTTPClient.configure`` can select curl.
    Source: ``tornado.httpclient.HTTPClient``, but the loop continues to run during a fetch, and threads may share a
    client.
    """

    def __init__(self, max_clients: int = MAX_CLIENTS, **settings: Any) -> None:
        if max_clients < 1:
            raise ValueError("max_clients must be one or more")
        self.settings: dict[str, Any] = {"max_clients": max_clients, **settings}
        self.inherited: list[Any] = []
        self.closed: bool = False
        self.reset()

    def reset(self) -> None:
        """Remove all Tornado clients and fetches. From: ``__init__``, and ``fetch`` in a forked child."""
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
        """Fetch a page. ``request``: a URL, with ``options`` of ``HTTPRequest``; or an ``HTTPRequest``.

        ``timeout``: maximum time of all steps together, in seconds. A timeout or a cancel closes the connection.
        ``streaming_callback`` and ``body_producer`` run in dhagas, where they may park, except with curl.
        ``header_callback`` must not park.

        Parks: until fewer than ``max_clients`` fetches run (``semaphore.acquire``), and until the response arrives
        (``await``). From: a dhaga, main code; any other OS thread blocks.
        Raises: errors of the callbacks; HTTPError, also for a timeout of Tornado; OSError, TimeoutError, Cancelled.
        Raises: RuntimeError if the client is closed.
        """
        if self.closed:
            raise RuntimeError(f"{self!r} is closed: create a new one")
        me = current()
        if self.pid != os.getpid():
            self.inherited.append(self.clients)  # kept alive: a close would close the parent's connections
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
        """Begin a fetch. ``what``: the arguments of ``Fetch.begin``. From: the scheduler's thread."""
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
        """Refuse further fetches, and fail current ones with HTTPStreamClosedError. Parks: never. From: any thread."""
        self.closed = True
        for scheduler in list(self.clients):
            scheduler.call(self.close_on, scheduler)

    def close_on(self, scheduler: Scheduler) -> None:
        """Close the Tornado client of one scheduler. From: the scheduler's thread."""
        client: Any = self.clients.pop(scheduler, None)
        if client is None:  # an earlier call has closed the client
            return
        own = [fetch for fetch in list(self.fetches) if fetch.scheduler is scheduler]
        for fetch in own:
            fetch.stop(HTTPStreamClosedError("the HTTPClient was closed"))
        if own:
            scheduler.loop.call_soon(client.close)  # deferred until the aborted transfers have ended in curl
        else:
            client.close()


UNQUOTED = re.compile(r"[\0-\x20\x7f]")


def request_for(request: str | HTTPRequest, options: dict[str, Any]) -> HTTPRequest:
    """Return an ``HTTPRequest`` for a URL. Raises: TypeError; ValueError for a URL with spaces or control characters.

    Tornado would send the spaces unquoted, and silently drop CR and LF.
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
    """Return a new Tornado client for the running loop, of the class that ``AsyncHTTPClient.configure`` selected."""
    client = AsyncHTTPClient(force_instance=True, **settings)
    if isinstance(client, SimpleAsyncHTTPClient):
        if client.own_resolver and Resolver.configured_class() is Resolver.configurable_default():
            use_dhaga_resolver(client)
        client.tcp_client = Dialer(client.resolver)
        client._connection_class = lambda: Connection  # type: ignore[method-assign]
        client.fetch_impl = partial(fetch_cleaned, client.fetch_impl)  # type: ignore[method-assign]
    return client


def fetch_cleaned(fetch_impl: Callable[..., None], request: Any, callback: Any) -> None:
    """Call Tornado's ``fetch_impl``, but remove the parts of a request that a redirect must not repeat.

    These parts are Proxy-Authorization, as in the ``requests`` package, and the body producer if the request has
    become a GET. Tornado itself removes the body, and Authorization and Cookie if the origin changes.
    """
    original = getattr(request, "original_request", None)
    if original is not None:
        request.headers.pop("Proxy-Authorization", None)
        if request.method == "GET" != original.method:
            request.request.body_producer = None
    fetch_impl(request, callback)


def use_dhaga_resolver(client: SimpleAsyncHTTPClient) -> None:
    """Replace Tornado's default resolver with a ``DialerResolver``, also inside an ``OverrideResolver``."""
    if isinstance(client.resolver, OverrideResolver):
        client.resolver.resolver = DialerResolver()
    else:
        client.resolver = DialerResolver()
