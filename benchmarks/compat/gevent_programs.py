"""Ten programs in gevent's style. Each does its work once and returns the number of operations.

The clients of a server run in a separate process (``load.py``), whose CPU time does not count.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gevent
from gevent.event import AsyncResult, Event
from gevent.lock import Semaphore
from gevent.pool import Pool
from gevent.pywsgi import WSGIServer
from gevent.queue import Queue
from gevent.server import StreamServer

from benchmarks.compat.load import CONNECTIONS, load
from benchmarks.compat.work import same


def spawn_and_join(scale: int) -> int:
    """Greenlets that do nothing, a hundred at a time."""
    count = 200 * scale
    for _ in range(count // 100):
        gevent.joinall([gevent.spawn(same, number) for number in range(100)])
    return count


def pool_map(scale: int) -> int:
    """A Pool of ten for calls that yield."""
    count = 100 * scale
    pool = Pool(10)
    for _ in range(count // 100):
        pool.map(gevent.sleep, [0] * 100)
    return count


def imap_unordered(scale: int) -> int:
    """The same, with results in the order in which the calls end."""
    count = 100 * scale
    pool = Pool(10)
    for _ in range(count // 100):
        for _ in pool.imap_unordered(same, range(100)):
            pass
    return count


def switches(scale: int) -> int:
    """A hundred greenlets that take turns."""

    def turns() -> None:
        for _ in range(10 * scale):
            gevent.sleep(0)

    gevent.joinall([gevent.spawn(turns) for _ in range(100)])
    return 1000 * scale


def queues(scale: int) -> int:
    """Items that two greenlets pass back and forth through queues."""
    there: Any = Queue(1)
    back: Any = Queue(1)
    count = 200 * scale

    def answer() -> None:
        for _ in range(count):
            back.put(there.get())

    answering = gevent.spawn(answer)
    for number in range(count):
        there.put(number)
        back.get()
    answering.join()
    return count


def results(scale: int) -> int:
    """AsyncResults, each for one greenlet that waits."""
    count = 100 * scale
    for _ in range(count // 100):
        made = [AsyncResult() for _ in range(100)]
        waiting = [gevent.spawn(each.get) for each in made]
        gevent.sleep(0)
        for number, each in enumerate(made):
            each.set(number)
        gevent.joinall(waiting)
    return count


def broadcasts(scale: int) -> int:
    """One Event that a hundred greenlets wait for, again and again."""
    rounds = 2 * scale
    events = [Event() for _ in range(rounds)]

    def wait() -> None:
        for event in events:
            event.wait()

    waiting = [gevent.spawn(wait) for _ in range(100)]
    for event in events:
        gevent.sleep(0)
        event.set()
    gevent.joinall(waiting)
    return 100 * rounds


def semaphores(scale: int) -> int:
    """A Semaphore of ten for a hundred greenlets."""
    semaphore = Semaphore(10)

    def work() -> None:
        for _ in range(3 * scale):
            with semaphore:
                gevent.sleep(0)

    gevent.joinall([gevent.spawn(work) for _ in range(100)])
    return 300 * scale


def stream_server(scale: int) -> int:
    """A StreamServer that echoes lines."""

    def echo(sock: Any, address: Any) -> None:
        while data := sock.recv(4096):
            sock.sendall(data)

    return served(StreamServer(("127.0.0.1", 0), echo), "echo", 5 * scale)


def wsgi_server(scale: int) -> int:
    """A WSGIServer that says hello."""

    def hello(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        start_response("200 OK", [("Content-Type", "text/plain")])
        return [b"Hello World!"]

    return served(WSGIServer(("127.0.0.1", 0), hello, log=None), "http", 2 * scale)


def served(server: Any, protocol: str, requests: int) -> int:
    """Serve ``requests`` requests on each of the load's connections."""
    server.start()
    load(protocol, server.server_port, requests, gevent.sleep)
    server.stop()
    return CONNECTIONS * requests


PROGRAMS: dict[str, Callable[[int], int]] = {
    program.__name__: program
    for program in (
        spawn_and_join,
        pool_map,
        imap_unordered,
        switches,
        queues,
        results,
        broadcasts,
        semaphores,
        stream_server,
        wsgi_server,
    )
}
