"""python-ldap's connections in dhagas and in plain threads, with a server that speaks as much of LDAP as a bind needs.

The package has no wheel: it is built with the headers of OpenLDAP and Cyrus SASL, so CI leaves these tests out.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import pytest

import dhaga
from dhaga.pool import Pool
from tests.kit.scripts import PATIENCE, prints

ldap = pytest.importorskip("ldap")

from dhaga.integrations import ldap as integration  # noqa: E402
from dhaga.integrations._cut_off import cut_off  # noqa: E402

FEW = 10
BIND = 0x60
BOUND = bytes.fromhex("61070a010004000400")
"""The answer to a bind: success."""


@pytest.fixture(autouse=True)
def installed() -> Iterator[None]:
    integration.install()
    yield
    integration.uninstall()


@contextmanager
def server(answer: Callable[[int], object]) -> Iterator[str]:
    """Serve on plain threads; ``answer``: called with the message's number before each bind is answered."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        threads = [threading.Thread(target=accept, args=(listener, answer))]
        threads[0].start()
        yield f"ldap://127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
        threads[0].join()


def accept(listener: socket.socket, answer: Callable[[int], object]) -> None:
    threads = []
    with suppress(OSError):  # shut down
        while True:
            client, _ = listener.accept()
            threads.append(threading.Thread(target=serve, args=(client, answer)))
            threads[-1].start()
    for thread in threads:
        thread.join()


def serve(client: socket.socket, answer: Callable[[int], object]) -> None:
    """Answer the binds of a client; other requests get no answer. Each is shorter than 128 bytes."""
    with client, client.makefile("rb") as file, suppress(ConnectionError):
        while head := file.read(2):
            body = file.read(head[1])
            if body[3] == BIND:
                answer(body[2])
                client.sendall(bytes([0x30, 3 + len(BOUND), 2, 1, body[2]]) + BOUND)


def bind(url: str) -> Any:
    connection = ldap.initialize(url)
    connection.simple_bind_s("cn=scott", "tiger")
    return connection


def test_connections_wait_side_by_side() -> None:
    together = threading.Barrier(FEW)
    with server(lambda _: together.wait(PATIENCE)) as url, Pool(dhagas=FEW) as pool:
        for connection in pool.map(bind, [url] * FEW):
            connection.unbind_s()


def test_a_dhaga_runs_while_another_connects() -> None:
    order: list[str] = []
    with server(lambda _: None) as url:
        connection = ldap.initialize(url)
        other = dhaga.spawn(order.append, "other")
        connection.simple_bind("cn=scott", "tiger")
        order.append("sent")
        other.join()
        connection.unbind_s()
    assert order == ["other", "sent"]


def test_dhagas_share_a_connection_one_after_the_other() -> None:
    with server(lambda _: None) as url:
        connection = bind(url)
        with Pool(dhagas=FEW) as pool:
            results = list(pool.map(lambda n: connection.simple_bind_s(f"cn={n}", "tiger"), range(FEW)))
        assert sorted(result[2] for result in results) == list(range(2, FEW + 2))
        connection.unbind_s()


def test_a_connection_can_be_used_after_a_timeout() -> None:
    silence = threading.Event()
    with server(lambda message: silence.wait(PATIENCE) if message == 2 else None) as url:
        connection = bind(url)
        with pytest.raises(TimeoutError), dhaga.Timeout(0.05):
            connection.simple_bind_s("cn=silent", "tiger")
        silence.set()
        assert connection.simple_bind_s("cn=scott", "tiger")[0] == ldap.RES_BIND
        connection.unbind_s()


def test_a_timeout_of_the_library_is_its_own_error() -> None:
    with server(lambda _: None) as url:
        connection = bind(url)
        request = connection.search("dc=shop", ldap.SCOPE_BASE)
        assert connection.result(request, timeout=0) == (None, None)
        with pytest.raises(ldap.TIMEOUT):
            connection.result(request, timeout=0.05)
        connection.unbind_s()


def test_a_lost_server_is_the_librarys_error() -> None:
    with server(lambda _: None) as url:
        connection = bind(url)
        cut_off(connection.fileno())
        with pytest.raises(ldap.SERVER_DOWN):
            connection.search_s("dc=shop", ldap.SCOPE_BASE)


def test_a_plain_thread_blocks_as_before() -> None:
    bound: list[Any] = []
    with server(lambda _: None) as url:
        thread = threading.Thread(target=lambda: bound.append(bind(url)))
        thread.start()
        thread.join()
        bound[0].unbind_s()


def test_the_patch_installs_it_at_the_import() -> None:
    assert prints("""
    import dhaga.monkey
    dhaga.monkey.patch()
    import ldap
    print(hasattr(ldap.ldapobject.SimpleLDAPObject._ldap_call, "__wrapped__"), ldap.LDAPLockBaseClass.__module__)
    dhaga.monkey.unpatch()
    print(hasattr(ldap.ldapobject.SimpleLDAPObject._ldap_call, "__wrapped__"))
    """) == ["True dhaga._sync.lock", "False"]
