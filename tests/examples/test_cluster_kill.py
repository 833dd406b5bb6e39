"""The fleet backup with two worker processes, one of which is killed in the middle."""

from __future__ import annotations

import os
import signal
import sqlite3
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

pytest.importorskip("celery")

from examples.backup import client
from examples.backup.rpc import Address
from examples.backup.wire import BackupError
from examples.backup.workers import UNITS, Unit
from examples.cluster.brokers import Broker
from examples.cluster.driver import Driver, Timeouts
from examples.cluster.fleet import Fleet, grow
from examples.cluster.processes import Workers
from examples.cluster.runner import check_broker, forget
from examples.cluster.tasks import WorkerOptions, application
from tests.examples.kit import Service, picture, snapshots_of
from tests.examples.relay import Relay

SOURCES = 48
IN_HAND = 4  # of each worker
SAVED = 3  # before the kill
COMMIT = b"\x92\xa6commit"
"""How a request to commit begins: msgpack of ["commit", number]."""

URLS = {
    "filesystem": "filesystem://",
    "DHAGA_REDIS": os.environ.get("DHAGA_REDIS", "redis://127.0.0.1:6379/0"),
    "DHAGA_RABBITMQ": os.environ.get("DHAGA_RABBITMQ", "amqp://guest:guest@127.0.0.1:5672/%2F"),
}
BROKERS = [name if name == "filesystem" else pytest.param(name, marks=pytest.mark.slow) for name in URLS]


@pytest.fixture
def unit() -> Unit:
    """The server runs on dhagas: those over threads are tested by themselves."""
    return UNITS["dhagas"]()


@pytest.fixture(params=BROKERS)
def broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Broker]:
    """A queue that nobody else uses; it is taken away in the end."""
    found = Broker(URLS[request.param], tmp_path / "folder", f"dhaga-test-{uuid4().hex}")
    found.prepare()
    app = application(found)
    try:
        check_broker(app, found)
    except BackupError as error:
        pytest.skip(f"no broker at {request.param}={found.shown}: {error}")
    finally:
        app.close()
    yield found
    forget(found)


class Killer:
    """Kills the first worker, once, when some sources are saved and both workers have all they can take in hand.

    The relay withholds their commits, so that nothing in hand is saved or acknowledged, however slow the machine is.
    Until then the driver sends no source twice: what the worker has in hand is in no other message.
    """

    def __init__(self, workers: Workers, relay: Relay) -> None:
        self.workers = workers
        self.relay = relay
        relay.withhold(COMMIT, after=SAVED)
        self.said: list[str] = []
        self.saved_before = 0

    def __call__(self, driver: Driver) -> None:
        saved = len(driver.outcome.saved)
        if not self.saved_before and saved and self.relay.withheld == 2 * IN_HAND:
            self.saved_before = saved
            self.kill()
            driver.timeouts = Timeouts(resend_after=1.0)
        self.said += self.workers.check()

    def kill(self) -> None:
        process = self.workers.processes[0].process
        process.send_signal(signal.SIGKILL)
        process.wait()
        while self.relay.withheld > IN_HAND:  # until the relay has seen that the connections of the worker are gone
            time.sleep(0.01)
        self.relay.release()


def drafts(service: Service) -> int:
    """Count what was begun and is not committed."""
    with sqlite3.connect(f"file:{service.root}/catalogue.sqlite?mode=ro", uri=True) as catalogue:
        (count,) = catalogue.execute("SELECT count(*) FROM snapshots WHERE committed IS NULL").fetchone()
    catalogue.close()
    return int(count)


@pytest.mark.parametrize("pool", ["dhaga", pytest.param("threads", marks=pytest.mark.slow)])
def test_each_source_has_one_snapshot_though_a_worker_was_killed(
    pool: str, broker: Broker, service: Service, tmp_path: Path
) -> None:
    sources = grow(tmp_path / "fleet", SOURCES)
    app = application(broker)
    with Relay(service.address) as relay, Workers(broker, WorkerOptions(pool, IN_HAND), 2) as workers:
        driver = Driver(app, Address(*relay.address), "run", Fleet.of(sources), Timeouts(resend_after=600.0))
        killer = Killer(workers, relay)
        outcome = driver.run(killer)
        driver.server.close()
    app.close()
    assert (outcome.left, outcome.failed, outcome.error) == ([], [], "")
    assert 0 < killer.saved_before <= SAVED
    assert killer.said == ["worker 1 was killed by SIGKILL: started again"]
    first, second = (one.process.returncode for one in workers.processes)
    assert first is not None  # it may have been told to end before it had come up again
    assert second == 0 or pool == "threads"  # which may take longer to end than it is given
    if broker.scheme == "filesystem":  # a message that was taken is gone with its worker
        assert sum(one.sends for one in outcome.sources) >= SOURCES + IN_HAND
    snapshots = snapshots_of(service)
    assert Counter(one.source for one in snapshots) == Counter(dict.fromkeys(sources, 1))
    assert drafts(service) == 0
    for one in snapshots[:: SOURCES // 3]:
        assert client.verify(service.plan(), one.name).problems == []
        client.restore(service.plan(), one.name, str(tmp_path / one.name))
        assert picture(tmp_path / one.name) == picture(Path(one.source))
