"""Celery workers with Dhaga's pool over RabbitMQ and Redis that are really there, each a process of its own."""

from __future__ import annotations

import contextlib
import signal
import urllib.parse
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.examples.relay import Relay
from tests.scenarios.test_asyncio_libraries import address_of

celery = pytest.importorskip("celery")
pytest.importorskip("redis")

from celery.exceptions import TaskRevokedError, TimeLimitExceeded  # noqa: E402

from tests.integrations.celeries.gate import PATIENCE, names  # noqa: E402
from tests.integrations.celeries.workers import BARE, POOL, Cluster, Worker  # noqa: E402

pytestmark = pytest.mark.once

MANY = 300
BROKERS = {
    "rabbitmq": ("DHAGA_RABBITMQ", "amqp://guest:guest@127.0.0.1:5672/%2F"),
    "redis": ("DHAGA_REDIS", "redis://127.0.0.1:6379/0"),
}
CHOICES: dict[str, dict[str, Any]] = {
    "rabbitmq": {"options": (), "conf": {"worker_pool": POOL}, "environment": {}},
    "redis": {
        "options": ("-P", "custom"),
        "conf": {"worker_pool": "prefork", "worker_dhaga_threads": 2},
        "environment": {"CELERY_CUSTOM_WORKER_POOL": POOL},
    },
}
"""The two ways in which a pool can be chosen, and one OS thread or two: each is taken with one broker."""


def addresses(broker: str) -> tuple[str, str]:
    """Return where the broker is, and the result backend."""
    return address_of(*BROKERS[broker]), address_of(*BROKERS["redis"])


