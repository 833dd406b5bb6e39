"""The hooks of psycopg (3): installed once, and taken back; and a connection whose query is interrupted."""

from __future__ import annotations

import pytest

from tests.kit.scripts import prints
from tests.scenarios.test_asyncio_libraries import address_of

waiting = pytest.importorskip("psycopg.waiting")

from psycopg import Connection  # noqa: E402

from dhaga.integrations import psycopg  # noqa: E402


def test_install_has_connections_wait_by_poll_and_uninstall_puts_back_what_was_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before, method = object(), vars(Connection)["wait"]
    monkeypatch.setattr(waiting, "wait", before)
    psycopg.install()
    psycopg.install()  # once is enough: what was there before is not forgotten
    assert waiting.wait is waiting.wait_poll
    assert vars(Connection)["wait"] is not method
    psycopg.uninstall()
    assert waiting.wait is before
    assert vars(Connection)["wait"] is method
    psycopg.uninstall()
    assert waiting.wait is before


def test_a_connection_whose_query_a_deadline_or_a_cancel_interrupts_is_closed() -> None:
    address = address_of("DHAGA_POSTGRES", "postgresql://postgres@127.0.0.1:5432/postgres")
    # The queries wait for a lock, not for a time: they end when the holder's connection is closed.
    assert prints(f"""
        import random
        from dhaga import monkey
        monkey.patch()
        import dhaga, psycopg
        from psycopg.pq import TransactionStatus

        query = f"select pg_advisory_lock({{random.getrandbits(60)}})"
        holder = psycopg.connect({address!r}, autocommit=True)
        holder.execute(query)

        connection = psycopg.connect({address!r}, autocommit=True)
        try:
            with dhaga.Timeout(0.1):
                connection.execute(query)
        except TimeoutError:
            print(connection.closed, connection.broken)
        try:
            connection.execute("select 1")
        except psycopg.OperationalError as error:
            print(error)

        connection = psycopg.connect({address!r}, autocommit=True)
        caller = dhaga.spawn(connection.execute, query)
        while connection.pgconn.transaction_status != TransactionStatus.ACTIVE:
            dhaga.sleep(0.01)
        caller.cancel()
        caller.join()
        print(connection.closed, connection.broken)

        connection = psycopg.connect({address!r}, autocommit=True)
        try:
            connection.execute("select 1 / 0")
        except psycopg.errors.DivisionByZero:
            print(connection.execute("select 2").fetchone())
        connection.close()
        holder.close()
    """) == ["True True", "the connection is closed", "True True", "(2,)"]
