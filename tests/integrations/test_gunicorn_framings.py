"""gunicorn's parser reads requests for our worker: it refuses and takes what it does with a worker of its own."""

from __future__ import annotations

import socket
from pathlib import Path

from tests.http.framings import LEGAL, REFUSED, SMUGGLED, fuzzed, understood
from tests.integrations.gunicorns import Gunicorn

SEEDS = range(300)
APP = "tests.http.framings:telling"


def test_our_worker_reads_requests_as_gunicorns_own_does(tmp_path: Path) -> None:
    for folder in ("ours", "gthread"):
        (tmp_path / folder).mkdir()
    sent = [data + SMUGGLED for data, _ in (*REFUSED.values(), *LEGAL.values())]
    sent += map(fuzzed, SEEDS)
    bind = ("--bind", "127.0.0.1:0")
    with (
        Gunicorn(tmp_path / "ours/log", *bind, app=APP) as ours,
        Gunicorn(tmp_path / "gthread/log", *bind, "--threads", "2", app=APP, kind="gthread") as gthread,
    ):
        addresses = ours.address, gthread.address
        found = [[understood(socket.create_connection, address, data) for address in addresses] for data in sent]
    assert [(data, each) for data, each in zip(sent, found, strict=True) if each[0] != each[1]] == []
