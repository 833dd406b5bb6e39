"""What the works need of each framework, by its own names. Each is imported only in its own process."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

Function = Callable[[], Any]


@dataclass(frozen=True)
class Framework:
    """``run``: a function in a first microthread, to its end; ``run_with_coroutines``: the same for ``await_``, if that
    needs another call. ``channel``: how to put an item, and how to get one.
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
    """Return its form for one OS thread. A join is that of a WaitGroup, as its fibers have none."""
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
    """Return its form for one OS thread."""
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
    """Return gevent's works; coroutines by asyncio-gevent's documented way, which makes an event loop for each.

    On a loop that runs in another greenlet already, release 0.2.5 does not end: nothing wakes the loop.
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
