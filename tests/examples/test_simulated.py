"""Programs in simulations: whenever a host is killed, nothing acknowledged is lost, and calls get their own answers."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest

from dhaga.http._client.fetch import Fetch
from dhaga.http._client.urllib3_pools import IdleConnections
from dhaga.simulation import Settings, check_determinism, search
from examples.backup import store
from examples.notifications.broker import Broker, Missed, Topic
from examples.notifications.history import History
from examples.notifications.messages import Id, Message
from examples.notifications.socket_clients import Client
from examples.wal import segments
from tests.examples import simulated_backup, simulated_log, simulated_notifications, simulated_pools

pytestmark = pytest.mark.once

SETTINGS = Settings(preempt=None)
POOLS = Settings(preempt=None, faults=simulated_pools.FAULTS)
NOTIFICATIONS = Settings(preempt=None, faults=simulated_notifications.FAULTS)

LOT = 250
"""The most seeds of one test, which takes below a minute."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Divide the seeds, as many as ``--dhaga-seeds`` says, into lots."""
    if "lot" in metafunc.fixturenames:
        seeds = metafunc.config.getoption("--dhaga-seeds")
        lots = [range(first, min(first + LOT, seeds)) for first in range(0, seeds, LOT)]
        metafunc.parametrize("lot", lots, ids=lambda lot: f"from {lot.start}")


def run(program: Callable[[], None], seeds: range, settings: Settings = SETTINGS) -> None:
    findings = search(program, seeds, settings)
    assert not findings.failures, findings.failures[0].report
    assert len(findings.hashes) == findings.runs >= len(seeds)


@pytest.mark.long("60 simulated runs")
def test_no_acknowledged_record_of_the_log_is_lost(lot: range) -> None:
    run(simulated_log.program, lot)


@pytest.mark.long("60 simulated runs")
def test_no_acknowledged_snapshot_of_the_backup_is_lost(lot: range) -> None:
    run(simulated_backup.program, lot)


@pytest.mark.long("60 simulated runs")
def test_each_call_of_a_client_gets_its_own_answer_in_time(lot: range) -> None:
    run(simulated_pools.through_client, lot, POOLS)


@pytest.mark.long("60 simulated runs")
def test_each_call_of_a_session_gets_its_own_answer_in_time(lot: range) -> None:
    run(simulated_pools.through_session, lot, POOLS)


@pytest.mark.long("60 simulated runs")
def test_no_acknowledged_message_is_lost_or_comes_twice(lot: range) -> None:
    run(simulated_notifications.program, lot, NOTIFICATIONS)


@pytest.mark.long("simulates many cuts")
def test_a_checkpoint_that_is_cut_leaves_no_gap() -> None:
    assert not search(simulated_log.cut_checkpoint, 50, SETTINGS).failures


@pytest.mark.long("simulates in two processes")
def test_the_runs_repeat_in_another_process() -> None:
    assert check_determinism(simulated_log.program, 3, SETTINGS)
    assert check_determinism(simulated_backup.program, 3, SETTINGS)
    assert check_determinism(simulated_pools.through_client, 3, POOLS)
    assert check_determinism(simulated_pools.through_session, 3, POOLS)
    assert check_determinism(simulated_notifications.program, 3, NOTIFICATIONS)


# ---- versions that are wrong


def written_without_sync(fd: int, data: bytes, offset: int) -> None:
    os.pwrite(fd, data, offset)


def nothing(*_: object) -> None:
    pass


def wrong(
    monkeypatch: pytest.MonkeyPatch,
    module: Any,
    name: str,
    replacement: Any,
    program: Callable[[], None],
    settings: Settings = SETTINGS,
) -> str:
    """Search with a function replaced. Returns: how the first failing run ended."""
    monkeypatch.setattr(module, name, replacement)
    findings = search(program, 500, settings)
    assert findings.failures, str(findings)
    return findings.failures[0].report


def test_a_log_that_acknowledges_before_the_disk_has_it_loses_a_record(monkeypatch: pytest.MonkeyPatch) -> None:
    report = wrong(monkeypatch, segments, "write_durably", written_without_sync, simulated_log.program)
    assert "AssertionError: record" in report or "Corrupt" in report


def test_a_log_whose_directory_is_not_synced_loses_a_segment(monkeypatch: pytest.MonkeyPatch) -> None:
    report = wrong(monkeypatch, segments, "sync_directory", nothing, simulated_log.program)
    assert "AssertionError: record" in report or "Corrupt" in report


def test_a_backup_that_does_not_sync_its_chunks_loses_some(monkeypatch: pytest.MonkeyPatch) -> None:
    report = wrong(monkeypatch, store, "_fsync_file", nothing, simulated_backup.program)
    assert "is missing from the store" in report or "damaged" in report, report


def test_a_client_that_cannot_abort_a_fetch_is_late(monkeypatch: pytest.MonkeyPatch) -> None:
    report = wrong(monkeypatch, Fetch, "abort", nothing, simulated_pools.through_client, POOLS)
    assert "has taken" in report


def test_a_pool_that_takes_each_put_grows_beyond_its_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    def takes_all(_: IdleConnections) -> bool:
        return False

    program = simulated_pools.through_session
    assert "FullPoolError" in wrong(monkeypatch, IdleConnections, "ignore_put", takes_all, program, POOLS)


def test_a_pool_that_hands_a_connection_out_twice_mixes_the_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    def keep(pool: IdleConnections) -> Any:
        return pool.queue[-1]

    program = simulated_pools.through_session
    assert "Error" in wrong(monkeypatch, IdleConnections, "_get", keep, program, POOLS)


def test_a_history_that_hides_its_gaps_loses_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    missed = Broker.missed

    def hidden(broker: Broker, topics: list[Topic], after: Id) -> Missed:
        return missed(broker, topics, after)._replace(gap=False)

    report = wrong(monkeypatch, Broker, "missed", hidden, simulated_notifications.program, NOTIFICATIONS)
    assert "are lost before" in report


def test_a_history_that_begins_with_the_last_message_repeats_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def since(history: History, id: Id) -> list[Message]:
        # Nothing if there is nothing new: a long poll that is answered at once is repeated 60,000 times in a run.
        messages = [message for message in history.messages if message.id >= id]
        return messages if messages and messages[-1].id > id else []

    report = wrong(monkeypatch, History, "after", since, simulated_notifications.program, NOTIFICATIONS)
    assert "comes after" in report


def test_a_queue_that_hides_what_it_drops_loses_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    def drop(client: Client, data: bytes) -> None:
        assert client.queue is not None
        client.queue.popleft()

    report = wrong(monkeypatch, Client, "overflow", drop, simulated_notifications.program, NOTIFICATIONS)
    assert "are lost before" in report
