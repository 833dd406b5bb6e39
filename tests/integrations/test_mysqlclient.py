"""mysqlclient's connections in dhagas and in plain threads, with a MariaDB that answers."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

import dhaga
from dhaga.pool import Pool
from tests.integrations.mariadb_server import LOST, connection_options
from tests.kit.scripts import prints

MySQLdb = pytest.importorskip("MySQLdb")
connections = pytest.importorskip("MySQLdb.connections")

from dhaga.integrations import mysqlclient as integration  # noqa: E402

FEW = 10


@pytest.fixture
def options() -> Iterator[dict[str, Any]]:
    """What connects to the server, with the integration installed."""
    connects = connection_options()
    integration.install()
    yield connects
    integration.uninstall()


def ask(options: dict[str, Any], question: str) -> Any:
    """Ask over a connection of its own. Returns: the first value of the first row."""
    with MySQLdb.connect(**options) as connection:
        cursor = connection.cursor()
        cursor.execute(question)
        return cursor.fetchone()[0]


def test_connections_wait_side_by_side(options: dict[str, Any]) -> None:
    asking, most = 0, 0

    def count(n: int) -> Any:
        nonlocal asking, most
        with MySQLdb.connect(**options) as connection:
            cursor = connection.cursor()
            asking += 1
            most = max(most, asking)
            while most < FEW:
                cursor.execute("SELECT SLEEP(0.02)")
                cursor.fetchall()
            cursor.execute("SELECT %s", [n])
            return cursor.fetchone()[0]

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
    connection = MySQLdb.connect(**options)
    cursor = connection.cursor()
    cursor.execute("SELECT 1; SELECT 2")
    for call in (
        cursor.nextset,
        connection.ping,
        lambda: connection.select_db(options["database"]),
        connection.stat,
        lambda: cursor.execute("SELECT LENGTH(%s)", ["x" * (2 * integration.LONG_QUERY)]),
        lambda: MySQLdb.connect(**options).close(),
    ):
        before = turns
        call()
        assert turns > before
    assert cursor.fetchone() == (2 * integration.LONG_QUERY,)
    connection.close()
    beating.cancel()
    beating.join()


def test_transactions_end_as_they_would_without(options: dict[str, Any]) -> None:
    with MySQLdb.connect(**options) as connection:
        cursor = connection.cursor()
        cursor.execute("CREATE TEMPORARY TABLE dhaga_numbers (n INT) ENGINE=InnoDB")
        for n, end in ((1, connection.commit), (2, connection.rollback)):
            cursor.execute("INSERT INTO dhaga_numbers VALUES (%s)", [n])
            end()
        assert not connection.get_autocommit()
        connection.autocommit(True)
        assert connection.get_autocommit()
        cursor.execute("INSERT INTO dhaga_numbers VALUES (3)")
        connection.rollback()
        cursor.execute("SELECT n FROM dhaga_numbers")
        assert cursor.fetchall() == ((1,), (3,))


def test_an_error_of_the_server_leaves_the_connection_usable(options: dict[str, Any]) -> None:
    with MySQLdb.connect(**options) as connection:
        cursor = connection.cursor()
        with pytest.raises(MySQLdb.ProgrammingError):
            cursor.execute("SELECT nonsense(")
        cursor.execute("SELECT 1")
        assert cursor.fetchall() == ((1,),)


def test_a_timeout_cuts_the_connection_off(options: dict[str, Any]) -> None:
    connection = MySQLdb.connect(**options)
    with pytest.raises(TimeoutError), dhaga.Timeout(0.05):
        connection.cursor().execute("SELECT SLEEP(60)")
    with pytest.raises(MySQLdb.OperationalError) as raised:
        connection.cursor().execute("SELECT 1")
    assert raised.value.args[0] in LOST
    connection.close()


def test_read_timeout_is_the_librarys_error(options: dict[str, Any]) -> None:
    connection = MySQLdb.connect(**options, read_timeout=1)
    with pytest.raises(MySQLdb.OperationalError) as raised:
        connection.cursor().execute("SELECT SLEEP(60)")
    assert raised.value.args[0] in LOST
    connection.close()


def test_a_plain_thread_blocks_as_before(options: dict[str, Any]) -> None:
    answers: list[Any] = []
    thread = threading.Thread(target=lambda: answers.append(ask(options, "SELECT 1")))
    thread.start()
    thread.join()
    assert answers == [1]


def test_uninstall_restores_the_class(options: dict[str, Any]) -> None:
    with_ours = dict(vars(connections.Connection))
    integration.uninstall()
    standard = dict(vars(connections.Connection))
    assert {name for name in integration.METHODS if with_ours[name] is integration.METHODS[name]} == {
        *integration.METHODS
    }
    assert "commit" not in standard
    assert standard["query"].__module__ == "MySQLdb.connections"


def test_the_patch_installs_it_at_the_import() -> None:
    assert prints("""
    import dhaga.monkey
    dhaga.monkey.patch()
    import MySQLdb.connections
    print(MySQLdb.connections.Connection.query.__module__)
    dhaga.monkey.unpatch()
    print(MySQLdb.connections.Connection.query.__module__)
    """) == ["dhaga.integrations.mysqlclient", "MySQLdb.connections"]
