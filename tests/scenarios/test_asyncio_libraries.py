"""Libraries of asyncio called as if they were blocking, by thousands of dhagas, on asyncio's loop and on uvloop."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pathlib
import socket
import urllib.parse
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import dhaga
from dhaga import await_
from dhaga.aio import aiter_, enter, run_in_dhaga

pytestmark = pytest.mark.once

aiohttp = pytest.importorskip("aiohttp")
web = pytest.importorskip("aiohttp.web")
asyncpg = pytest.importorskip("asyncpg")
redis = pytest.importorskip("redis.asyncio")
sqlalchemy = pytest.importorskip("sqlalchemy")
pytest.importorskip("aiosqlite")
orm = pytest.importorskip("sqlalchemy.orm")
asyncio_of_sqlalchemy = pytest.importorskip("sqlalchemy.ext.asyncio")

DHAGAS = {"asyncio": 2000, "uvloop": 200}
CONNECTIONS = 20


def address_of(variable: str, default: str) -> str:
    """Return the address of a service. Skips the test if the service does not answer."""
    address = os.environ.get(variable, default)
    place = urllib.parse.urlsplit(address)
    try:
        socket.create_connection((place.hostname or "127.0.0.1", place.port or 0), timeout=5).close()
    except OSError as error:
        pytest.skip(f"{variable}: nobody answers at {address}: {error}")
    return address


@pytest.fixture
def postgres() -> str:
    return address_of("DHAGA_POSTGRES", "postgresql://postgres@127.0.0.1:5432/postgres")


@pytest.fixture
def redis_url() -> str:
    return address_of("DHAGA_REDIS", "redis://127.0.0.1:6379/0")


@pytest.fixture(params=["asyncio", "uvloop"])
def call(request: pytest.FixtureRequest) -> Iterator[Callable[[Callable[[], Any]], Any]]:
    """Calls a function in a dhaga of a scheduler on the loop."""
    loop = asyncio.new_event_loop() if request.param == "asyncio" else pytest.importorskip("uvloop").new_event_loop()
    with dhaga.Scheduler(request.param, loop=loop) as scheduler:
        yield lambda fn: scheduler.spawn(fn).result()


def results_of(fn: Callable[[int], Any], count: int | None = None) -> list[Any]:
    """Call ``fn`` in each of a crowd of dhagas, with the dhaga's number. Returns: the results."""
    if count is None:
        count = DHAGAS[dhaga.current().scheduler.name]
    dhagas = [dhaga.spawn(fn, n) for n in range(count)]
    return [d.result() for d in dhagas]


# ---- asyncpg


def test_asyncpg_from_thousands_of_dhagas(call: Any, postgres: str) -> None:
    def fn() -> None:
        with enter(lambda: asyncpg.create_pool(postgres, min_size=1, max_size=CONNECTIONS)) as pool:

            def works(n: int) -> tuple[int, int]:
                with enter(pool.acquire()) as connection:
                    return tuple(await_(connection.fetchrow("select $1::int + 1, pg_backend_pid()", n)))

            rows = results_of(works)
            assert [value for value, _ in rows] == [n + 1 for n in range(len(rows))]
            assert 1 < len({pid for _, pid in rows}) <= CONNECTIONS
            assert results_of(lambda n: await_(pool.fetchval("select $1::int", n)), 100) == list(range(100))

    call(fn)


def test_asyncpg_transactions_cursors_and_cancels(call: Any, postgres: str) -> None:
    def fn() -> None:
        connection = await_(asyncpg.connect(postgres), timeout=30)
        await_(connection.execute("create temporary table numbers (n int)"))
        with enter(connection.transaction()):
            await_(connection.executemany("insert into numbers values ($1)", [(n,) for n in range(100)]))
        with pytest.raises(ValueError), enter(connection.transaction()):
            await_(connection.execute("delete from numbers"))
            raise ValueError
        with enter(connection.transaction()):
            rows = aiter_(connection.cursor("select n from numbers order by n", prefetch=10))
            assert [row["n"] for row in rows] == list(range(100))

        def deletes() -> None:
            with enter(connection.transaction()):
                await_(connection.execute("delete from numbers"))
                deleted.append(True)
                dhaga.sleep(1000)

        deleted: list[bool] = []
        d = dhaga.spawn(deletes)
        while not deleted:
            dhaga.sleep(0.001)
        d.cancel()
        d.join()
        with pytest.raises(TimeoutError):
            await_(connection.execute("select pg_sleep(1000)"), timeout=0.05)
        with pytest.raises(TimeoutError), enter(lambda: asyncio.timeout(0.05)):
            await_(connection.execute("select pg_sleep(1000)"))
        assert await_(connection.fetchval("select count(*) from numbers")) == 100
        await_(connection.close())

    call(fn)


