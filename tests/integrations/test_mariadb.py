"""The connections of MariaDB Connector/Python in dhagas and in plain threads, with a MariaDB that answers.

The package has no wheel: it is built with the headers of MariaDB Connector/C, so CI leaves these tests out.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

import dhaga
from dhaga.pool import Pool
from tests.integrations.mariadb_server import LOST, connection_options
from tests.kit.scripts import prints

mariadb = pytest.importorskip("mariadb")

from dhaga.integrations import mariadb as integration  # noqa: E402

FEW = 10


@pytest.fixture
def options() -> Iterator[dict[str, Any]]:
    """What connects to the server, with the integration installed."""
    connects = connection_options()
    integration.install()
    yield connects
    integration.uninstall()


def ask(connection: Any, question: str, *values: Any, **options: Any) -> Any:
    """Return the first value of the first row."""
    cursor = connection.cursor(**options)
    cursor.execute(question, values)
    return cursor.fetchone()[0]


@pytest.mark.parametrize("binary", [False, True], ids=["text", "binary"])
def test_connections_wait_side_by_side(options: dict[str, Any], binary: bool) -> None:
    asking, most = 0, 0

    def count(n: int) -> Any:
        nonlocal asking, most
        with mariadb.connect(**options) as connection:
            asking += 1
            most = max(most, asking)
            while most < FEW:
                ask(connection, "SELECT SLEEP(?)", 0.02, binary=binary)
            return ask(connection, "SELECT ?", n, binary=binary)

    with Pool(dhagas=FEW) as pool:
        assert sorted(pool.map(count, range(FEW))) == list(range(FEW))


def test_a_dhaga_runs_while_another_makes_a_call_without_halves(options: dict[str, Any]) -> None:
    turns = 0

    def beat() -> None:
        nonlocal turns
        while True:
            turns += 1
            dhaga.sleep(0)

    beating = dhaga.spawn(beat, daemon=True)
    connection = mariadb.connect(**options)
    connection.cursor().execute("CREATE TEMPORARY TABLE dhaga_rows (n INT)")
    for call in (
        connection.ping,
        lambda: connection.cursor().executemany("INSERT INTO dhaga_rows VALUES (?)", [(1,), (2,)]),
        lambda: ask(connection, f"SELECT LENGTH('{'x' * (2 * integration.LONG_QUERY)}')"),
        lambda: mariadb.connect(**options).close(),
        connection.reset,
    ):
        before = turns
        call()
        assert turns > before
    connection.close()
    beating.cancel()
    beating.join()


def test_transactions_end_as_they_would_without(options: dict[str, Any]) -> None:
    with mariadb.connect(**options) as connection:
        cursor = connection.cursor()
        cursor.execute("CREATE TEMPORARY TABLE dhaga_numbers (n INT) ENGINE=InnoDB")
        for n, end in ((1, connection.commit), (2, connection.rollback)):
            cursor.execute("INSERT INTO dhaga_numbers VALUES (?)", (n,))
            end()
        connection.autocommit = True
        cursor.execute("INSERT INTO dhaga_numbers VALUES (3)")
        connection.rollback()
        cursor.execute("SELECT n FROM dhaga_numbers")
        assert cursor.fetchall() == [(1,), (3,)]


def test_further_results_are_read(options: dict[str, Any]) -> None:
    with mariadb.connect(**options) as connection:
        connection.cursor().execute("DROP PROCEDURE IF EXISTS dhaga_two")
        connection.cursor().execute("CREATE PROCEDURE dhaga_two() BEGIN SELECT 1; SELECT 2; END")
        cursor = connection.cursor()
        cursor.callproc("dhaga_two")
        assert cursor.fetchall() == [(1,)]
        assert cursor.nextset()
        assert cursor.fetchall() == [(2,)]
        cursor.close()
        connection.cursor().execute("DROP PROCEDURE dhaga_two")


def test_an_error_of_the_server_leaves_the_connection_usable(options: dict[str, Any]) -> None:
    with mariadb.connect(**options) as connection:
        with pytest.raises(mariadb.ProgrammingError):
            ask(connection, "SELECT nonsense(")
        assert ask(connection, "SELECT 1") == 1


def test_a_timeout_cuts_the_connection_off(options: dict[str, Any]) -> None:
    connection = mariadb.connect(**options)
    with pytest.raises(TimeoutError), dhaga.Timeout(0.05):
        ask(connection, "SELECT SLEEP(60)")
    with pytest.raises(mariadb.Error) as raised:
        ask(connection, "SELECT 1")
    assert raised.value.errno in LOST
    connection.close()


def test_read_timeout_is_the_librarys_error(options: dict[str, Any]) -> None:
    connection = mariadb.connect(**options, read_timeout=1)
    with pytest.raises(mariadb.Error) as raised:
        ask(connection, "SELECT SLEEP(60)")
    assert raised.value.errno in LOST
    connection.close()


def test_a_plain_thread_blocks_as_before(options: dict[str, Any]) -> None:
    answers: list[Any] = []

    def work() -> None:
        with mariadb.connect(**options) as connection:
            answers.append(ask(connection, "SELECT 1"))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert answers == [1]


def test_uninstall_restores_the_classes(options: dict[str, Any]) -> None:
    assert all(vars(owner)[name] is method for (owner, name), method in integration.METHODS.items())
    integration.uninstall()
    left = {name for (owner, name), method in integration.METHODS.items() if vars(owner).get(name)}
    assert left == {"__init__"}
    assert mariadb.Connection.__init__ is integration._standard_init


def test_the_patch_installs_it_at_the_import() -> None:
    assert prints("""
    import dhaga.monkey
    dhaga.monkey.patch()
    import mariadb
    print(mariadb.Connection.__init__.__module__)
    dhaga.monkey.unpatch()
    print(mariadb.Connection.__init__.__module__)
    """) == ["dhaga.integrations.mariadb", "mariadb.connections"]
