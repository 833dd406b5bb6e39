"""Snowflake's connector in dhagas and in plain threads, with a server that accepts connections and never answers."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

import dhaga
from dhaga import socket as ours
from dhaga.testing import virtual_clock
from tests.kit.scripts import prints

connector = pytest.importorskip("snowflake.connector")

from dhaga.integrations import snowflake as integration  # noqa: E402

pytestmark = [
    pytest.mark.filterwarnings("ignore:enable_server_session_keep_alive:FutureWarning"),
    pytest.mark.logs,  # the core reports proxies of the environment, and logins that have failed
]

FEW = 10
LONG = 60
Transport = integration.ProtoTransport


@pytest.fixture(autouse=True)
def installed() -> Iterator[None]:
    integration.install()
    yield
    integration.uninstall()


@pytest.fixture
def listener() -> Iterator[Any]:
    with ours.create_server(("127.0.0.1", 0)) as listener:
        yield listener


def connect(listener: Any, seconds: int = LONG) -> Any:
    return connector.connect(
        user="scott",
        password="tiger",
        account="shop",
        host="127.0.0.1",
        port=listener.getsockname()[1],
        protocol="http",
        login_timeout=seconds,
    )


def test_connections_wait_side_by_side_and_a_cancel_ends_each(listener: Any) -> None:
    waiting = [dhaga.spawn(connect, listener) for _ in range(FEW)]
    accepted = [listener.accept()[0] for _ in range(FEW)]
    for each in waiting:
        each.cancel()
    for each in waiting:
        with pytest.raises(dhaga.Cancelled):
            each.result()
    for client in accepted:
        client.close()


def test_a_timeout_ends_the_wait(listener: Any) -> None:
    with pytest.raises(TimeoutError), dhaga.Timeout(0.05):
        connect(listener)


def test_a_limit_of_the_connector_is_its_own_error(listener: Any) -> None:
    with pytest.raises(connector.errors.Error):
        connect(listener, seconds=1)


def test_a_virtual_clock_stands_still_meanwhile(listener: Any) -> None:
    with virtual_clock(), dhaga.Timeout(LONG), pytest.raises(connector.errors.Error):
        connect(listener, seconds=1)


def test_a_local_call_does_not_park(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[str] = []
    monkeypatch.setattr(integration, "_standard_handle_message", lambda *args: called.append(args[2]) or (0, b""))
    with dhaga.no_park():
        Transport().handle_message("DatabaseDriver", "result_set_release", b"")
    assert called == ["result_set_release"]


def test_a_plain_thread_blocks_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[str] = []
    monkeypatch.setattr(integration, "_standard_handle_message", lambda *args: called.append(args[2]) or (0, b""))
    thread = threading.Thread(target=Transport().handle_message, args=("DatabaseDriver", "connection_init", b""))
    thread.start()
    thread.join()
    assert called == ["connection_init"]


def test_uninstall_restores_the_method() -> None:
    assert Transport.handle_message is integration.handle_message
    integration.uninstall()
    assert Transport.handle_message.__module__ == Transport.__module__
    assert not hasattr(Transport.handle_message, "__wrapped__")


def test_the_patch_installs_it_at_the_import() -> None:
    assert prints("""
    import dhaga.monkey
    dhaga.monkey.patch()
    import snowflake.connector
    from snowflake.connector._internal.api_client.bridge import ProtoTransport
    print(hasattr(ProtoTransport.handle_message, "__wrapped__"))
    dhaga.monkey.unpatch()
    print(hasattr(ProtoTransport.handle_message, "__wrapped__"))
    """) == ["True", "False"]
