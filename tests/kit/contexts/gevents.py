"""The ways to start code with gevent: the package itself, or ``dhaga.compat``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import gevent.pool
import gevent.threadpool
from gevent import get_hub
from gevent.pywsgi import WSGIHandler, WSGIServer
from gevent.server import StreamServer

from .ways import LOCAL, Start, Work, add_way, answer, servers, until_done, way, wsgi


def all_ways() -> None:
    Pool = gevent.pool.Pool

    add_way("spawn", lambda work: gevent.spawn(work).get())
    add_way("spawn_later", lambda work: gevent.spawn_later(0.001, work).get())
    add_way("spawn_raw", partial(until_done, gevent.spawn_raw))
    add_way("Pool.spawn", lambda work: Pool(1).spawn(work).get())
    add_way("Pool.apply", lambda work: Pool(1).apply(work))
    add_way("Pool.map", lambda work: Pool(1).map(work, [0]))
    add_way("Pool.imap", lambda work: list(Pool(1).imap(work, [0])))
    add_way("Pool.apply_async, callback", partial(until_done, lambda work: Pool(1).apply_async(int, callback=work)))
    # A worker thread of gevent's keeps what a call leaves; here one OS thread of a pool of one does, or none.
    add_way("hub.threadpool.apply", lambda work: get_hub().threadpool.apply(work), "main code")

    @way("ThreadPool.spawn", "main code")
    def spawn() -> Iterator[Start]:
        pool = gevent.threadpool.ThreadPool(1)
        yield lambda work: pool.spawn(work).get()
        pool.kill()

    @way("ThreadPool.apply", "main code")
    def apply() -> Iterator[Start]:
        pool = gevent.threadpool.ThreadPool(1)
        yield pool.apply
        pool.kill()

    def link(work: Work) -> None:
        gevent.spawn(int).link(work)

    def timer(work: Work) -> None:
        timers.append(get_hub().loop.timer(0.001))
        timers[-1].start(work)

    timers: list[Any] = []  # a timer without a reference never fires
    add_way("hub: link", partial(until_done, link))
    add_way("hub: run_callback", partial(until_done, lambda work: get_hub().loop.run_callback(work)))
    add_way("hub: timer", partial(until_done, timer))
    servers["pywsgi"] = lambda app: running(WSGIServer(LOCAL, wsgi(app), log=None))
    servers["pywsgi, own handler"] = lambda app: running(WSGIServer(LOCAL, wsgi(app), log=None, handler_class=Handler))
    servers["StreamServer"] = lambda app: running(StreamServer(LOCAL, lambda sock, peer: answer(app, sock)))


class Handler(WSGIHandler): ...


@contextmanager
def running(server: Any) -> Iterator[Any]:
    server.start()
    yield server.address
    server.stop()
