"""PyMySQL's connections whose sending a deadline interrupts."""

from __future__ import annotations

import pytest

from tests.kit.scripts import prints

pytest.importorskip("pymysql")


def test_a_connection_is_closed_if_a_deadline_interrupts_the_sending_of_a_query() -> None:
    assert prints("""
        from dhaga import monkey
        monkey.patch()
        import dhaga, pymysql, socket

        connection = pymysql.Connection(defer_connect=True)
        connection._sock, silent = socket.socketpair()
        connection._closed, connection._current_timeout = False, None
        try:
            with dhaga.Timeout(0.05):
                connection._write_bytes(bytes(20_000_000))  # more than the socket's buffer
        except TimeoutError:
            print(connection.open)
        try:
            connection.query("select 1")
        except pymysql.InterfaceError:
            print("refused")
        monkey.unpatch()
        print(pymysql.Connection._write_bytes.__globals__["__name__"])
    """) == ["False", "refused", "pymysql.connections"]
