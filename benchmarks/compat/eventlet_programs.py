"""Twelve programs in eventlet's style. Each does its work once and returns the number of operations.

The clients of a server run in a separate process (``load.py``), whose CPU time does not count.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import eventlet
import eventlet.wsgi
from eventlet.event import Event
from eventlet.green import socket
from eventlet.queue import Queue
from eventlet.semaphore import Semaphore

from benchmarks.compat.load import CONNECTIONS, load
from benchmarks.compat.work import same


def spawn_and_wait(scale: int) -> int:
    """Green threads that do nothing, a hundred at a time."""
    count = 200 * scale
    for _ in range(count // 100):
        for thread in [eventlet.spawn(same, number) for number in range(100)]:
            thread.wait()
    return count


def spawn_n(scale: int) -> int:
    """Green threads that do nothing, spawned without a result."""
    count = 200 * scale
    for _ in range(count // 100):
        for number in range(100):
            eventlet.spawn_n(same, number)
        eventlet.sleep(0)
    return count


def pool_spawn(scale: int) -> int:
    """A GreenPool of ten for calls that yield."""
    count = 100 * scale
    pool = eventlet.GreenPool(10)
    for _ in range(count):
        pool.spawn(eventlet.sleep, 0)
    pool.waitall()
    return count


def imap(scale: int) -> int:
    """A GreenPool of ten, its results taken in order."""
    count = 100 * scale
    pool = eventlet.GreenPool(10)
    for _ in pool.imap(same, range(count)):
        pass
    return count


def switches(scale: int) -> int:
    """A hundred green threads that take turns."""

    def turns() -> None:
        for _ in range(5 * scale):
            eventlet.sleep(0)

    for thread in [eventlet.spawn(turns) for _ in range(100)]:
        thread.wait()
    return 500 * scale


def sleeps(scale: int) -> int:
    """A hundred green threads that sleep for a moment."""

    def naps() -> None:
        for _ in range(scale):
            eventlet.sleep(0.0001)

    for thread in [eventlet.spawn(naps) for _ in range(100)]:
        thread.wait()
    return 100 * scale


def queues(scale: int) -> int:
    """Items that two green threads pass back and forth through queues."""
    return to_and_fro(Queue(1), Queue(1), 200 * scale)


def channels(scale: int) -> int:
    """The same with queues of size 0: each put waits for its get."""
    return to_and_fro(Queue(0), Queue(0), 200 * scale)


def to_and_fro(there: Any, back: Any, count: int) -> int:
    def answer() -> None:
        for _ in range(count):
            back.put(there.get())

    answering = eventlet.spawn(answer)
    for number in range(count):
        there.put(number)
        back.get()
    answering.wait()
    return count


def events(scale: int) -> int:
    """Events, each for one green thread that waits."""
    count = 100 * scale
    for _ in range(count // 100):
        made = [Event() for _ in range(100)]
        waiting = [eventlet.spawn(each.wait) for each in made]
        eventlet.sleep(0)
        for number, each in enumerate(made):
            each.send(number)
        for thread in waiting:
            thread.wait()
    return count


def semaphores(scale: int) -> int:
    """A Semaphore of ten for a hundred green threads."""
    semaphore = Semaphore(10)

    def work() -> None:
        for _ in range(2 * scale):
            with semaphore:
                eventlet.sleep(0)

    for thread in [eventlet.spawn(work) for _ in range(100)]:
        thread.wait()
    return 200 * scale


def echo_server(scale: int) -> int:
    """A server that echoes lines, a green thread for each connection."""
    listener = eventlet.listen(("127.0.0.1", 0))

    def echo(sock: Any, address: Any) -> None:
        while data := sock.recv(4096):
            sock.sendall(data)

    return served(eventlet.spawn(eventlet.serve, listener, echo), listener, "echo", 5 * scale)


def wsgi_server(scale: int) -> int:
    """A WSGI server that says hello."""
    listener = eventlet.listen(("127.0.0.1", 0))

    def hello(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", "12")])
        return [b"Hello World!"]

    server = eventlet.spawn(eventlet.wsgi.server, listener, hello, log_output=False)
    return served(server, listener, "http", 2 * scale)


def served(server: Any, listener: socket.socket, protocol: str, requests: int) -> int:
    """Serve ``requests`` requests on each of the load's connections."""
    load(protocol, listener.getsockname()[1], requests, eventlet.sleep)
    server.kill()
    listener.close()
    return CONNECTIONS * requests


PROGRAMS: dict[str, Callable[[int], int]] = {
    program.__name__: program
    for program in (
        spawn_and_wait,
        spawn_n,
        pool_spawn,
        imap,
        switches,
        sleeps,
        queues,
        channels,
        events,
        semaphores,
        echo_server,
        wsgi_server,
    )
}
