"""Blocking-style code in dhagas finds no running loop, as in a plain thread: asyncio, asgiref, Flask, Django.

All this needs no patch.
"""

from __future__ import annotations

import asyncio
import gc
import urllib.request
from collections.abc import Callable
from typing import Any

import pytest

import dhaga
from dhaga import aio, queue, threading
from tests.kit.asyncio_places import PLACES
from tests.kit.scripts import prints

Place = Callable[..., Any]


def loop_or_error() -> object:
    try:
        return asyncio.get_running_loop()
    except RuntimeError as error:
        return str(error)


async def loop_in_coroutine() -> asyncio.AbstractEventLoop:
    await asyncio.sleep(0)
    return asyncio.get_running_loop()


NONE = "no running event loop"


@pytest.mark.parametrize("place", PLACES)
def test_dhagas_see_no_loop_and_their_coroutines_that_of_the_scheduler(place: Place) -> None:
    def works() -> list[object]:
        loop = dhaga.current().scheduler.loop
        seen = [loop_or_error(), dhaga.await_(loop_in_coroutine()) is loop, loop_or_error()]
        dhaga.sleep(0.001)
        return [*seen, loop_or_error(), dhaga.spawn(loop_or_error).result(), loop_or_error()]

    assert place(works) == [NONE, True, NONE, NONE, NONE, NONE]


@pytest.mark.parametrize("place", PLACES)
def test_a_coroutine_sees_its_loop_before_and_after_laps(place: Place) -> None:
    def works() -> list[bool]:
        loop = dhaga.current().scheduler.loop

        async def coroutine() -> list[bool]:
            seen = [asyncio.get_running_loop() is loop]
            for wait in (lambda: None, lambda: dhaga.sleep(0), lambda: dhaga.sleep(0.001)):
                await dhaga.spawn(wait)
                seen.append(asyncio.get_running_loop() is loop)
            return seen

        return dhaga.await_(coroutine())

    assert place(works) == [True] * 4


@pytest.mark.parametrize("place", PLACES)
def test_asyncio_run_works_in_dhagas_one_after_the_other(place: Place) -> None:
    async def inner(number: int) -> int:
        await asyncio.sleep(0.001)
        return number

    def works() -> list[int]:
        runs = [dhaga.spawn(lambda number=number: asyncio.run(inner(number))) for number in range(5)]
        return [run.result() for run in runs]

    assert place(works) == [0, 1, 2, 3, 4]


def test_async_to_sync_and_sync_to_async_work_in_dhagas() -> None:
    sync = pytest.importorskip("asgiref.sync")

    async def double(number: int) -> int:
        await asyncio.sleep(0.001)
        return number + await sync.sync_to_async(lambda: number)()

    def works() -> list[int]:
        return [dhaga.spawn(sync.async_to_sync(double), number).result() for number in range(3)]

    async def main() -> list[int]:
        return await aio.run_in_dhaga(works)

    assert works() == asyncio.run(main()) == [0, 2, 4]


def test_main_code_and_its_callbacks_keep_their_views() -> None:
    me = dhaga.current()
    assert loop_or_error() == NONE
    me.scheduler.loop.call_soon(lambda: me.wake(loop_or_error()))
    assert dhaga.park("callback") is me.scheduler.loop
    assert loop_or_error() == NONE
    with pytest.raises(ZeroDivisionError):
        dhaga.spawn(lambda: 1 / 0).result()
    assert loop_or_error() == NONE


@pytest.mark.long("the hub waits five seconds for a mutex")
def test_a_finalizer_in_a_lap_finds_the_scheduler_and_is_refused_where_it_would_park() -> None:
    """The finalizer runs on the hub, in a lap that shows no loop, and its scheduler has no main code."""
    seen: list[object] = []
    lock = threading.Lock()

    class Dropped:
        def __del__(self) -> None:
            seen.append(dhaga.spawn(int).scheduler)
            try:
                lock.acquire()
            except dhaga.ParkError as error:
                seen.append("__del__" in str(error))
            with pytest.raises(RuntimeError, match="event loop"):
                items.put(1)

    items: queue.Queue[int] = queue.Queue()

    async def main() -> dhaga.Scheduler:
        lock.acquire()
        scheduler = dhaga.spawn(int).scheduler
        call = HubDrop(scheduler, [Dropped()])
        scheduler.run_queue.append(call)
        items.mutex.acquire()
        await dhaga.spawn(dhaga.sleep, 0)
        items.mutex.release()
        lock.release()
        return scheduler

    from dhaga._kernel.run.entries import HubCall

    class HubDrop(HubCall):
        def __init__(self, scheduler: dhaga.Scheduler, kept: list[object]) -> None:
            self.scheduler, self.kept = scheduler, kept

        def make_call(self) -> None:
            self.kept.clear()
            gc.collect()

    scheduler = asyncio.run(main())
    assert seen == [scheduler, True]


def test_a_foreign_greenlet_in_a_guest_spawns_on_the_guest_and_cannot_park() -> None:
    from greenlet import greenlet

    def foreign() -> object:
        with pytest.raises(dhaga.ParkError, match="foreign greenlet"):
            dhaga.sleep(1)
        return dhaga.spawn(int).scheduler

    async def main() -> bool:
        dhaga_of_guest = dhaga.spawn(lambda: greenlet(foreign).switch())
        return await dhaga_of_guest is dhaga_of_guest.scheduler

    assert asyncio.run(main())


