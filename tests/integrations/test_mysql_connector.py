"""mysql-connector-python's connections whose sending or reading a cancel or another error from outside interrupts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from dhaga import socket
from tests.kit.interrupts import ERRORS, interrupt

network = pytest.importorskip("mysql.connector.network")

from mysql.connector import OperationalError  # noqa: E402

from dhaga.integrations import _mysql_connector  # noqa: E402


@pytest.fixture
def connection() -> Iterator[Any]:
    _mysql_connector.install()
    connection = network.MySQLTCPSocket("localhost")
    connection.sock, peer = socket.socketpair()
    yield connection
    connection.shutdown()
    peer.close()
    _mysql_connector.uninstall()


@ERRORS
@pytest.mark.parametrize("name", ["send", "recv"])
def test_a_connection_is_closed_if_a_call_is_interrupted(connection: Any, name: str, error: BaseException) -> None:
    arguments = [bytes(5_000_000)] if name == "send" else []  # more than the socket's buffer
    interrupt(error, getattr(connection, name), *arguments)
    assert connection.sock.fileno() == -1
    with pytest.raises(OperationalError):
        connection.send(b"next")
