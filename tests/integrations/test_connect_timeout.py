"""psycopg2's ``connect_timeout`` at silent servers: as where libpq waits itself, in plain threads."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import dhaga
from tests.scenarios.test_asyncio_libraries import address_of

psycopg2 = pytest.importorskip("psycopg2")

from dhaga.integrations import psycopg2 as integration  # noqa: E402
from dhaga.integrations._connect_timeout import Address, after  # noqa: E402


class Hosts:
    """Servers that accept and stay silent, one that no longer accepts, and the real one."""

    def __init__(self, url: str) -> None:
        self.silent = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
        self.full = socket.create_server(("127.0.0.1", 0), backlog=0)
        self.waiting = [socket.socket() for _ in range(4)]
        for each in self.waiting:
            each.setblocking(False)
            each.connect_ex(self.full.getsockname())
        info = psycopg2.extensions.parse_dsn(url)
        self.real = f"{info.get('host', '127.0.0.1')}:{info.get('port', 5432)}"
        self.login = {name: info[name] for name in ("user", "password", "dbname") if name in info}
        names = ["silent", "quiet", "full"]
        self.names = dict(zip((self.port(each) for each in (*self.silent, self.full)), names, strict=True))
        self.places = {name: f"127.0.0.1:{port}" for port, name in self.names.items()}
        self.places |= {
            "real": self.real,
            "nobody": "127.0.0.1:1",
            "localhost": f"localhost:{self.port(self.silent[0])}",
        }

    @staticmethod
    def port(sock: socket.socket) -> int:
        return int(sock.getsockname()[1])

    def close(self) -> None:
        for each in (*self.silent, self.full, *self.waiting):
            each.close()

    def connect(self, case: tuple[str, str, Any]) -> str:
        """Connect to the places named. Returns: what came of it, with names in place of ports."""
        option, names, timeout = case
        hosts, ports = zip(*(self.places[name].rsplit(":", 1) for name in names.split(",")), strict=True)
        where = {option: ",".join(hosts), "port": ",".join(ports), "connect_timeout": timeout}
        try:
            connection = psycopg2.connect(**self.login, **where)
        except psycopg2.OperationalError as error:
            text = re.sub(r"port (\d+)", lambda found: self.names.get(int(found[1]), found[1]), str(error))
            # libpq words a beginning of its own before an error only while it waits itself.
            return re.sub(r' \([\d.]+\)|connection to server at "\S+", 1 failed: |.* failed: (?=invalid)', "", text)
        connection.close()
        return "connected"


@pytest.fixture
def hosts() -> Iterator[Hosts]:
    found = Hosts(address_of("DHAGA_POSTGRES", "postgresql://postgres@127.0.0.1:5432/postgres"))
    yield found
    found.close()


CASES: list[tuple[str, str, Any]] = [
    ("host", "silent", 1),
    ("host", "silent,quiet", 1),
    ("host", "silent,real", 1),
    ("host", "full", 1),
    ("host", "full,silent,nobody", 1),
    ("host", "nobody,silent,real", 1),
    ("host", "localhost", 1),
    ("host", "localhost,quiet,real", 1),
    ("hostaddr", "silent,quiet", 1),
    ("hostaddr", "silent,real", 1),
    ("host", "real", 0),
    ("host", "real", -1),
    ("host", "real", ""),
    ("host", "silent", "1.5"),
]
"""The option that names the places, the places, and the timeout."""


def outcomes_in_threads(hosts: Hosts) -> list[str]:
    found: dict[int, str] = {}
    threads = [threading.Thread(target=lambda n=n, case=case: found.update({n: hosts.connect(case)}))
               for n, case in enumerate(CASES)]  # fmt: skip
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [found[n] for n in range(len(CASES))]


@pytest.mark.long("libpq's least limit is two seconds, for each host")
def test_a_silent_server_is_given_up_as_in_plain_threads(hosts: Hosts) -> None:
    plain = outcomes_in_threads(hosts)
    integration.install()
    try:
        dhagas = [dhaga.spawn(hosts.connect, case) for case in CASES]
        assert [(case, d.result()) for case, d in zip(CASES, dhagas, strict=True)] == [*zip(CASES, plain, strict=True)]
        # A plain thread too, as the callback of psycopg2 is one for all.
        assert outcomes_in_threads(hosts) == plain
    finally:
        integration.uninstall()
    assert plain.count("connected") == 6


def test_the_limit_of_the_environment_counts(hosts: Hosts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGCONNECT_TIMEOUT", "1")
    integration.install()
    try:
        host, port = hosts.places["silent"].split(":")
        with pytest.raises(psycopg2.OperationalError, match="timeout expired"):
            dhaga.spawn(psycopg2.connect, host=host, port=port, user="x").result()
    finally:
        integration.uninstall()


PLACES = [
    Address("a", "::1", "1"),
    Address("a", "10.0.0.1", "1"),
    Address("b", "10.0.0.2", "2"),
    Address("/x", "", "3"),
]


@pytest.mark.parametrize(
    ("host", "port", "peer", "tried", "left"),
    [
        ("a", "1", "::1", 1, 3),  # connected: the peer names the address
        ("a", "1", "10.0.0.1", 1, 2),
        ("a", "1", "", 1, 3),  # not yet: one socket a tried address
        ("a", "1", "", 2, 2),
        ("a", "1", "", 9, 2),
        ("b", "2", "10.0.0.2", 1, 1),
        ("/x", "3", "", 1, 0),
        ("elsewhere", "4", "", 1, 0),
    ],
)
def test_what_follows_the_silent_address_is_tried(host: str, port: str, peer: str, tried: int, left: int) -> None:
    assert after(PLACES, host, port, peer, tried) == PLACES[len(PLACES) - left :]
