"""The ways to start code with Dhaga's own functions."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import dhaga.aio
from dhaga import Scheduler, Scope
from dhaga._workers.offload import OffloadPool
from dhaga.futures import Executor
from dhaga.http.wsgi import Server
from dhaga.integrations.celery import TaskPool
from dhaga.pool import Pool
from dhaga.servers import TCPServer

from .ways import (
    LOCAL,
    PATIENCE,
    App,
    Start,
    Work,
    add_way,
    answer,
    call_back,
    made_by_the_first,
    servers,
    until_done,
    way,
    wsgi,
)


def all_ways() -> None:
    add_way("spawn", lambda work: dhaga.spawn(work).result())
    add_way("spawn_later", lambda work: dhaga.spawn_later(0, work).result())
    add_way("race", lambda work: dhaga.race(work))
    add_way("offload", lambda work: dhaga.offload(work))
    add_way("run_in_dhaga", lambda work: dhaga.aio.run_in_dhaga(work), "coroutine")

    @way("Scope.spawn")
    def scope() -> Iterator[Start]:
        def start(work: Work) -> None:
            with Scope() as scope:
                scope.spawn(work)

        yield start

    @way("Scheduler.spawn")
    def scheduler() -> Iterator[Start]:
        with Scheduler("other") as other:
            yield lambda work: other.spawn(work).result()

    @way("OffloadPool.offload")
    def offload_pool() -> Iterator[Start]:
        with OffloadPool("calls", 1) as pool:
            yield pool.offload

    @way("Executor.submit")
    def executor() -> Iterator[Start]:
        with Executor(dhagas=1) as executor:
            yield lambda work: executor.submit(work).result()

    calls: dict[str, Callable[[Any, Work], object]] = {
        "Pool.submit": lambda pool, work: pool.submit(work).result(),
        "Pool.map": lambda pool, work: list(pool.map(work, [0])),
        "Pool.imap_unordered": lambda pool, work: list(pool.imap_unordered(work, [0])),
        "Pool, done callback": call_back,
        "Executor over a Pool": lambda pool, work: Executor(pool).submit(work).result(),
    }
    for name, call in calls.items():
        way(name)(partial(in_pool, call))

    @way("Celery's pool")
    def celery() -> Iterator[Start]:
        with tasks() as pool:
            yield partial(until_done, lambda work: pool.apply_async(work))

    @way("Celery's pool, behind another task")
    def celery_queued() -> Iterator[Start]:
        def start(work: Work) -> None:
            gate = threading.Event()
            pool.apply_async(gate.wait, (PATIENCE,))
            pool.apply_async(work)
            gate.set()

        with tasks() as pool:
            yield partial(until_done, start)

    servers.update({"http.wsgi.Server": http_wsgi, "TCPServer": tcp})


def in_pool(call: Callable[[Any, Work], object]) -> Iterator[Start]:
    get = made_by_the_first(partial(Pool, threads=1, dhagas=1))
    yield lambda work: call(get(), work)
    get().shutdown()


@contextmanager
def tasks() -> Iterator[TaskPool]:
    pool = TaskPool(1)
    pool.start()
    yield pool
    pool.stop()


@contextmanager
def http_wsgi(app: App) -> Iterator[Any]:
    with Server(wsgi(app), LOCAL) as server:
        yield server.address


@contextmanager
def tcp(app: App) -> Iterator[Any]:
    with TCPServer(lambda sock, peer: answer(app, sock), LOCAL) as server:
        yield server.address
