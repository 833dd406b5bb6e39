"""The apps of `benchmarks.web`: 'hello', and a site whose /poll waits for an event, for the row `idle-polls`."""

from collections.abc import Callable, Iterable
from typing import Any

BODY = b"Hello, world!\n"
HEADERS = [("Content-Type", "text/plain"), ("Content-Length", str(len(BODY)))]

RAW_HEADERS = [(name.lower().encode(), value.encode()) for name, value in HEADERS]


def hello(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """Answer at once (WSGI)."""
    start_response("200 OK", HEADERS)
    return [BODY]


async def hello_asgi(scope: dict[str, Any], receive: Callable[..., Any], send: Callable[..., Any]) -> None:
    """Answer at once (ASGI)."""
    await send({"type": "http.response.start", "status": 200, "headers": RAW_HEADERS})
    await send({"type": "http.response.body", "body": BODY})


class Site:
    """A WSGI app. /poll waits for an event that never comes, /waiting returns the number of waiting polls, and all
    other paths return 'hello'.
    """

    def __init__(self, event: Any) -> None:
        self.event = event
        self.waiting = 0

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        if path == "/poll":
            self.waiting += 1
            self.event.wait()
        elif path == "/waiting":
            text = str(self.waiting).encode()
            start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(text)))])
            return [text]
        return hello(environ, start_response)


def dhaga_site() -> Site:
    """Make the site for a server on dhagas."""
    from dhaga.threading import Event

    return Site(Event())


def gevent_site() -> Site:
    """Make the site for a server on gevent."""
    from gevent.event import Event

    return Site(Event())