@pytest.fixture(scope="module", params=BROKERS)
def shared(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster of one worker, for all that leaves it as it was."""
    with Cluster(*addresses(request.param), tmp_path_factory.mktemp("celeries")) as cluster:
        choice = CHOICES[request.param]
        cluster.worker(
            "--concurrency", str(MANY), "--without-mingle", *choice["options"],
            environment=choice["environment"], worker_dhaga_watch=0.2, **choice["conf"],
        )  # fmt: skip
        yield cluster


@pytest.fixture
def worker(shared: Cluster) -> Worker:
    return shared.workers[0]


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """What the names of a test's tasks begin with."""
    return str(request.node.originalname).removeprefix("test_")


def number(name: str, count: int) -> list[str]:
    return [f"{name}-{n}" for n in range(count)]


# ---- one worker, shared


def test_the_pool_is_the_one_that_was_chosen(worker: Worker) -> None:
    pool = worker.inspect("stats")["pool"]
    assert (pool["implementation"], pool["max-concurrency"]) == (POOL, MANY)


def test_many_tasks_wait_at_once_in_one_process(shared: Cluster, worker: Worker, name: str) -> None:
    results = shared.send_all("wait", number(name, MANY))
    assert {visitor.pid for visitor in shared.gate.waiters(name, MANY)} == {worker.pid}
    shared.gate.open(name)
    assert [result.get(PATIENCE) for result in results] == number(name, MANY)
    assert shared.send("threads").get(PATIENCE) < 40


def test_each_task_knows_who_it_is_across_switches(shared: Cluster, name: str) -> None:
    results = shared.send_all("who-am-i", number(name, 50))
    shared.gate.waiters(name, 50)
    shared.gate.open(name)
    for result, own in zip(results, number(name, 50), strict=True):
        assert result.get(PATIENCE) == [result.id, result.id, result.id, own] * 2


def test_a_soft_time_limit_can_be_caught(shared: Cluster, name: str) -> None:
    assert shared.send("overstay", name).get(PATIENCE) == "cleaned up in time"


def test_a_hard_time_limit_ends_the_task_with_its_finally(shared: Cluster, worker: Worker, name: str) -> None:
    with pytest.raises(TimeLimitExceeded):
        shared.send("overstay-hard", name).get(PATIENCE)
    shared.gate.waiters(name, 0)
    shared.wait_until(lambda: f"finally {name}" in shared.notes())
    worker.logs(r"Hard time limit \(0.3s\) exceeded for overstay-hard")


def test_revoke_with_terminate_ends_a_running_task(shared: Cluster, worker: Worker, name: str) -> None:
    results = shared.send_all("hold", number(name, 2))
    shared.gate.waiters(name, 2)
    results[0].revoke(terminate=True)
    with pytest.raises(TaskRevokedError):
        results[0].get(PATIENCE)
    assert names(shared.gate.waiters(name, 1)) == [f"{name}-1"]
    shared.wait_until(lambda: f"finally {name}-0" in shared.notes())
    shared.gate.open(name)
    assert results[1].get(PATIENCE) is None
    assert worker.process.poll() is None


def test_retries_come_after_their_countdown(shared: Cluster) -> None:
    assert shared.send("try-again").get(PATIENCE) == 2


def test_an_error_of_a_task_comes_to_who_asked(shared: Cluster) -> None:
    with pytest.raises(ValueError, match="on purpose"):
        shared.send("fail", "on purpose").get(PATIENCE)


def test_chains_groups_and_chords(shared: Cluster) -> None:
    chain = celery.chain(shared.task("add", 1, 2), shared.task("add", 3), app=shared.app)
    group = celery.group([shared.task("add", n, n) for n in range(5)], app=shared.app)
    chord = celery.chord([shared.task("add", n, n) for n in range(20)], shared.task("total"), app=shared.app)
    asked = [canvas.apply_async() for canvas in (chain, group, chord)]
    assert [result.get(PATIENCE) for result in asked] == [6, [0, 2, 4, 6, 8], 380]


def test_events_of_a_task_are_seen_by_a_receiver(shared: Cluster, worker: Worker) -> None:
    seen: list[dict[str, Any]] = []
    told = {"destination": [worker.node], "reply": True, "limit": 1, "timeout": PATIENCE}
    shared.app.control.enable_events(**told)
    with shared.app.connection_for_read() as connection:
        receiver = shared.app.events.Receiver(connection, {"*": seen.append}, node_id=f"{shared.name}.receiver")
        with receiver.consumer_context(wakeup=False) as (events, _, _):
            while not seen:  # until it has subscribed
                shared.send("add", 1, 1)
                with contextlib.suppress(TimeoutError):
                    events.drain_events(timeout=0.2)
            result = shared.send("add", 2, 2)
            while ("task-succeeded", result.id) not in [(event["type"], event.get("uuid")) for event in seen]:
                events.drain_events(timeout=PATIENCE)
    shared.app.control.disable_events(**told)
    of_task = [event for event in seen if event.get("uuid") == result.id]
    assert [event["type"] for event in of_task] == ["task-received", "task-started", "task-succeeded"]
    assert (of_task[-1]["result"], of_task[-1]["hostname"]) == ("4", worker.node)


def test_a_rate_limit_holds_tasks_and_not_the_others(shared: Cluster, worker: Worker, name: str) -> None:
    slow = shared.send_all("wait-slowly", number(f"{name}-slow", 3))
    shared.gate.waiters(f"{name}-slow", 1)
    others = shared.send_all("wait", number(f"{name}-free", 20))
    shared.gate.waiters(f"{name}-free", 20)
    assert len(shared.gate.comers(f"{name}-slow", 1)) == 1
    shared.app.control.revoke([result.id for result in slow], reply=True, limit=1, timeout=PATIENCE)
    shared.gate.open(name)
    assert [result.get(PATIENCE) for result in others] == number(f"{name}-free", 20)


def test_what_runs_can_be_asked_for(shared: Cluster, worker: Worker, name: str) -> None:
    (result,) = shared.send_all("wait", [name])
    shared.gate.waiters(name, 1)
    assert worker.inspect("ping") == {"ok": "pong"}
    active = worker.inspect("active")
    assert [(task["id"], task["args"]) for task in active if task["name"] == "wait"] == [(result.id, [name])]
    assert "wait" in worker.inspect("registered")
    shared.gate.open(name)
    assert result.get(PATIENCE) == name
    shared.wait_until(lambda: worker.inspect("active") == [])
    assert worker.inspect("stats")["total"]["wait"] >= 1


def test_the_pool_grows_and_shrinks_when_told(shared: Cluster, worker: Worker) -> None:
    for method, concurrency in (("pool_grow", MANY + 50), ("pool_shrink", MANY)):
        (answer,) = getattr(shared.app.control, method)(50, [worker.node], reply=True, limit=1, timeout=PATIENCE)
        assert "ok" in answer[worker.node]
        assert worker.concurrency() == concurrency


def test_a_task_that_blocks_the_thread_is_named_in_the_log(shared: Cluster, worker: Worker, name: str) -> None:
    result = shared.send("block", name)
    worker.logs(rf"(?s)block\[{result.id}\] has held \S+ for .* in block\b")
    shared.gate.open(name)
    assert result.get(PATIENCE) == name


def test_a_task_that_leaves_by_no_error_at_all_does_not_take_the_worker_with_it(
    shared: Cluster, worker: Worker, name: str
) -> None:
    assert shared.send("leave", name).get(PATIENCE) == "done"
    assert shared.notes().count(f"left {name}") == 1
    assert worker.process.poll() is None


# ---- workers of a test's own


@pytest.fixture
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(*addresses(request.param), tmp_path) as cluster:
        yield cluster


def on(quick: str) -> Any:
    """Have a test run on each broker: at once on this one, with the slow tests on the other."""
    brokers = [broker if broker == quick else pytest.param(broker, marks=pytest.mark.slow) for broker in BROKERS]
    return pytest.mark.parametrize("cluster", brokers, indirect=True)


def slowly_on(*brokers: str) -> Any:
    params = [pytest.param(broker, marks=pytest.mark.slow) for broker in brokers]
    return pytest.mark.parametrize("cluster", params, indirect=True)


@slowly_on(*BROKERS)
def test_what_does_not_run_yet_is_left_to_the_other_worker(cluster: Cluster, name: str) -> None:
    options = ("--concurrency", "2", "--prefetch-multiplier", "1", *BARE)
    first = cluster.worker(*options)
    results = cluster.send_all("work", number(name, 4))
    cluster.gate.waiters(name, 2)
    second = cluster.worker(*options)
    assert Counter(visitor.pid for visitor in cluster.gate.waiters(name, 4)) == {first.pid: 2, second.pid: 2}
    cluster.gate.open(name)
    assert [result.get(PATIENCE) for result in results] == number(name, 4)


@on("redis")
def test_a_warm_shutdown_ends_what_runs_and_gives_back_the_rest(cluster: Cluster, name: str) -> None:
    # With a heartbeat: a consumer that has nothing to do sees what a signal has asked for when a timer is due.
    options = ("--concurrency", "2", "--prefetch-multiplier", "11", "--without-mingle")
    worker = cluster.worker(*options, "--loglevel", "debug")
    results = cluster.send_all("wait", number(name, 24))
    first = names(cluster.gate.waiters(name, 2))
    cluster.wait_until(lambda: len(worker.inspect("reserved")) == 22)
    worker.signal(signal.SIGTERM)
    worker.logs("Stopping Pool")
    assert names(cluster.gate.waiters(name, 2)) == first
    cluster.gate.open(name)
    assert worker.end() == 0
    ended = names(cluster.gate.come)
    assert set(first) <= set(ended)
    assert cluster.queued() == 24 - len(ended) > 12  # the log and the pool do not move at the same instant
    cluster.worker(*options)
    assert [result.get(PATIENCE) for result in results] == number(name, 24)
    assert Counter(names(cluster.gate.come)) == Counter(number(name, 24))


@slowly_on("rabbitmq")
def test_a_task_that_was_revoked_before_its_turn_never_runs(cluster: Cluster, name: str) -> None:
    worker = cluster.worker("--concurrency", "2", *BARE)
    results = cluster.send_all("hold", number(name, 5))
    begun = names(cluster.gate.waiters(name, 2))
    cluster.wait_until(lambda: len(worker.inspect("reserved")) == 3)
    cluster.app.control.revoke(results[4].id, terminate=True, reply=True, limit=1, timeout=PATIENCE)
    cluster.app.control.revoke(results[3].id, reply=True, limit=1, timeout=PATIENCE)
    cluster.gate.open(name)
    for result in results[3:]:
        with pytest.raises(TaskRevokedError):
            result.get(PATIENCE)
    assert [result.get(PATIENCE) for result in results[:3]] == [None] * 3
    assert begun == number(name, 2)
    cluster.wait_until(lambda: not worker.inspect("reserved"))
    assert names(cluster.gate.come) == number(name, 3)
    cluster.app.control.shutdown([worker.node])
    assert worker.end() == 0
    assert cluster.queued() == 0


@on("rabbitmq")
def test_no_task_is_lost_when_a_worker_is_killed(cluster: Cluster, name: str) -> None:
    quick, waiting = number(f"{name}-quick", 100), number(f"{name}-waiting", 100)
    cluster.gate.open(f"{name}-quick")
    options = ("--concurrency", "80", "--prefetch-multiplier", "1", *BARE)
    killed = cluster.worker_to_lose(*options)
    results = cluster.send_all("work", [each for pair in zip(quick, waiting, strict=True) for each in pair])
    under_way = names(cluster.gate.waiters(f"{name}-waiting", 80))
    killed.kill()
    cluster.gate.waiters(name, 0)
    assert not [note for note in cluster.notes() if note.startswith(f"end {name}-waiting")]
    cluster.gate.open(name)
    cluster.take_over(*options)
    assert {result.get(PATIENCE) for result in results} == {*quick, *waiting}
    assert {f"end {each}" for each in quick + waiting} <= set(cluster.notes())
    assert {f"begin {each} True" for each in under_way} <= set(cluster.notes())


@slowly_on("rabbitmq")
def test_a_task_whose_worker_was_killed_by_it_runs_again(cluster: Cluster, name: str) -> None:
    worker = cluster.worker_to_lose(*BARE)
    result = cluster.send("lose-worker", name)
    assert worker.end() == -signal.SIGKILL
    cluster.take_over(*BARE)
    assert result.get(PATIENCE) == "done"


@on("rabbitmq")
def test_a_worker_goes_on_when_the_broker_has_been_lost(cluster: Cluster, name: str) -> None:
    with relay_to(cluster.broker) as (relay, address):
        worker = cluster.worker("--concurrency", "50", *BARE, broker_url=address)
        early = cluster.send_all("wait", number(f"{name}-early", 5))
        late = cluster.send_all("work", number(f"{name}-late", 5))
        cluster.gate.waiters(name, 10)
        for _ in range(2):  # what came before that is acknowledged then, and the broker knows
            assert cluster.send("add", 1, 2).get(PATIENCE) == 3
        relay.cut()
        worker.logs("Connection to broker lost")
        worker.logs(r"(?s)Connection to broker lost.*Connected to")
        assert cluster.send("add", 1, 2).get(PATIENCE) == 3
        if cluster.broker.startswith("amqp"):  # what was not acknowledged is delivered again, while it still runs
            cluster.gate.waiters(f"{name}-late", 10)
        cluster.gate.open(name)
        assert [result.get(PATIENCE) for result in early + late] == [
            *number(f"{name}-early", 5), *number(f"{name}-late", 5)
        ]  # fmt: skip
        worker.signal(signal.SIGTERM)
        assert worker.end() == 0
    assert worker.log().count("Task wait[") == 2 * len(early)


@slowly_on("rabbitmq")
def test_late_tasks_can_be_told_to_end_when_the_broker_is_lost(cluster: Cluster, name: str) -> None:
    with relay_to(cluster.broker) as (relay, address):
        worker = cluster.worker(*BARE, broker_url=address, worker_cancel_long_running_tasks_on_connection_loss=True)
        (result,) = cluster.send_all("hold-late", [name])
        cluster.gate.waiters(name, 1)
        relay.cut()
        cluster.wait_until(lambda: cluster.notes() == [f"finally {name}"])
        worker.logs(r"(?s)Connection to broker lost.*Connected to")
        cluster.gate.comers(name, 2)
        cluster.gate.waiters(name, 1)
        cluster.gate.open(name)
        assert result.get(PATIENCE) is None
        assert cluster.send("add", 1, 2).get(PATIENCE) == 3
        worker.kill()


@on("redis")
def test_a_result_that_is_long_in_writing_does_not_hold_up_the_others(cluster: Cluster, name: str) -> None:
    with relay_to(cluster.backend) as (relay, address):
        worker = cluster.worker("--concurrency", "50", *BARE, result_backend=address)
        first = cluster.send_all("wait", number(f"{name}-first", 3))
        cluster.gate.waiters(f"{name}-first", 3)
        relay.hold_at(relay.up)
        cluster.gate.open(f"{name}-first")
        assert relay.held.wait(PATIENCE)
        others = cluster.send_all("wait", number(f"{name}-other", 20))
        cluster.gate.waiters(f"{name}-other", 20)
        assert worker.inspect("ping") == {"ok": "pong"}
        relay.release()
        cluster.gate.open(name)
        assert [result.get(PATIENCE) for result in first + others] == [
            *number(f"{name}-first", 3), *number(f"{name}-other", 20)
        ]  # fmt: skip
        worker.kill()


@on("rabbitmq")
def test_a_cold_shutdown_gives_back_what_was_not_acknowledged(cluster: Cluster, name: str) -> None:
    worker = cluster.worker("--concurrency", "4", "--prefetch-multiplier", "1", *BARE)
    cluster.send_all("hold-late", number(name, 6))
    cluster.gate.waiters(name, 4)
    worker.signal(signal.SIGQUIT)
    worker.logs("Cold shutdown")
    worker.end()
    cluster.gate.waiters(name, 0)
    assert {f"finally {name}-{n}" for n in range(4)} == set(cluster.notes())
    assert cluster.queued() == 6


@slowly_on("rabbitmq")
def test_a_quit_after_a_warm_shutdown_was_asked_for_makes_it_cold(cluster: Cluster, name: str) -> None:
    worker = cluster.worker("--concurrency", "4", *BARE)
    cluster.send_all("hold", number(name, 4))
    cluster.gate.waiters(name, 4)
    worker.signal(signal.SIGTERM)
    worker.logs("Warm shutdown")
    worker.signal(signal.SIGQUIT)
    worker.logs("Cold shutdown")
    worker.end()
    cluster.gate.waiters(name, 0)


@slowly_on("redis")
def test_a_soft_shutdown_lets_tasks_end_for_so_long(cluster: Cluster, name: str) -> None:
    worker = cluster.worker("--concurrency", "4", *BARE, worker_soft_shutdown_timeout=5)
    (result,) = cluster.send_all("work", [name])
    cluster.gate.waiters(name, 1)
    worker.signal(signal.SIGQUIT)
    worker.logs("Soft Shutdown")
    cluster.gate.open(name)
    assert result.get(PATIENCE) == name
    worker.end()
    assert cluster.queued() == 0


@slowly_on("rabbitmq")
def test_a_soft_shutdown_is_cold_for_tasks_that_stay(cluster: Cluster, name: str) -> None:
    worker = cluster.worker("--concurrency", "4", *BARE, worker_soft_shutdown_timeout=0.2)
    cluster.send_all("hold-late", [name])
    cluster.gate.waiters(name, 1)
    worker.signal(signal.SIGQUIT)
    worker.end()
    assert cluster.notes() == [f"finally {name}"]
    assert cluster.queued() == 1


@slowly_on("redis")
def test_the_pool_grows_under_load_and_shrinks_after_it(cluster: Cluster, name: str) -> None:
    worker = cluster.worker("--autoscale", "20,2", *BARE, environment={"AUTOSCALE_KEEPALIVE": "0.3"})
    assert worker.concurrency() == 2
    results = cluster.send_all("wait", number(f"{name}-many", 30))
    cluster.gate.waiters(f"{name}-many", 20)
    assert worker.concurrency() == 20
    cluster.gate.open(f"{name}-many")
    assert [result.get(PATIENCE) for result in results] == number(f"{name}-many", 30)
    cluster.wait_until(lambda: worker.concurrency() == 2)
    again = cluster.send_all("wait", number(f"{name}-again", 20))
    cluster.gate.waiters(f"{name}-again", 20)
    cluster.gate.open(name)
    assert [result.get(PATIENCE) for result in again] == number(f"{name}-again", 20)


# ---- brokers that are not there


@pytest.mark.parametrize("cluster", ["rabbitmq"], indirect=True)
def test_a_broker_of_no_known_kind_is_named(cluster: Cluster) -> None:
    worker = cluster.start(*BARE, broker_url="nosuch://127.0.0.1//")
    assert worker.end() != 0
    assert "No such transport: nosuch" in worker.log()


@pytest.mark.slow
@pytest.mark.parametrize("cluster", ["rabbitmq"], indirect=True)
@pytest.mark.parametrize("address", ["amqp://guest@127.0.0.1:1//", "redis://127.0.0.1:1/0"])
def test_a_worker_says_which_broker_does_not_answer_and_can_be_ended(cluster: Cluster, address: str) -> None:
    worker = cluster.start(*BARE, broker_url=address)
    worker.logs(rf"Cannot connect to {address.partition('@')[0].partition('127')[0]}.*127.0.0.1:1/.*refused")
    worker.signal(signal.SIGTERM)
    worker.end()


@contextlib.contextmanager
def relay_to(address: str) -> Iterator[tuple[Relay, str]]:
    """Have a relay before a service. Gives: it, and the address of the service through it."""
    place = urllib.parse.urlsplit(address)
    user, at, _ = place.netloc.rpartition("@")
    with Relay((place.hostname or "127.0.0.1", place.port or 0)) as relay:
        yield relay, place._replace(netloc=f"{user}{at}127.0.0.1:{relay.address[1]}").geturl()
