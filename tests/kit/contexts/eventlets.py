"""The ways to start code with eventlet: the package itself, or ``dhaga.compat``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import eventlet.hubs
import eventlet.tpool
import eventlet.wsgi
from eventlet import GreenPile, GreenPool

from .ways import LOCAL, Work, add_way, answer, servers, until_done, wsgi


def all_ways() -> None:
    add_way("spawn", lambda work: eventlet.spawn(work).wait())
    add_way("spawn_n", partial(until_done, eventlet.spawn_n))
    add_way("spawn_after", lambda work: eventlet.spawn_after(0.001, work).wait())
    add_way("GreenPool.spawn", lambda work: GreenPool(1).spawn(work).wait())
    add_way("GreenPool.spawn_n", partial(until_done, lambda work: GreenPool(1).spawn_n(work)))
    add_way("GreenPool.imap", lambda work: list(GreenPool(1).imap(work, [0])))
    add_way("tpool.execute", lambda work: eventlet.tpool.execute(work), "main code")
    add_way("hub: call", partial(until_done, lambda work: eventlet.hubs.get_hub().schedule_call_global(0, work)))

    def pile(work: Work) -> None:
        pile = GreenPile(1)
        pile.spawn(work)
        list(pile)

    def link(work: Work) -> None:
        eventlet.spawn(int).link(work)

    add_way("GreenPile.spawn", pile)
    add_way("link", partial(until_done, link))
    servers["wsgi"] = lambda app: serving(lambda listener: eventlet.wsgi.server(listener, wsgi(app), log_output=False))
    servers["serve"] = lambda app: serving(
        lambda listener: eventlet.serve(listener, lambda sock, peer: answer(app, sock))
    )


@contextmanager
def serving(serve: Callable[[Any], object]) -> Iterator[Any]:
    listener = eventlet.listen(LOCAL)
    server = eventlet.spawn(serve, listener)
    yield listener.getsockname()
    server.kill()