# ---- a loop that a dhaga runs by the standard asyncio blocks this dhaga


@pytest.mark.parametrize("place", PLACES)
def test_parking_in_a_coroutine_on_a_dhagas_own_standard_loop_is_refused_by_what_helps(place: Place) -> None:
    async def coroutine(wait: Callable[[], object]) -> None:
        with pytest.raises(dhaga.ParkError, match=r"dhaga\.asyncio\.run"):
            wait()

    async def awaits() -> None:
        with pytest.raises(dhaga.ParkError, match=r"dhaga\.asyncio\.run"):
            await dhaga.spawn(int)
        with pytest.raises(dhaga.ParkError, match=r"dhaga\.asyncio\.run"):
            await aio.run_in_dhaga(dhaga.sleep, 0.001)

    def works() -> object:
        asyncio.run(coroutine(lambda: dhaga.sleep(1)))
        asyncio.run(coroutine(lambda: dhaga.await_(asyncio.sleep(0))))
        asyncio.run(awaits())
        dhaga.sleep(0)
        return loop_or_error()

    assert place(works) == NONE


def test_dhaga_asyncio_run_takes_coroutines_that_park_unpatched() -> None:
    assert prints("""
        import asyncio, dhaga, dhaga.asyncio
        async def main():
            await asyncio.sleep(0.001)
            dhaga.sleep(0.001)
            return await dhaga.aio.run_in_dhaga(sum, [1, 2])
        print(dhaga.spawn(lambda: dhaga.asyncio.run(main())).result())
    """) == ["3"]


# ---- frameworks, served


FLASK = """
import asyncio, urllib.request, dhaga
from flask import Flask
from dhaga.http.wsgi import Server
app = Flask(__name__)

@app.get("/async")
async def a():
    await asyncio.sleep(0.01)
    return "async view"

@app.get("/run")
def r():
    async def f():
        await asyncio.sleep(0.01)
        return "asyncio.run"
    return asyncio.run(f())

def get(path):
    with urllib.request.urlopen("http://{}:{}".format(*server.address) + path) as page:
        return page.read().decode()

with dhaga.Scheduler("serves") as scheduler:
    server = Server(app)
    scheduler.spawn(server.start).result()
    print(get("/async"), get("/run"), sep=", ")
    server.stop(0)
"""

DJANGO = """
import asyncio, urllib.request, dhaga
from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.db import connection
from django.http import HttpResponse
from django.urls import path
from dhaga.http.wsgi import Server
settings.configure(SECRET_KEY="x", ALLOWED_HOSTS=["*"], ROOT_URLCONF=__name__,
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}})

def query(request):
    with connection.cursor() as cursor:
        cursor.execute("SELECT 42")
        return HttpResponse(str(cursor.fetchone()[0]))

async def waits(request):
    await asyncio.sleep(0.01)
    return HttpResponse("async view")

urlpatterns = [path("query", query), path("async", waits)]

def get(path):
    with urllib.request.urlopen("http://{}:{}".format(*server.address) + path) as page:
        return page.read().decode()

with dhaga.Scheduler("serves") as scheduler:
    server = Server(get_wsgi_application())
    scheduler.spawn(server.start).result()
    print(get("/query"), get("/async"), sep=", ")
    server.stop(0)
"""


def test_flasks_async_views_and_asyncio_run_in_a_view_work_unpatched() -> None:
    pytest.importorskip("flask")
    pytest.importorskip("asgiref")
    assert prints(FLASK) == ["async view, asyncio.run"]


def test_djangos_database_and_async_views_work_unpatched() -> None:
    pytest.importorskip("django")
    assert prints(DJANGO) == ["42, async view"]


# ---- what asyncio takes


def test_servers_are_entered_by_async_with_in_coroutines() -> None:
    from dhaga.http.wsgi import Server

    def app(environ: Any, start_response: Any) -> list[bytes]:
        dhaga.sleep(0.001)
        start_response("200 OK", [("Content-Type", "text/plain")])
        return [b"served"]

    def fetch(url: str) -> bytes:
        with urllib.request.urlopen(url) as page:
            return page.read()

    async def main() -> bytes:
        server = Server(app)
        with pytest.raises(dhaga.ParkError, match="async with"):
            server.__enter__()
        assert server.scheduler is None
        async with server:
            page = await asyncio.to_thread(fetch, "http://{}:{}/".format(*server.address[:2]))
        assert server.ended
        return page

    assert asyncio.run(main()) == b"served"


def test_asyncio_wait_takes_a_dhaga_as_a_future_and_says_so() -> None:
    async def main() -> list[int]:
        dhagas = [dhaga.spawn(lambda number=number: number) for number in range(2)]
        with pytest.raises(AttributeError, match=r"asyncio\.ensure_future\(dhaga\)"):
            await asyncio.wait(dhagas)
        done, _ = await asyncio.wait([asyncio.ensure_future(each) for each in dhagas])
        with pytest.raises(TypeError, match="a coroutine was expected"):
            await asyncio.create_task(dhagas[0])
        return sorted(task.result() for task in done)

    assert asyncio.run(main()) == [0, 1]
