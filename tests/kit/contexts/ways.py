"""The rows of a table: ways to start code, and servers that start code for requests."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any, NamedTuple

from .modules import queue, threading

PATIENCE = 30
LOCAL = ("127.0.0.1", 0)

Work = Callable[..., None]
Start = Callable[[Work], object]


class Way(NamedTuple):
    opens: Callable[[], AbstractContextManager[Start]]
    places: tuple[str, ...]


ways: dict[str, Way] = {}
EVERYWHERE = ("main code", "thread", "coroutine")


def way(name: str, *places: str) -> Callable[[Callable[[], Iterator[Start]]], None]:
    """Decorate a generator function that yields a way to start code."""

    def add(opens: Callable[[], Iterator[Start]]) -> None:
        ways[name] = Way(contextmanager(opens), places or EVERYWHERE)

    return add


def add_way(name: str, start: Start, *places: str) -> None:
    ways[name] = Way(partial(contextlib.nullcontext, start), places or EVERYWHERE)


def until_done(start: Start, work: Work) -> None:
    """Start code, and wait until it has run."""
    done: Any = queue.SimpleQueue()

    def call(*_: object) -> None:
        try:
            work()
        finally:
            done.put(None)

    start(call)
    done.get(timeout=PATIENCE)


def call_back(pool: Any, work: Work) -> None:
    """Call ``work`` as the done callback of a pool's call, and wait until it has run."""
    gate = threading.Event()

    def start(work: Work) -> None:
        future = pool.submit(gate.wait, PATIENCE)
        future.add_done_callback(work)
        gate.set()

    until_done(start, work)


def made_by_the_first(make: Callable[[], Any]) -> Callable[[], Any]:
    """Return a function that returns one object, made at its first call."""
    made: list[Any] = []

    def get() -> Any:
        if not made:
            made.append(make())
        return made[0]

    return get


# ---- servers

App = Callable[[str], None]
Serve = Callable[[App], AbstractContextManager[Any]]
servers: dict[str, Serve] = {}
CLOSING = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


def answer(app: App, sock: Any) -> None:
    """Answer the one request of a connection."""
    with sock.makefile("rb") as file:
        line = file.readline()
        while file.readline().strip():
            pass
    app(line.split()[1][1:].decode())
    sock.sendall(CLOSING)


def wsgi(app: App) -> Callable[..., Any]:
    def application(environ: Any, start_response: Any) -> list[bytes]:
        app(environ["PATH_INFO"][1:])
        start_response("200 OK", [("Content-Length", "0")])
        return []

    return application