def test_cancelled_dhagas_give_their_asyncpg_connections_back(call: Any, postgres: str) -> None:
    def fn() -> None:
        with enter(lambda: asyncpg.create_pool(postgres, min_size=2, max_size=2)) as pool:

            def works(n: int) -> None:
                with enter(pool.acquire()) as connection:
                    await_(connection.execute("select pg_sleep(1000)"))

            for round in range(3):
                dhagas = [dhaga.spawn(works, n) for n in range(6)]
                dhaga.sleep(0.02 * round)
                for d in dhagas:
                    d.cancel()
                for d in dhagas:
                    d.join()
            assert pool.get_idle_size() == 2
            assert await_(pool.fetchval("select 1")) == 1

    call(fn)


# ---- redis


def test_redis_from_thousands_of_dhagas(call: Any, redis_url: str) -> None:
    def fn() -> None:
        pool = redis.BlockingConnectionPool.from_url(redis_url, max_connections=CONNECTIONS, timeout=None)
        with enter(redis.Redis(connection_pool=pool)) as client:
            key = f"dhaga:{os.getpid()}:{id(pool)}"

            def works(n: int) -> int:
                return int(await_(client.echo(str(n))))

            def works_in_a_pipeline(n: int) -> int:
                with enter(client.pipeline(transaction=True)) as pipeline:
                    pipeline.incrby(f"{key}:sum", n).set(f"{key}:{n}", n).get(f"{key}:{n}").delete(f"{key}:{n}")
                    return int(await_(pipeline.execute())[2])

            numbers = results_of(works)
            assert numbers == list(range(len(numbers)))
            assert results_of(works_in_a_pipeline, 100) == list(range(100))
            assert int(await_(client.getdel(f"{key}:sum"))) == sum(range(100))
        await_(pool.disconnect())

    call(fn)


def test_redis_subscriptions_are_iterated_over(call: Any, redis_url: str) -> None:
    def fn() -> None:
        with enter(redis.Redis.from_url(redis_url)) as client, enter(client.pubsub()) as subscription:
            channel = f"dhaga:{os.getpid()}:channel"
            await_(subscription.subscribe(channel))
            publisher = dhaga.spawn(lambda: [await_(client.publish(channel, str(n))) for n in range(10)])
            seen = []
            for message in aiter_(subscription.listen(), timeout=30):
                if message["type"] == "message":
                    seen.append(int(message["data"]))
                if len(seen) == 10:
                    break
            publisher.join()
            assert seen == list(range(10))

    call(fn)


# ---- aiohttp


def test_aiohttp_client_and_server_with_thousands_of_dhagas(call: Any) -> None:
    """The server's handlers are coroutines that call dhagas, its clients dhagas that call coroutines."""

    def answers(number: int) -> str:
        dhaga.sleep(0.001)
        return str(number + 1)

    async def handler(request: Any) -> Any:
        return web.Response(text=await run_in_dhaga(answers, int(request.match_info["number"])))

    @contextlib.contextmanager
    def server() -> Iterator[str]:
        app = web.Application()
        app.router.add_get("/{number}", handler)
        runner = web.AppRunner(app, access_log=None)
        await_(runner.setup())
        try:
            await_(web.TCPSite(runner, "127.0.0.1", 0).start())
            yield "http://{}:{}".format(*runner.addresses[0])
        finally:
            await_(runner.cleanup())

    def fn() -> None:
        def client() -> Any:
            connector = aiohttp.TCPConnector(limit=CONNECTIONS)
            return aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=60))

        with server() as url, enter(client) as session:

            def works(n: int) -> int:
                with enter(session.get(f"{url}/{n}")) as response:
                    assert response.status == 200
                    return int(await_(response.text()))

            numbers = results_of(works)
            assert numbers == [n + 1 for n in range(len(numbers))]

    call(fn)


def test_aiohttps_own_timeouts_are_raised_in_the_dhaga(call: Any) -> None:
    async def never(reader: Any, writer: Any) -> None:
        await reader.read()
        writer.close()

    def fn() -> None:
        server = await_(asyncio.start_server(never, "127.0.0.1", 0))
        url = "http://{}:{}".format(*server.sockets[0].getsockname())
        with enter(lambda: aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=0.05))) as session:
            with pytest.raises(TimeoutError), enter(session.get(url)):
                raise AssertionError("it has answered")
            with pytest.raises(TimeoutError):
                await_(session.get(url, timeout=aiohttp.ClientTimeout(total=1000)), timeout=0.05)
        server.close()
        await_(server.wait_closed())

    call(fn)


