"""One fetch of Tornado's ``AsyncHTTPClient`` that can be cancelled. A cancelled fetch leaves no connection open.

Tornado cannot abort a fetch. It calls the callbacks of a request on the event loop, where callbacks must not park.
With this module, the callbacks that Tornado awaits run in dhagas. An abort of a fetch stops its ``DialAttempt``, or
ends the transfer of curl.

States: begun -> (stopped: ``error`` is set once, and the connection is aborted) -> ``finished``. A fetch is finished
when Tornado's future is done. After an abort, Tornado's Task must also have ended, so that no code of the fetch is
still running. All code runs on the thread of the scheduler's loop. The module ``dialer`` opens connections, and
``http_client`` waits for the fetch.
"""

from __future__ import annotations

import asyncio
import copy
import functools
from asyncio import CancelledError, Future
from collections.abc import Callable
from inspect import isawaitable, iscoroutinefunction
from io import BytesIO
from typing import Any

from greenlet import getcurrent
from tornado.httpclient import AsyncHTTPClient, HTTPRequest, HTTPResponse
from tornado.simple_httpclient import HTTPStreamClosedError, SimpleAsyncHTTPClient, _HTTPConnection

from ..._kernel.api import spawn
from ..._kernel.errors import Cancelled
from ..._kernel.run.microthread import Dhaga
from ..._kernel.run.scheduler import Scheduler
from ...aio._await import await_
from .dialer import DialAttempt, on_dial

DECOMPRESSED_BYTES = 262_144
"""Number of bytes of a body between two yields of the fetch to the loop.

Tornado decompresses 64 KB, which may become 64 MB of data, without a pause.
"""

CURLE_ABORTED = 42
"""CURLE_ABORTED_BY_CALLBACK, the result code of an aborted curl transfer."""


class Connection(_HTTPConnection):
    """Tornado's connection for one request. If the connection is reset within the answer's body, the request fails.

    Tornado itself only logs a reset: the fetch then lasts until its ``request_timeout``, or indefinitely. If the body
    ends with the connection, Tornado returns the part received before the reset.
    """

    def on_connection_close(self) -> None:
        """Fail the request if its answer is not complete. From: Tornado."""
        error = self.stream.error
        if error is None:
            super().on_connection_close()
        else:
            self._handle_exception(type(error), error, error.__traceback__)

    def finish(self) -> None:
        """Return the answer, or fail the request if the answer is incomplete. From: Tornado."""
        assert self.headers is not None
        has_end = "Content-Length" in self.headers or "Transfer-Encoding" in self.headers
        if has_end or self.stream.error is None:
            super().finish()
        else:
            self.on_connection_close()


