"""psycopg2's connections in dhagas, in plain threads and in coroutines, with a PostgreSQL that answers."""

from __future__ import annotations

import array
import asyncio
import fcntl
import io
import termios
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import dhaga
from dhaga.pool import Pool
from tests.scenarios.test_asyncio_libraries import address_of

psycopg2 = pytest.importorskip("psycopg2")
extensions = pytest.importorskip("psycopg2.extensions")

from dhaga.integrations import psycopg2 as integration  # noqa: E402

SIZE = 60_000


def bytes_in(fd: int) -> int:
    """Return how many bytes a socket has received and not given out."""
    count = array.array("i", [0])
    fcntl.ioctl(fd, termios.FIONREAD, count)
    return count[0]


@pytest.fixture
def url() -> Iterator[str]:
    address = address_of("DHAGA_POSTGRES", "postgresql://postgres@127.0.0.1:5432/postgres")
    integration.install()
    yield address
    integration.uninstall()


def ask(url: str, question: str) -> Any:
    """Ask over a connection of its own. Returns: the first value of the first row."""
    connection = psycopg2.connect(url)
    try:
        with connection, connection.cursor() as cursor:
            cursor.execute(question)
            return cursor.fetchone()[0]
    finally:
        connection.close()


def test_connections_wait_side_by_side(url: str) -> None:
    asking, most = set[int](), 0

    def count(n: int) -> Any:
        nonlocal most
        asking.add(n)
        most = max(most, len(asking))
        answer = ask(url, f"select {n} from pg_sleep(0.1)")
        asking.remove(n)
        return answer

    def fn() -> list[int]:
        dhagas = [dhaga.spawn(count, n) for n in range(20)]
        return [d.result() for d in dhagas]

    assert dhaga.spawn(fn).result() == list(range(20))
    assert most == 20


def test_what_is_too_big_for_the_socket_is_written_and_read_in_parts(url: str) -> None:
    assert dhaga.spawn(ask, url, f"select '{'x' * 10_000_000}'").result() == "x" * 10_000_000


def test_what_libpq_leaves_in_the_socket_is_not_waited_for(url: str) -> None:
    def fn() -> int:
        connection = psycopg2.connect(url)
        cursor = connection.cursor()
        cursor.execute("select 1")
        query = dhaga.spawn(cursor.execute, f"select repeat('x', {SIZE})")
        dhaga.sleep(0)
        # Blocks the OS thread: the poller learns of the whole answer by one event. libpq first reads 16 kB of it.
        while bytes_in(connection.fileno()) < SIZE:
            pass
        query.result()
        size = len(cursor.fetchone()[0])
        connection.close()
        return size

    assert dhaga.spawn(fn).result() == SIZE


def test_a_connection_that_the_server_has_ended_is_told_by_its_next_query(url: str) -> None:
    def fn() -> int:
        connection, other = psycopg2.connect(url), psycopg2.connect(url)
        other.autocommit = True
        cursor = connection.cursor()
        cursor.execute("select pg_backend_pid()")
        (process,) = cursor.fetchone()
        waiting = dhaga.spawn(other.cursor().execute, "select pg_terminate_backend(%s, 60000)", (process,))
        waiting.result()
        with pytest.raises(psycopg2.OperationalError):
            cursor.execute("select 1")
        # A socket with the number of the one that libpq has closed.
        again = psycopg2.connect(url)
        with again, again.cursor() as cursor:
            cursor.execute("select 4")
            value: int = cursor.fetchone()[0]
        again.close()
        other.close()
        return value

    assert dhaga.spawn(fn).result() == 4


def test_a_connection_moves_between_dhagas_of_several_os_threads(url: str) -> None:
    connection = psycopg2.connect(url)

    def ask_often(n: int) -> list[int]:
        found = []
        for _ in range(20):
            with connection.cursor() as cursor:
                cursor.execute(f"select {n} from pg_sleep(0.001)")
                found.append(cursor.fetchone()[0])
        return found

    with Pool(threads=3, dhagas=2) as pool:
        futures = [pool.submit(ask_often, n) for n in range(6)]
        assert [future.result() for future in futures] == [[n] * 20 for n in range(6)]
    connection.close()


def test_a_dropped_connection_leaves_the_poller_before_its_number_is_given_out_anew(url: str) -> None:
    def fn() -> list[int]:
        found, numbers = [], set()
        for n in range(5):
            connection = psycopg2.connect(url)
            numbers.add(connection.fileno())
            cursor = connection.cursor()
            cursor.execute(f"select {n}")
            found.append(cursor.fetchone()[0])
            del cursor, connection
            assert not numbers & set(dhaga.current().scheduler.poller.watchers)
        assert len(numbers) == 1
        return found

    assert dhaga.spawn(fn).result() == [0, 1, 2, 3, 4]


def test_errors_of_the_server_leave_the_connection_in_use(url: str) -> None:
    def fn() -> int:
        connection = psycopg2.connect(url)
        with pytest.raises(psycopg2.errors.DivisionByZero), connection, connection.cursor() as cursor:
            cursor.execute("select 1 / 0")
        with connection, connection.cursor() as cursor:
            cursor.execute("select 2")
            value: int = cursor.fetchone()[0]
        connection.close()
        return value

    assert dhaga.spawn(fn).result() == 2


def test_a_cancel_ends_the_wait_and_closes_the_connection(url: str) -> None:
    def fn() -> bool:
        connection = psycopg2.connect(url)
        d = dhaga.spawn(lambda: connection.cursor().execute("select pg_sleep(1000)"))
        dhaga.sleep(0.05)
        d.cancel()
        d.join()
        with pytest.raises(dhaga.Cancelled):
            d.result()
        return bool(connection.closed)

    assert dhaga.spawn(fn).result()


