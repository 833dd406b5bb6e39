"""What the tests have gunicorn serve: one view a path. `python -m gunicorn … tests.integrations.served:app`."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterable
from contextlib import suppress
from contextvars import ContextVar
from typing import Any

from dhaga import Timeout, threading
from dhaga.monkey import original

LARGE = 5_000_000  # bytes: more than the buffers of a connection on loopback hold
Reply = tuple[str, Any]

gathering = threading.Barrier(int(os.environ.get("DHAGA_CROWD", "2")))
gates: dict[str, threading.Event] = {}
last_query: ContextVar[str] = ContextVar("last_query")


def gate(environ: dict[str, Any]) -> threading.Event:
    return gates.setdefault(environ["QUERY_STRING"], threading.Event())


def hello(environ: dict[str, Any]) -> Reply:
    return "200 OK", [b"hello\n"]


def worker(environ: dict[str, Any]) -> Reply:
    """Who serves this, and for whom."""
    return "200 OK", [f"{os.getpid()} {environ['REMOTE_ADDR']} {environ['wsgi.url_scheme']}\n".encode()]


def meet(environ: dict[str, Any]) -> Reply:
    """Answered once as many as the crowd are in here at once."""
    gathering.wait(30)
    return "200 OK", [b"met\n"]


def say(line: str) -> None:
    """Print a line in one piece: several processes do so into one file."""
    print(f"{line}\n", end="", flush=True)


def wait(environ: dict[str, Any]) -> Reply:
    """Answered once somebody asks for /open with the same query."""
    say(f"waits {environ['QUERY_STRING']}")
    try:
        gate(environ).wait()
    finally:
        say(f"waits no longer {environ['QUERY_STRING']}")
    return "200 OK", [b"waited\n"]


def open_gate(environ: dict[str, Any]) -> Reply:
    gate(environ).set()
    return "200 OK", [b"open\n"]


def echo(environ: dict[str, Any]) -> Reply:
    return "200 OK", [environ["wsgi.input"].read()]


def stream(environ: dict[str, Any]) -> Reply:
    """Chunk after chunk, the last one once the gate is open."""

    def chunks() -> Iterable[bytes]:
        yield b""
        yield b"first "
        gate(environ).wait()
        yield b"last"

    return "200 OK", chunks()


def hints(environ: dict[str, Any]) -> Reply:
    """Early hints, and the answer once the gate is open."""
    environ["wsgi.early_hints"]([("Link", "</style.css>; rel=preload")])
    gate(environ).wait()
    return "200 OK", [b"styled\n"]


def nothing(environ: dict[str, Any]) -> Reply:
    return "204 No Content", []


def file(environ: dict[str, Any]) -> Reply:
    large = tempfile.TemporaryFile()  # noqa: SIM115
    large.truncate(LARGE)
    return "200 OK", environ["wsgi.file_wrapper"](large)


def remember(environ: dict[str, Any]) -> Reply:
    """What the last request of this context has asked to remember."""
    remembered = last_query.get("nothing")
    last_query.set(environ["QUERY_STRING"])
    return "200 OK", [f"{remembered}\n".encode()]


def fail(environ: dict[str, Any]) -> Reply:
    raise LookupError("a view that fails")


def leave(environ: dict[str, Any]) -> Reply:
    sys.exit("a view that exits")


def block(environ: dict[str, Any]) -> Reply:
    """Keep the thread, and all others with it."""
    original("time", "sleep")(60)
    return "200 OK", []


def cut_off(start_response: Any) -> list[bytes]:
    """Write more than the client reads, until a timeout of the view."""
    write = start_response("200 OK", [("Content-Length", str(4 * LARGE))])
    with suppress(TimeoutError), Timeout(0.05):
        write(bytes(4 * LARGE))
    say("cut off")
    return []


VIEWS: dict[str, Callable[[dict[str, Any]], Reply]] = {
    "/": hello,
    "/worker": worker,
    "/meet": meet,
    "/wait": wait,
    "/open": open_gate,
    "/echo": echo,
    "/stream": stream,
    "/hints": hints,
    "/nothing": nothing,
    "/file": file,
    "/remember": remember,
    "/fail": fail,
    "/leave": leave,
    "/block": block,
}


def app(environ: dict[str, Any], start_response: Any) -> Any:
    if environ["PATH_INFO"] == "/cut":
        return cut_off(start_response)
    status, body = VIEWS[environ["PATH_INFO"]](environ)
    length = [("Content-Length", str(len(body[0])))] if isinstance(body, list) and body else []
    start_response(status, [("Content-Type", "text/plain"), *length])
    return body
