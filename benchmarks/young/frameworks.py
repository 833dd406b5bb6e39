"""For each framework, the functions that the works need. A framework is imported only in its own process."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

Function = Callable[[], Any]


@dataclass(frozen=True)
class Framework:
    """``run``: runs a function in a first microthread, to its end. ``run_with_coroutines``: the same, if ``await_``
    needs another call. ``channel``: returns the functions that put an item and get an item.
    """

    run: Callable[[Function], Any]
    spawn: Callable[[Function], Any]
    yield_: Function
    sleep: Callable[[float], Any]
    join: Callable[[Any], Any]
    channel: Callable[[], tuple[Callable[[Any], Any], Function]]
    await_: Callable[[Awaitable[Any]], Any] | None = None
    run_with_coroutines: Callable[[Function], Any] | None = None


def dhaga() -> Framework:
    import dhaga
    from dhaga import queue

    def channel() -> tuple[Callable[[Any], Any], Function]:
        items: queue.Queue[Any] = queue.Queue()
        return items.put, items.get

    return Framework(
        lambda main: dhaga.spawn(main).result(),
        dhaga.spawn,
        partial(dhaga.sleep, 0),
        dhaga.sleep,
        dhaga.Dhaga.join,
        channel,
        dhaga.await_,
    )


def runloom() -> Framework:
    """Return runloom's form for one OS thread. A join uses a WaitGroup, because fibers have no join."""
    import runloom

    def spawn(function: Function) -> Any:
        group = runloom.WaitGroup()
        group.add(1)

        def work() -> None:
            function()
            group.done()

        runloom.fiber(work)
        return group

    def channel() -> tuple[Callable[[Any], Any], Function]:
        items = runloom.Chan(1)
        return items.send, lambda: items.recv()[0]

    return Framework(
        lambda main: runloom.run(1, main), spawn, runloom.yield_, runloom.sleep, runloom.WaitGroup.wait, channel
    )


def pyroutine() -> Framework:
    """Return pyroutine's form for one OS thread."""
    import pyroutine

    pyroutine.set_max_procs(1)

    def channel() -> tuple[Callable[[Any], Any], Function]:
        items = pyroutine.Queue()
        return items.put, items.get

    return Framework(
        lambda main: pyroutine.spawn(main).result(),
        pyroutine.spawn,
        pyroutine.yield_,
        pyroutine.sleep,
        pyroutine.Task.join,
        channel,
    )


def tealetio() -> Framework:
    import tealetio

    def channel() -> tuple[Callable[[Any], Any], Function]:
        items: Any = tealetio.Queue()
        return items.sput, items.sget

    return Framework(
        tealetio.run,
        tealetio.spawn,
        partial(tealetio.sleep, 0),
        tealetio.sleep,
        tealetio.Task.wait,
        channel,
        lambda coroutine: tealetio.get_running_scheduler().await_(coroutine),
        tealetio.run_in_asyncio,
    )


def asyncio_gevent() -> Framework:
    """Return gevent's works. Coroutines use asyncio-gevent's documented way, which creates an event loop for each.

    With a loop that already runs in another greenlet, release 0.2.5 hangs, because nothing wakes the loop.
    """
    import gevent.monkey

    gevent.monkey.patch_all()
    import asyncio_gevent
    from gevent import queue

    def channel() -> tuple[Callable[[Any], Any], Function]:
        items: Any = queue.Queue()
        return items.put, items.get

    return Framework(
        lambda main: gevent.spawn(main).get(),
        gevent.spawn,
        partial(gevent.sleep, 0),
        gevent.sleep,
        gevent.Greenlet.join,
        channel,
        lambda coroutine: asyncio_gevent.async_to_sync(lambda: coroutine)(),
    )


FRAMEWORKS = {each.__name__: each for each in (dhaga, runloom, pyroutine, tealetio, asyncio_gevent)}
