"""pymssql's connections in dhagas and in plain threads, with a server that logs in and answers nothing but success."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

import dhaga
from dhaga.pool import Pool
from tests.integrations.tds import Server
from tests.kit.scripts import PATIENCE, prints

pymssql = pytest.importorskip("pymssql")

from dhaga.integrations import pymssql as integration  # noqa: E402

FEW = 10


@pytest.fixture(autouse=True)
def installed() -> Iterator[None]:
    integration.install()
    yield
    integration.uninstall()


def connect(port: int) -> Any:
    return pymssql.connect(server="127.0.0.1", port=port, user="u", password="p", autocommit=True)


def execute(port: int) -> str:
    """Execute a batch that the server answers once all clients have sent theirs."""
    connection = connect(port)
    connection.cursor().execute("MEET")
    connection.close()
    return "answered"


def meeting_of(clients: int) -> Server:
    """Return a server that answers batches with MEET once so many have come."""
    barrier = threading.Barrier(clients)
    return Server(lambda batch: barrier.wait(PATIENCE) if "MEET" in batch else None)


def test_connections_wait_side_by_side() -> None:
    with meeting_of(FEW) as server, Pool(dhagas=FEW) as pool:
        assert list(pool.map(execute, [server.port] * FEW)) == ["answered"] * FEW


def test_a_connect_parks_while_the_server_is_silent() -> None:
    silence = threading.Event()
    with Server(lambda batch: silence.wait(PATIENCE) if batch == "LOGIN" else None) as server:
        connecting = dhaga.spawn(connect, server.port)
        while connecting.reason != "offload":
            dhaga.sleep(0)
        silence.set()
        connecting.result().close()


def test_a_timeout_ends_the_wait() -> None:
    silence = threading.Event()
    with Server(lambda batch: silence.wait(PATIENCE) if "WAIT" in batch else None) as server:
        connection = connect(server.port)
        with pytest.raises(TimeoutError), dhaga.Timeout(0.05):
            connection.cursor().execute("WAIT")
        silence.set()
        connection.close()


def test_a_plain_thread_blocks_as_before() -> None:
    answers: list[Any] = []
    with meeting_of(1) as server:
        thread = threading.Thread(target=lambda: answers.append(execute(server.port)))
        thread.start()
        thread.join()
    assert answers == ["answered"]


def test_a_callback_of_another_package_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    integration.uninstall()
    called: list[int] = []
    pymssql.set_wait_callback(called.append)
    integration.install()
    with meeting_of(1) as server:
        execute(server.port)
    integration.uninstall()
    assert called
    pymssql.set_wait_callback(None)


def test_the_patch_installs_it_at_the_import() -> None:
    assert prints("""
    import dhaga.monkey
    dhaga.monkey.patch()
    import pymssql
    from pymssql import _mssql
    print(pymssql.connect.__wrapped__.__module__, _mssql.wait_callback.__module__)
    dhaga.monkey.unpatch()
    print(_mssql.wait_callback, hasattr(pymssql.connect, "__wrapped__"))
    """) == ["pymssql._pymssql dhaga.integrations.pymssql", "None False"]