def test_another_dhaga_can_have_the_server_cancel_a_query(url: str) -> None:
    def fn() -> int:
        connection = psycopg2.connect(url)
        cursor = connection.cursor()

        def query() -> None:
            with pytest.raises(psycopg2.errors.QueryCanceled):
                cursor.execute("select pg_sleep(1000)")

        d = dhaga.spawn(query)
        while d.is_alive():  # a cancel that comes before the query has begun is lost
            dhaga.sleep(0.1)
            connection.cancel()
            d.join(1)
        d.result()
        connection.rollback()
        cursor.execute("select 3")
        value: int = cursor.fetchone()[0]
        connection.close()
        return value

    assert dhaga.spawn(fn).result() == 3


def test_dhagas_that_share_a_connection_commit_execute_and_fetch_one_after_the_other(url: str) -> None:
    def fn() -> int:
        connection = psycopg2.connect(url)
        answers: list[int] = []

        def execute(n: int) -> None:
            cursor = connection.cursor()
            for _ in range(5):
                cursor.execute(f"select {n} from pg_sleep(0.002)")
                dhaga.sleep(0)
                answers.append(cursor.fetchone()[0])

        def fetch(cursor: Any) -> list[Any]:
            cursor.itersize = 10
            cursor.execute("select generate_series(0, 99)")
            return list(cursor)

        def commit() -> None:
            while others_left():
                connection.commit()
                connection.rollback()
                dhaga.sleep(0.001)

        def others_left() -> bool:
            return any(d.is_alive() for d in executing)

        executing = [dhaga.spawn(execute, n) for n in (1, 2, 3)]
        dhaga.spawn(commit).result()
        for d in executing:
            d.result()
        assert sorted(answers) == [1] * 5 + [2] * 5 + [3] * 5
        named = [dhaga.spawn(fetch, connection.cursor(f"named{n}")) for n in (1, 2)]
        assert [d.result() for d in named] == [[(n,) for n in range(100)]] * 2
        connection.rollback()
        connection.autocommit = True
        sleeper = dhaga.spawn(connection.cursor().execute, "select pg_sleep(0.05)")
        dhaga.sleep(0.01)
        connection.close()  # waits for the query
        sleeper.result()
        return int(connection.closed)

    assert dhaga.spawn(fn).result() == 1


def test_the_programs_own_classes_of_connections_and_cursors_are_asked(url: str) -> None:
    from psycopg2.extras import DictConnection, DictCursor, RealDictCursor

    asked: list[str] = []

    class Own(extensions.connection):  # type: ignore[name-defined]
        def commit(self) -> None:
            asked.append("commit")
            super().commit()

    def rows(cursor: Any) -> list[Any]:
        cursor.execute("select 1 as one")
        return list(cursor)

    def fn() -> None:
        with psycopg2.connect(url, connection_factory=Own) as own:
            assert isinstance(own, Own) and repr(type(own)) == repr(Own)
            assert rows(own.cursor()) == [(1,)] and rows(own.cursor(cursor_factory=RealDictCursor)) == [{"one": 1}]
        assert asked == ["commit"]
        by_name = psycopg2.connect(url, connection_factory=DictConnection)
        assert isinstance(by_name.cursor(), DictCursor) and rows(by_name.cursor())[0]["one"] == 1
        by_function = psycopg2.connect(url, connection_factory=lambda dsn: extensions.connection(dsn))
        assert type(by_function) is extensions.connection and rows(by_function.cursor()) == [(1,)]
        for connection in (own, by_name, by_function):
            connection.close()

    dhaga.spawn(fn).result()


def test_a_coroutine_is_told_when_a_dhaga_uses_the_connection(url: str) -> None:
    async def main() -> None:
        connection = await dhaga.aio.run_in_dhaga(psycopg2.connect, url)
        query = dhaga.spawn(lambda: connection.cursor().execute("select pg_sleep(1000)"))
        while query.state != "WAITING":
            await asyncio.sleep(0.001)
        with pytest.raises(dhaga.ParkError):
            connection.commit()
        query.cancel()
        await dhaga.aio.run_in_dhaga(query.join)
        connection.close()

    asyncio.run(main())


def test_copy_is_refused_rather_than_blocking_all_dhagas(url: str) -> None:
    def fn() -> None:
        connection = psycopg2.connect(url)
        with pytest.raises(psycopg2.ProgrammingError, match="asynchronous callback"):
            connection.cursor().copy_expert("copy (select 1) to stdout", io.StringIO())
        connection.close()

    dhaga.spawn(fn).result()


def test_plain_threads_wait_as_before(url: str) -> None:
    answers: list[int] = []
    threads = [
        threading.Thread(target=lambda n=n: answers.append(ask(url, f"select {n} from pg_sleep(0.1)")))
        for n in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == [0, 1, 2, 3]


def test_a_coroutine_waits_as_before(url: str) -> None:
    async def main() -> Any:
        return ask(url, "select 1 from pg_sleep(0.01)")

    assert asyncio.run(main()) == 1


def test_uninstall_puts_back_what_was_there() -> None:
    def other(connection: Any) -> None: ...

    extensions.set_wait_callback(other)
    integration.install()
    integration.install()
    assert extensions.get_wait_callback() is integration.wait
    assert psycopg2._connect is integration.connect
    integration.uninstall()
    assert psycopg2._connect is integration._standard_connect
    assert extensions.get_wait_callback() is other
    integration.install()
    extensions.set_wait_callback(None)
    integration.uninstall()
    assert extensions.get_wait_callback() is None
