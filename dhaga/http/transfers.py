"""Transfers: one fetch of Tornado's ``AsyncHTTPClient`` each, which ends when it is cancelled, and leaves nothing open.

Tornado can only let a fetch be, and calls a request's own functions where they cannot park. Not here: what connects
(``connections.py``), and who fetches (``client.py``).
"""

from __future__ import annotations

import asyncio
import copy
import functools
from asyncio import CancelledError, Future
from collections.abc import Callable
from inspect import isawaitable, iscoroutinefunction
from typing import Any

from greenlet import getcurrent
from tornado.httpclient import AsyncHTTPClient, HTTPRequest, HTTPResponse
from tornado.simple_httpclient import HTTPStreamClosedError, SimpleAsyncHTTPClient

from ..kernel.api import spawn
from ..kernel.errors import Cancelled
from ..kernel.microthread import Dhaga
from ..kernel.scheduler import Scheduler
from ..tasks import await_
from .connections import Dial, announce

ABORTED = 42
"""CURLE_ABORTED_BY_CALLBACK: what curl's transfers end with that are dropped."""


class Transfer:
    """A fetch on its way, to be waited for as a Future: but no turn of the loop later than Tornado's.

    To cancel it closes its connection; it is done when Tornado has noticed.
    """

    def __init__(self, client: AsyncHTTPClient, scheduler: Scheduler) -> None:
        self.client: Any = client
        self.scheduler = scheduler
        self.response: Any = None
        self.dial: Dial | None = None
        self.curl: Any = None
        self.calling: Any = None
        self.functions: dict[str, Any] = {}
        self.fate: BaseException | None = None
        self.over = False
        self.waker: Callable[[Any], object] = bool

    def begin(self, request: HTTPRequest, raise_error: bool, shared: bool) -> None:
        """Hand a request to Tornado, which writes into it: a copy, if it is ``shared`` by others."""
        self.request = request
        self.prepared = copy.copy(request) if shared else request
        if isinstance(self.client, SimpleAsyncHTTPClient):
            self.let_park(self.prepared)
            token = announce.set(self.take_dial)
            try:
                self.response = self.client.fetch(self.prepared, raise_error)
            finally:
                announce.reset(token)
        else:
            self.watch_curl(self.prepared)
            self.response = self.client.fetch(self.prepared, raise_error)
        self.response.add_done_callback(self.arrive)

    def take_dial(self, dial: Dial) -> None:
        """Have a connection to close: the first one, or that of a redirect."""
        self.dial = dial
        dial.task.add_done_callback(self.leave)
        if self.fate is not None:
            self.hang_up()

    def take_curl(self, prepare: Callable[[Any], object] | None, curl: Any) -> None:
        self.curl = curl
        if prepare is not None:
            prepare(curl)
        if self.fate is not None:
            self.hang_up()

    # ---- the request's own functions

    def let_park(self, request: HTTPRequest) -> None:
        """Have the functions that Tornado awaits called in a dhaga."""
        if request.streaming_callback is not None:
            self.replace("streaming_callback", self.in_dhaga)
        if request.body_producer is not None:
            self.replace("body_producer", self.produce)
        if request.header_callback is not None:
            self.replace("header_callback", self.here)

    def watch_curl(self, request: HTTPRequest) -> None:
        self.replace("prepare_curl_callback", self.take_curl)
        for name in ("header_callback", "streaming_callback"):
            if getattr(request, name) is not None and not iscoroutinefunction(getattr(request, name)):
                self.replace(name, self.here)

    def replace(self, name: str, fn: Callable[..., object]) -> None:
        """Have Tornado call a method of ours, with the request's own function, until the end."""
        self.functions[name] = former = getattr(self.prepared, name)
        setattr(self.prepared, name, functools.partial(fn, former))

    def here(self, fn: Callable[..., object], *args: Any) -> None:
        """Call a function where it cannot park; if it fails, so does the fetch."""
        try:
            fn(*args)
        except Exception as error:
            self.stop(error)

    async def in_dhaga(self, fn: Callable[..., Any], *args: Any) -> None:
        """Call a function in a dhaga, unless it is a coroutine's; if it fails, so does the fetch."""
        try:
            outcome = fn(*args) if iscoroutinefunction(fn) else await self.take_call(spawn(fn, *args))
            if isawaitable(outcome):  # plain functions may also return one
                await self.take_call(asyncio.ensure_future(outcome))
        except BaseException as error:
            self.stop(error)
        finally:
            self.calling = None

    def take_call(self, calling: Any) -> Any:
        self.calling = calling
        return calling

    async def produce(self, fn: Callable[..., Any], write: Callable[[bytes], Future[None]]) -> None:
        """Have a body written."""
        await self.in_dhaga(fn, functools.partial(written, write))

    # ---- the end

    def stop(self, error: BaseException) -> None:
        """Close the connection and end with this error. From: the thread of the loop."""
        if self.fate is None and not self.response.done():
            self.fate = error
            self.hang_up()

    def hang_up(self) -> None:
        if self.calling is not None:
            self.calling.cancel()
        if self.dial is not None:
            self.dial.stop(HTTPStreamClosedError(str(self.fate)))
        elif self.curl is not None:
            self.scheduler.loop.call_soon(self.drop_curl)  # not at once: this may be in a callback of curl's
        elif not isinstance(self.client, SimpleAsyncHTTPClient):
            self.response.cancel()

    def drop_curl(self) -> None:
        """End the transfer in the way in which Tornado ends those that have failed."""
        if not self.response.done():
            self.client._finish(self.curl, ABORTED, str(self.fate))

    def leave(self, task: asyncio.Task[None]) -> None:
        """End with Tornado's Task, if others have cancelled that, as asyncio does when a loop is to end."""
        if task.cancelled():
            self.stop(CancelledError())
            self.response.cancel()

    def arrive(self, _: object) -> None:
        """Be done; what was cut short, once nothing of it runs any more."""
        dial, cut = self.dial, self.fate is not None
        if self.calling is not None:  # Tornado's own time-outs do not see to that
            cut = self.calling.cancel()
        if cut and dial is not None and not dial.task.done():
            dial.task.add_done_callback(self.arrive)
        else:
            self.conclude()

    def conclude(self) -> None:
        self.over = True
        self.dial = self.curl = None  # which lead back here: cycles cost 20 µs a fetch
        if not self.response.cancelled():
            error: Any = self.response.exception()  # asked for in any case, or it is logged that nobody did
            fetched = getattr(error, "response", None) if error else self.response.result()
            if fetched is not None:
                fetched.request = self.request
        for name, fn in self.functions.items():
            setattr(self.prepared, name, fn)
        waker, self.waker = self.waker, bool
        waker(self)

    # ---- the face of a Future

    def add_done_callback(self, waker: Callable[[Any], object]) -> None:
        self.waker = waker

    def cancel(self) -> None:
        self.stop(CancelledError())

    def cancelled(self) -> bool:
        return self.over and isinstance(self.fate, CancelledError)

    def done(self) -> bool:
        return self.over

    def result(self) -> HTTPResponse:
        if isinstance(self.fate, CancelledError):
            raise Cancelled from self.fate
        if self.fate is not None:
            raise self.fate
        return self.response.result()  # type: ignore[no-any-return]


def written(write: Callable[[bytes], Future[None]], chunk: bytes) -> Future[None]:
    """Write, and in a dhaga wait for it."""
    future = write(chunk)
    if isinstance(getcurrent(), Dhaga):
        await_(future)
    return future
