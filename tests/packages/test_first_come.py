"""First come, first served: 300 threads ask for 20 places, which packages hand out by monitors of several kinds."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.kit.scripts import PATIENCE, ROOT
from tests.packages.test_packages import ADDRESSES, PROGRAMS
from tests.scenarios.test_asyncio_libraries import address_of

PLACES = 20

MONITORS = {
    "sqlalchemy_pool": ("sqlalchemy", ""),
    "standard_queue": ("", ""),
    "queue_from_source": ("", ""),
    "semaphore": ("", ""),
    "urllib3_pool": ("urllib3", ""),
    "redis_pool": ("redis", "DHAGA_REDIS"),
    "psycopg_pool": ("psycopg_pool", "DHAGA_POSTGRES"),
    "psycopg2_pool": ("psycopg2", "DHAGA_POSTGRES"),
    "multiprocessing_queue": ("", ""),
    "executor": ("", ""),
}


@pytest.mark.once
@pytest.mark.process
@pytest.mark.parametrize("monitor", MONITORS)
def test_no_waiter_is_overtaken_by_more_than_there_are_places(monitor: str) -> None:
    package, server = MONITORS[monitor]
    if package:
        pytest.importorskip(package)
    environment = {server: address_of(server, ADDRESSES[server])} if server else {}
    program = subprocess.run(
        [sys.executable, "-m", "dhaga", str(PROGRAMS / "first_come.py"), monitor],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert program.returncode == 0, program.stderr
    assert int(program.stdout.split()[-1]) <= PLACES