# ---- SQLAlchemy


class Model(orm.DeclarativeBase):  # type: ignore[name-defined]
    pass


class Parent(Model):
    __tablename__ = f"dhaga_parent_{os.getpid()}"
    number = sqlalchemy.Column(sqlalchemy.Integer, primary_key=True)
    children = orm.relationship("Child", order_by="Child.number")


class Child(Model):
    __tablename__ = f"dhaga_child_{os.getpid()}"
    number = sqlalchemy.Column(sqlalchemy.Integer, primary_key=True)
    parent = sqlalchemy.Column(sqlalchemy.ForeignKey(Parent.number))


@pytest.fixture(params=["asyncpg", "aiosqlite"])
def url(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> str:
    if request.param == "aiosqlite":
        return f"sqlite+aiosqlite:///{tmp_path}/data"
    address: str = request.getfixturevalue("postgres")
    return address.replace("postgresql://", "postgresql+asyncpg://", 1)


def test_sqlalchemys_ordinary_session_works_in_dhagas(call: Any, url: str) -> None:
    count = 20 if "sqlite" in url else 100

    def fn() -> None:
        asynchronous = asyncio_of_sqlalchemy.create_async_engine(url, pool_size=5, max_overflow=0, pool_timeout=60)
        engine = asynchronous.sync_engine
        Model.metadata.create_all(engine)
        try:

            def works(n: int) -> list[int]:
                with orm.Session(engine) as session:
                    session.add(Parent(number=n, children=[Child(number=2 * n), Child(number=2 * n + 1)]))
                    session.commit()
                    parent = session.get(Parent, n)
                    return [child.number for child in parent.children]  # a lazy load

            assert results_of(works, count) == [[2 * n, 2 * n + 1] for n in range(count)]
            with orm.Session(engine) as session:
                assert session.scalar(sqlalchemy.select(sqlalchemy.func.count(Child.number))) == 2 * count
        finally:
            Model.metadata.drop_all(engine)
            engine.dispose()

    call(fn)


def test_a_cancel_in_a_session_rolls_back_and_gives_the_connection_back(call: Any, url: str) -> None:
    def fn() -> None:
        engine = asyncio_of_sqlalchemy.create_async_engine(url, pool_size=1, max_overflow=0).sync_engine
        Model.metadata.create_all(engine)
        inserted: list[int] = []
        try:

            def works() -> None:
                with orm.Session(engine) as session:
                    session.add(Parent(number=1))
                    session.flush()
                    inserted.append(1)
                    dhaga.sleep(1000)

            d = dhaga.spawn(works)
            while not inserted:
                dhaga.sleep(0.001)
            d.cancel()
            d.join()
            with orm.Session(engine) as session:
                assert session.get(Parent, 1) is None
            waits = dhaga.spawn(lambda: engine.connect().close())
            with engine.connect():
                dhaga.sleep(0.01)
                waits.cancel()
                waits.join()
            engine.connect().close()
        finally:
            Model.metadata.drop_all(engine)
            engine.dispose()

    call(fn)


def test_sqlalchemys_own_greenlets_and_dhagas_keep_out_of_each_others_way(call: Any, tmp_path: pathlib.Path) -> None:
    """An AsyncSession in a coroutine that a dhaga awaits; parking in its greenlet is refused."""
    engine = asyncio_of_sqlalchemy.create_async_engine(f"sqlite+aiosqlite:///{tmp_path}/data")

    def parks(session: Any) -> int:
        with pytest.raises(dhaga.ParkError, match="run_in_dhaga"):
            dhaga.sleep(1)
        return int(session.scalar(sqlalchemy.text("select 2")))

    async def coroutine() -> list[Any]:
        async with asyncio_of_sqlalchemy.AsyncSession(engine) as session:
            return [await session.scalar(sqlalchemy.text("select 1")), await session.run_sync(parks)]

    def fn() -> list[Any]:
        with orm.Session(engine.sync_engine) as session:
            seen = [*await_(coroutine()), session.scalar(sqlalchemy.text("select 3"))]
        await_(engine.dispose())
        return seen

    assert call(fn) == [1, 2, 3]