class Fetch:
    """A fetch in flight, awaited like a Future, but without an extra loop iteration after Tornado's future is done.

    A cancel closes the connection. The fetch is done once Tornado has noticed the closed connection.
    """

    def __init__(self, client: AsyncHTTPClient, scheduler: Scheduler) -> None:
        self.client: Any = client
        self.scheduler = scheduler
        self.response: Any = None
        self.dial: DialAttempt | None = None
        self.curl: Any = None
        self.running_callback: Any = None
        self.original_callbacks: dict[str, Any] = {}
        self.body: list[bytes] | None = None
        self.untold: int = 0  # bytes of the body since the last yield
        self.error: BaseException | None = None
        self.finished: bool = False
        self.done_callback: Callable[[Any], object] = bool

    def begin(self, request: HTTPRequest, raise_error: bool, copy_request: bool) -> None:
        """Pass a request to Tornado, which modifies it. ``copy_request``: whether to pass a copy instead."""
        self.request = request
        self.prepared: HTTPRequest = copy.copy(request) if copy_request else request
        if isinstance(self.client, SimpleAsyncHTTPClient):
            self.wrap_callbacks(self.prepared)
            token = on_dial.set(self.set_dial)
            try:
                self.response = self.client.fetch(self.prepared, raise_error)
            finally:
                on_dial.reset(token)
        else:
            self.wrap_curl_callbacks(self.prepared)
            self.response = self.client.fetch(self.prepared, raise_error)
        self.response.add_done_callback(self.on_response)

    def set_dial(self, dial: DialAttempt) -> None:
        """Store the dial attempt of the first request, or of a redirect, for ``abort``."""
        self.dial = dial
        dial.task.add_done_callback(self.on_task_done)
        if self.error is not None:
            self.abort()

    def set_curl(self, prepare: Callable[[Any], object] | None, curl: Any) -> None:
        self.curl = curl
        if prepare is not None:
            prepare(curl)
        if self.error is not None:
            self.abort()

    # ---- the request's own functions

    def wrap_callbacks(self, request: HTTPRequest) -> None:
        """Wrap the callbacks of a request. Callbacks that Tornado awaits run in a dhaga, and others on the loop."""
        if request.streaming_callback is not None:
            self.wrap("streaming_callback", self.call_in_dhaga)
        else:
            self.body = []
            self.wrap("streaming_callback", self.collect)
        if request.body_producer is not None:
            self.wrap("body_producer", self.produce_body)
        if request.header_callback is not None:
            self.wrap("header_callback", self.call_on_loop)

    def wrap_curl_callbacks(self, request: HTTPRequest) -> None:
        self.wrap("prepare_curl_callback", self.set_curl)
        for name in ("header_callback", "streaming_callback"):
            if getattr(request, name) is not None and not iscoroutinefunction(getattr(request, name)):
                self.wrap(name, self.call_on_loop)

    def wrap(self, name: str, fn: Callable[..., object]) -> None:
        """Replace a request's callback with ``fn``, whose first argument is the original. ``finish`` undoes this."""
        self.original_callbacks[name] = original = getattr(self.prepared, name)
        setattr(self.prepared, name, functools.partial(fn, original))

    def call_on_loop(self, fn: Callable[..., object], *args: Any) -> None:
        """Call a callback on the event loop, where it must not park. An error of the callback fails the fetch."""
        try:
            fn(*args)
        except Exception as error:
            self.stop(error)

    async def call_in_dhaga(self, fn: Callable[..., Any], *args: Any) -> None:
        """Call a callback in a dhaga, or await a coroutine function. An error of the callback fails the fetch."""
        try:
            outcome = fn(*args) if iscoroutinefunction(fn) else await self.track_call(spawn(fn, *args))
            if isawaitable(outcome):  # plain functions may also return an awaitable
                await self.track_call(asyncio.ensure_future(outcome))
        except BaseException as error:
            self.stop(error)
        finally:
            self.running_callback = None

    def collect(self, _: None, piece: bytes) -> Any:
        """Append a piece to the body. Returns: None, or an awaitable with which Tornado yields to the loop."""
        assert self.body is not None
        self.body.append(piece)
        self.untold += len(piece)
        if self.untold < DECOMPRESSED_BYTES:
            return None
        self.untold = 0
        return asyncio.sleep(0)

    def track_call(self, running_callback: Any) -> Any:
        self.running_callback = running_callback
        return running_callback

    async def produce_body(self, fn: Callable[..., Any], write: Callable[[bytes], Future[None]]) -> None:
        """Call the request's body producer in a dhaga."""
        await self.call_in_dhaga(fn, functools.partial(write_and_wait, write))

    # ---- the end

    def stop(self, error: BaseException) -> None:
        """End the fetch with an error, and abort its connection. From: the loop's thread."""
        if self.error is None and not self.response.done():
            self.error = error
            self.abort()

    def abort(self) -> None:
        if self.running_callback is not None:
            self.running_callback.cancel()
        if self.dial is not None:
            self.dial.stop(HTTPStreamClosedError(str(self.error)))
        elif self.curl is not None:
            self.scheduler.loop.call_soon(self.abort_curl)  # deferred: abort() may run in a callback of curl
        elif not isinstance(self.client, SimpleAsyncHTTPClient):
            self.response.cancel()

    def abort_curl(self) -> None:
        """End the transfer of curl as Tornado ends a failed transfer."""
        if not self.response.done():
            self.client._finish(self.curl, CURLE_ABORTED, str(self.error))

    def on_task_done(self, task: asyncio.Task[None]) -> None:
        """End the fetch if other code, such as ``asyncio.run`` at its end, has cancelled Tornado's Task."""
        if task.cancelled():
            self.stop(CancelledError())
            self.response.cancel()

    def on_response(self, _: object) -> None:
        """Finish the fetch. After an abort, wait first until Tornado's Task has ended."""
        dial, cut = self.dial, self.error is not None
        if self.running_callback is not None:  # Tornado has timed out while the callback was running
            cut = self.running_callback.cancel()
        if cut and dial is not None and not dial.task.done():
            dial.task.add_done_callback(self.on_response)
        else:
            self.finish()

    def finish(self) -> None:
        self.finished = True
        self.dial = self.curl = None  # both refer to this fetch: a reference cycle would cost 20 µs
        if not self.response.cancelled():
            error: Any = self.response.exception()  # retrieved, because asyncio logs unretrieved exceptions
            fetched = getattr(error, "response", None) if error else self.response.result()
            if fetched is not None:
                fetched.request = self.request
                if self.body:
                    fetched.buffer = BytesIO(b"".join(self.body))
        for name, fn in self.original_callbacks.items():
            setattr(self.prepared, name, fn)
        self.body = None
        done_callback, self.done_callback = self.done_callback, bool
        done_callback(self)

    # ---- the interface of a Future

    def add_done_callback(self, done_callback: Callable[[Any], object]) -> None:
        self.done_callback = done_callback

    def cancel(self) -> None:
        self.stop(CancelledError())

    def cancelled(self) -> bool:
        return self.finished and isinstance(self.error, CancelledError)

    def done(self) -> bool:
        return self.finished

    def result(self) -> HTTPResponse:
        if isinstance(self.error, CancelledError):
            raise Cancelled from self.error
        if self.error is not None:
            raise self.error
        return self.response.result()  # type: ignore[no-any-return]


def write_and_wait(write: Callable[[bytes], Future[None]], chunk: bytes) -> Future[None]:
    """Write a chunk. In a dhaga, also wait until the chunk is written."""
    me = getcurrent()
    if not isinstance(me, Dhaga):
        return write(chunk)
    future: Future[None] = me.scheduler.call_as_callback(write, chunk)
    await_(future)
    return future
