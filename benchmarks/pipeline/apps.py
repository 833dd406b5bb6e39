"""The apps of the servers of `benchmarks.pipeline`: / is a page without a call; /call shows the backend's answer.

Each function `on_…` makes the app for one kind of server, with calls that suit this server. $BACKEND_PORT is the
backend's port.
"""

import os
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from benchmarks.pipeline.asyncio_client import AsyncBackendClient
from benchmarks.pipeline.client import BackendClient

WSGI = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]
ASGI = Callable[[dict[str, Any], Callable[..., Any], Callable[..., Any]], Awaitable[None]]

PORT = "BACKEND_PORT"
WORDS = b"The backend says "
PLAIN = WORDS + b"nothing...\n"  # has the length of the other page
THREADS = 2  # in the pool for blocking calls


def site(call: Callable[[], bytes]) -> WSGI:
    """Make a WSGI app; `call` calls the backend."""

    def app(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        page = WORDS + call() if environ["PATH_INFO"] == "/call" else PLAIN
        start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(page)))])
        return [page]

    return app


def asgi_site(call: Callable[[], Awaitable[bytes]]) -> ASGI:
    """Make an ASGI app; `call` calls the backend."""

    async def app(scope: dict[str, Any], receive: Callable[..., Any], send: Callable[..., Any]) -> None:
        page = WORDS + await call() if scope["path"] == "/call" else PLAIN
        headers = [(b"content-type", b"text/plain"), (b"content-length", str(len(page)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": page})

    return app


def backend_port() -> int:
    """Return the backend's port."""
    return int(os.environ[PORT])


def on_dhagas() -> WSGI:
    """Make the app whose dhagas make the calls themselves, and park meanwhile."""
    from dhaga import socket

    return site(BackendClient(socket, backend_port()).call)


def on_threads() -> WSGI:
    """Make the app whose dhagas offload the calls to a few threads, which block."""
    import socket

    from dhaga import OffloadPool

    pool = OffloadPool("calls", THREADS)
    return site(pool.offloaded(BackendClient(socket, backend_port()).call))


def on_gevent() -> WSGI:
    """Make the app for a server on gevent."""
    from gevent import socket

    return site(BackendClient(socket, backend_port()).call)


def on_coroutines() -> ASGI:
    """Make the app for a server on asyncio."""
    return asgi_site(AsyncBackendClient(backend_port()).call)
