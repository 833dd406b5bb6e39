"""Celery's worker with its tasks on dhagas, in this process, over a broker in memory."""

from __future__ import annotations

import contextlib
import json
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import pytest

pytest.importorskip("celery")

from celery import Celery, chain, chord, current_task, group, signals
from celery.contrib.testing.worker import start_worker
from celery.exceptions import (
    Ignore,
    ImproperlyConfigured,
    Reject,
    SoftTimeLimitExceeded,
    TaskRevokedError,
    TimeLimitExceeded,
    WorkerLostError,
)
from celery.utils import threads as celery_threads
from celery.worker import state
from kombu.transport.memory import Transport

import dhaga
from dhaga.integrations.celery import TaskPool
from tests.test_aio_libraries import address_of

PATIENCE = 30


def until(condition: Callable[[], object]) -> None:
    """Wait until something holds, for as long as a busy machine may take."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


class World:
    """An app with its worker; ``gate`` is what tasks wait for, ``trace`` what they have noted."""

    def __init__(self, **settings: Any) -> None:
        backend = settings.pop("backend", "cache+memory://")
        self.app = Celery("world", broker="memory://", backend=backend, set_as_current=False)
        self.app.conf.update(
            broker_transport_options={"polling_interval": 0.01},
            worker_dhaga_watch=0,
            worker_prefetch_multiplier=1,
            task_default_queue=f"queue-{id(self)}",
        )
        self.app.conf.update(settings)
        self.gate = threading.Event()
        self.trace: list[Any] = []
        self.begun: list[Any] = []
        self.worker: Any = None

    def task(self, fn: Any = None, **options: Any) -> Any:
        return (
            self.app.task(fn, name=fn.__name__, shared=False, **options) if fn else lambda fn: self.task(fn, **options)
        )

    def wait_at_gate(self) -> None:
        """Park until the test opens the gate, which it does from another OS thread."""
        while not self.gate.is_set():
            dhaga.sleep(0.005)

    def endless_task(self) -> Any:
        """Return a task that begins, and waits until it is ended."""

        @self.task
        def endless() -> None:
            self.begun.append(1)
            try:
                dhaga.sleep(10 * PATIENCE)
            finally:
                self.trace.append("put away")

        return endless

    @contextlib.contextmanager
    def working(self, concurrency: int = 10, **options: Any) -> Iterator[TaskPool]:
        with start_worker(
            self.app,
            concurrency=concurrency,
            pool="dhaga.integrations.celery:TaskPool",
            perform_ping_check=False,
            loglevel="WARNING",
            shutdown_timeout=PATIENCE,
            **options,
        ) as self.worker:
            try:
                yield self.worker.pool
            finally:
                self.gate.set()
                state.should_terminate = 0
                for _ in range(2):  # two messages, or the loop would notice only after two seconds
                    self.app.control.broadcast("heartbeat")


def come_to(result: Any) -> Any:
    """Return what a task returned, or raise what it raised."""
    return result.get(timeout=PATIENCE, interval=0.01)


@pytest.fixture
def world() -> Iterator[World]:
    handlers, level = logging.root.handlers[:], logging.root.level
    yield World()
    state.reset_state()
    Transport.global_state.clear()
    logging.root.handlers[:] = handlers  # Celery has put its own there
    logging.root.setLevel(level)


class Said(logging.Handler):
    """Keeps what the pool and the watchdog log."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())

    def text(self) -> str:
        return "\n".join(self.lines)


@pytest.fixture
def said() -> Iterator[Said]:
    said, loggers = Said(), [logging.getLogger(name) for name in ("celery.pool", "dhaga")]
    for each in loggers:
        each.addHandler(said)
    yield said
    for each in loggers:
        each.removeHandler(said)


def test_tasks_wait_side_by_side_in_one_os_thread(world: World) -> None:
    @world.task(bind=True)
    def wait(self: Any, number: int) -> Any:
        world.begun.append(number)
        before = current_task.request.id
        world.wait_at_gate()
        assert current_task.request.id == before == self.request.id
        return number, threading.get_ident()

    with world.working(concurrency=50) as pool:
        results = [wait.delay(number) for number in range(50)]
        until(lambda: len(world.begun) == 50)
        assert pool.info["running"] == 50
        world.gate.set()
        found = [come_to(result) for result in results]
    assert [number for number, _ in found] == list(range(50))
    assert len({ident for _, ident in found}) == 1


def test_no_more_run_than_the_concurrency_says_and_all_get_their_turn(world: World) -> None:
    world.app.conf.update(worker_prefetch_multiplier=4, worker_dhaga_threads=2)
    running: list[int] = []

    @world.task
    def wait(number: int) -> int:
        running.append(number)
        world.trace.append(len(running))
        dhaga.sleep(0.01)
        running.remove(number)
        return number

    with world.working(concurrency=3) as pool:
        results = [wait.delay(number) for number in range(30)]
        assert sorted(come_to(result) for result in results) == list(range(30))
        assert max(world.trace) == 3
        until(lambda: pool.info["running"] == 0)
        assert pool.info["waiting"] == 0 and not pool.jobs


def test_a_soft_limit_is_raised_at_the_park(world: World) -> None:
    @world.task(soft_time_limit=0.1)
    def tidy() -> str:
        try:
            dhaga.sleep(PATIENCE)
        except SoftTimeLimitExceeded as error:
            return repr(error)
        return "slept"

    with world.working():
        assert come_to(tidy.delay()) == "SoftTimeLimitExceeded(0.1)"


def test_a_hard_limit_ends_the_dhaga_and_is_reported(world: World) -> None:
    @world.task(time_limit=0.1, on_failure=lambda *_: world.trace.append("on_failure"))
    def endless() -> None:
        try:
            dhaga.sleep(10 * PATIENCE)
        except Exception:
            world.trace.append("swallowed")
        finally:
            world.trace.append("put away")

    with world.working() as pool:
        result = endless.delay()
        with pytest.raises(TimeLimitExceeded):
            come_to(result)
        until(lambda: not pool.jobs)
    assert world.trace == ["put away", "on_failure"]


def test_limits_of_the_worker_hold_for_every_task(world: World) -> None:
    @world.task
    def endless() -> None:
        dhaga.sleep(10 * PATIENCE)

    with world.working(time_limit=0.1):
        with pytest.raises(TimeLimitExceeded):
            come_to(endless.delay())


def test_an_end_that_is_swallowed_is_raised_again(world: World, said: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dhaga.integrations.celery.jobs.AGAIN_SECONDS", 0.05)

    @world.task(time_limit=0.05)
    def stubborn() -> None:
        with contextlib.suppress(BaseException):
            dhaga.sleep(10 * PATIENCE)
        dhaga.sleep(10 * PATIENCE)

    with world.working():
        with pytest.raises(TimeLimitExceeded):
            come_to(stubborn.delay())
    assert "has swallowed its end (its hard time limit has come)" in said.text()


def test_a_task_that_never_parks_outlives_its_limit_and_is_told_of(world: World, said: Said) -> None:
    world.app.conf.worker_dhaga_watch = 0.05

    @world.task(time_limit=0.1)
    def busy() -> str:
        time.sleep(0.4)
        return "its result"

    @world.task
    def parks() -> None:
        dhaga.sleep(0.01)

    with world.working(concurrency=1):
        assert come_to(busy.delay()) == "its result"
        come_to(parks.delay())  # what was meant for the task before does not strike this one
    assert "and its time limit is 0.1 s: a limit reaches a task where it parks" in said.text()
    named = [line for line in said.lines if " has held " in line]
    assert len(named) == 1 and named[0].startswith("busy[") and "in busy" in named[0]


def test_a_revoke_ends_a_task_at_its_park(world: World) -> None:
    endless = world.endless_task()
    with world.working() as pool:
        result = endless.delay()
        until(lambda: world.begun)
        world.app.control.revoke(result.id, terminate=True)
        with pytest.raises(TaskRevokedError):
            come_to(result)
        until(lambda: not pool.jobs)
    assert world.trace == ["put away"]


def test_what_a_revoked_task_returns_all_the_same_is_not_stored(world: World, said: Said) -> None:
    @world.task
    def stubborn() -> str:
        world.begun.append(1)
        with contextlib.suppress(BaseException):
            dhaga.sleep(10 * PATIENCE)
        return "all the same"

    with world.working() as pool:
        result = stubborn.delay()
        until(lambda: world.begun)
        world.app.control.revoke(result.id, terminate=True)
        until(lambda: not pool.jobs)
        with pytest.raises(TaskRevokedError):
            come_to(result)
    assert "was revoked, but went on: what it came to is not stored" in said.text()


def test_a_revoke_by_sigusr1_is_a_soft_limit(world: World) -> None:
    @world.task(ignore_result=False)
    def tidy() -> None:
        world.begun.append(1)
        try:
            dhaga.sleep(10 * PATIENCE)
        except SoftTimeLimitExceeded:
            world.trace.append("soft")

    with world.working() as pool:
        result = tidy.delay()
        until(lambda: world.begun)
        world.app.control.revoke(result.id, terminate=True, signal="SIGUSR1")
        until(lambda: not pool.jobs)
    assert world.trace == ["soft"]


@pytest.mark.parametrize("terminate", [False, True])
def test_a_task_that_waits_for_room_and_is_revoked_does_not_run(world: World, terminate: bool) -> None:
    world.app.conf.worker_prefetch_multiplier = 4

    @world.task
    def wait(number: int) -> None:
        world.begun.append(number)
        world.wait_at_gate()

    with world.working(concurrency=1) as pool:
        first, second = wait.delay(1), wait.delay(2)
        until(lambda: pool.info["waiting"] == 1 and world.begun)
        world.app.control.revoke(second.id, terminate=terminate)
        until(lambda: second.id in state.revoked)
        world.gate.set()
        come_to(first)
        with pytest.raises(TaskRevokedError):
            come_to(second)
        until(lambda: not pool.jobs and not state.reserved_requests)
    assert world.begun == [1]


def test_retries_chains_groups_and_chords_run_as_anywhere(world: World) -> None:
    @world.task
    def add(one: int, other: int) -> int:
        dhaga.sleep(0.001)
        return one + other

    @world.task
    def total(numbers: list[int]) -> int:
        return sum(numbers)

    @world.task(bind=True, max_retries=2)
    def third_time(self: Any) -> int:
        if self.request.retries < 2:
            raise self.retry(countdown=0)
        retries: int = self.request.retries
        return retries

    with world.working():
        assert come_to(third_time.delay()) == 2
        assert come_to(chain(add.s(1, 2), add.s(3))()) == 6
        assert come_to(group(add.s(n, n) for n in range(5))()) == [0, 2, 4, 6, 8]
        assert come_to(chord([add.s(n, n) for n in range(5)], total.s())()) == 20


def test_errors_are_reported_and_the_pool_goes_on(world: World) -> None:
    @world.task
    def fail() -> None:
        raise ValueError("so it is")

    @world.task
    def leave() -> None:
        raise SystemExit(3)

    @world.task
    def ignored() -> None:
        raise Ignore

    @world.task(acks_late=True)
    def rejected() -> None:
        raise Reject("no more", requeue=False)

    @world.task
    def fine() -> str:
        return "fine"

    with world.working() as pool:
        with pytest.raises(ValueError, match="so it is"):
            come_to(fail.delay())
        with pytest.raises(WorkerLostError, match=r"raised SystemExit\(3\)"):
            come_to(leave.delay())
        ignored.delay()
        rejected.delay()
        assert come_to(fine.delay()) == "fine"
        until(lambda: not pool.jobs and not state.reserved_requests and not state.active_requests)


def test_the_pool_grows_and_shrinks(world: World) -> None:
    world.app.conf.worker_prefetch_multiplier = 10

    @world.task
    def wait(number: int) -> None:
        world.begun.append(number)
        world.wait_at_gate()

    with world.working(concurrency=1) as pool:
        results = [wait.delay(number) for number in range(6)]
        until(lambda: pool.info["waiting"] == 5)
        until(lambda: len(world.begun) == 1)
        world.app.control.pool_grow(2)
        until(lambda: len(world.begun) == 3)
        assert pool.info["max-concurrency"] == pool.num_processes == 3
        with pytest.raises(ValueError, match="a pool for 3 tasks"):
            pool.shrink(4)
        pool.shrink(2)
        world.gate.set()
        for result in results:
            come_to(result)
        assert pool.info["max-concurrency"] == 1


def test_a_pool_may_begin_with_no_room_and_change_often() -> None:
    ran: list[int] = []
    pool = TaskPool(0)
    pool.start()
    pool.apply_async(ran.append, [1])
    for _ in range(3):
        pool.grow(2)
        until(lambda: ran and not pool.jobs)
        pool.shrink(2)
    pool.apply_async(ran.append, [2])
    assert pool.info["waiting"] == 1 and pool.info["max-concurrency"] == 0
    pool.grow()
    until(lambda: not pool.jobs)
    assert ran == [1, 2]
    assert pool.staff is not None
    assert all(len(crew.room) + len(crew.workers) == 2 for crew in pool.staff.crews)
    pool.stop()


def test_a_warm_stop_lets_tasks_end_and_leaves_the_others_to_the_broker(world: World) -> None:
    world.app.conf.worker_prefetch_multiplier = 4

    @world.task
    def wait(number: int) -> None:
        world.begun.append(number)
        world.wait_at_gate()
        world.trace.append(number)

    with world.working(concurrency=2) as pool:
        for number in range(4):
            wait.delay(number)
        until(lambda: pool.info["waiting"] == 2 == len(world.begun))
        closer = threading.Timer(0.2, world.gate.set)
        closer.start()
        pool.stop()
        closer.join()
    assert sorted(world.trace) == [0, 1] == sorted(world.begun)
    assert not pool.jobs


def test_a_cold_stop_cancels_tasks(world: World) -> None:
    endless = world.endless_task()
    with world.working() as pool:
        endless.delay()
        until(lambda: world.begun)
        pool.terminate()
        assert world.trace == ["put away"]


def test_signals_and_callbacks_come_in_order(world: World) -> None:
    @world.task
    def noted() -> None:
        world.trace.append("task")

    def note(name: str) -> Callable[..., None]:
        def receive(**_: Any) -> None:
            world.trace.append(name)

        return receive

    receivers = {
        name: note(name)
        for name in ("worker_process_init", "task_prerun", "task_success", "task_postrun", "worker_process_shutdown")
    }
    for name, receiver in receivers.items():
        getattr(signals, name).connect(receiver)
    try:
        with world.working() as pool:
            come_to(noted.delay())
            until(lambda: not pool.jobs)
    finally:
        for name, receiver in receivers.items():
            getattr(signals, name).disconnect(receiver)
    assert world.trace == [
        "worker_process_init", "task_prerun", "task", "task_success", "task_postrun", "worker_process_shutdown",
    ]  # fmt: skip


class SlowStore:
    """Where results go, each slowly: until as many are on their way at once as were asked for."""

    def __init__(self, backend: Any, parties: int) -> None:
        self.barrier = threading.Barrier(parties)
        self.real = backend.store_result

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.barrier.wait(PATIENCE)
        return self.real(*args, **kwargs)


def test_results_on_their_way_hold_up_nobody(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.app.conf.result_backend_thread_safe = True
    backend = world.app.backend
    backend.store_result = SlowStore(backend, 5)
    monkeypatch.setattr("dhaga.integrations.celery.results.in_process", lambda backend: False)

    @world.task
    def quick(number: int) -> int:
        return number

    with world.working():
        results = [quick.delay(number) for number in range(5)]
        assert [come_to(result) for result in results] == list(range(5))


class Toll:
    """A way to Redis on which results wait until they may pass."""

    def __init__(self, address: tuple[str, int], db: int) -> None:
        self.address = address
        self.db = db
        self.gate = threading.Event()
        self.breaks = False  # a connection whose result may not pass is lost
        self.broken = 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.sockets = [self.listener]
        self.threads = [threading.Thread(target=self.accept)]
        self.threads[0].start()

    def accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, far = self.listener.accept()[0], socket.create_connection(self.address)
                self.sockets += near, far
                for one, other in ((near, far), (far, near)):
                    self.threads.append(threading.Thread(target=self.carry, args=(one, other)))
                    self.threads[-1].start()

    def carry(self, one: socket.socket, other: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := one.recv(65536):
                if b"PUBLISH" in data and self.breaks and not self.gate.is_set():
                    self.broken += 1
                    one.shutdown(socket.SHUT_RDWR)
                    return
                if b"PUBLISH" in data:
                    assert self.gate.wait(PATIENCE)
                other.sendall(data)

    def close(self) -> None:
        self.gate.set()
        for each in self.sockets:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        for thread in self.threads:
            thread.join()
        for each in self.sockets:
            each.close()


@pytest.fixture
def redis() -> Iterator[Any]:
    redis = pytest.importorskip("redis")
    client = redis.Redis.from_url(address_of("DHAGA_REDIS", "redis://127.0.0.1:6379/0"))
    yield client
    client.close()


@pytest.fixture
def toll(redis: Any) -> Iterator[Toll]:
    where = redis.connection_pool.connection_kwargs
    toll = Toll((where["host"], where["port"]), where.get("db", 0))
    yield toll
    toll.close()


class Far(World):
    """A world whose results go to Redis, on a way that may be slow or break."""

    def __init__(self, toll: Toll, redis: Any, near: World, **settings: Any) -> None:
        super().__init__(backend=f"redis://127.0.0.1:{toll.port}/{toll.db}", **settings)
        self.redis = redis
        self.near = near
        self.keys: list[str] = []

        @self.task
        def quick(number: int) -> int:
            self.begun.append(number)
            return number

    def send(self) -> None:
        """Have one more task run, and wait until it has begun."""
        queue = self.app.conf.task_default_queue
        self.keys.append(f"celery-task-meta-{self.near.app.send_task('quick', (len(self.keys),), queue=queue).id}")
        until(lambda: len(self.begun) == len(self.keys))

    def take_results(self) -> list[Any]:
        """Return the results, once all are there."""
        until(lambda: all(map(self.redis.exists, self.keys)) and not self.worker.pool.jobs)
        results = [json.loads(self.redis.get(key))["result"] for key in self.keys]
        self.redis.delete(*self.keys)
        return results


@pytest.mark.filterwarnings("ignore:Call to deprecated")  # Celery's, of redis-py 8
def test_results_on_their_way_to_redis_park(toll: Toll, redis: Any, world: World) -> None:
    far = Far(toll, redis, world)
    with far.working():
        for _ in range(5):
            far.send()  # it begins while the results of those before it are on their way
        toll.gate.set()
        assert far.take_results() == list(range(5))


@pytest.mark.logs
@pytest.mark.filterwarnings("ignore:Call to deprecated")
def test_a_way_to_redis_that_breaks_is_tried_again_and_holds_up_nobody(
    toll: Toll, redis: Any, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    monkeypatch.setattr("kombu.utils.functional.sleep", slept.append)
    monkeypatch.setattr("celery.backends.base.Backend._sleep", lambda _, seconds: slept.append(seconds))
    toll.breaks = True
    far = Far(toll, redis, world, result_backend_always_retry=True)
    with far.working():
        for number in range(3):
            far.send()
            until(lambda: toll.broken > number)  # noqa: B023
        toll.gate.set()
        assert far.take_results() == list(range(3))
    assert not slept


class Redelivered:
    """What the pool asks of a request, of a message that the broker sends once more."""

    delivery_info: ClassVar[Any] = {"redelivered": True}

    def revoked(self) -> bool:
        """Tell that it is to run."""
        return False

    def on_accepted(self, pid: int, when: float) -> None:
        """Be told that it runs."""


@pytest.mark.logs
def test_a_task_that_is_delivered_again_while_it_runs_is_told_of(said: Said) -> None:
    gate, done = threading.Event(), []

    def run(number: int) -> None:
        while not gate.is_set():
            dhaga.sleep(0.005)
        done.append(number)

    pool = TaskPool(2)
    pool.start()
    for number, name in enumerate(("first", "second", "first")):
        pool.apply_async(run, [number], accept_callback=Redelivered().on_accepted, correlation_id=name)
    gate.set()
    until(lambda: len(done) == 3)
    pool.stop()
    assert [line.partition(" was ")[0] for line in said.lines] == ["task 2[first]"]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"worker_dhaga_threads": 0}, "worker_dhaga_threads is a number of OS threads, 1 or more, not 0"),
        ({"worker_dhaga_threads": "two"}, "not 'two'"),
        ({"worker_dhaga_threads": 3}, "only 2 tasks may run at once"),
        ({"worker_dhaga_watch": -1}, "worker_dhaga_watch is a number of seconds"),
        ({"worker_dhaga_blocking_results": "yes"}, "worker_dhaga_blocking_results is True or False"),
        ({"worker_dhaga_thread": 2}, "there is no setting worker_dhaga_thread; the pool of dhagas has"),
    ],
)
def test_a_setting_that_makes_no_sense_is_refused(settings: Any, words: str) -> None:
    with pytest.raises(ImproperlyConfigured, match=words):
        TaskPool(2, app=World(**settings).app)


def test_settings_may_have_the_namespace_of_the_app() -> None:
    app = Celery("world", broker="memory://", set_as_current=False)
    app.config_from_object({"CELERY_WORKER_DHAGA_THREADS": 2, "CELERY_TIMEZONE": "UTC"}, namespace="CELERY")
    assert TaskPool(2, app=app).settings.threads == 2


def test_locals_by_os_thread_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(celery_threads, "USE_FAST_LOCALS", "1")
    with pytest.raises(ImproperlyConfigured, match="USE_FAST_LOCALS keeps current_task by OS thread"):
        TaskPool(2)


@pytest.mark.logs
def test_options_of_other_pools_are_named(said: Said) -> None:
    pool = TaskPool(2, maxtasksperchild=5, max_memory_per_child=9, sched_strategy="fair", forking_enable=False)
    pool.start()
    pool.stop()
    for words in ("worker_max_tasks_per_child", "worker_max_memory_per_child", "-O fair", "worker_pool_start_method"):
        assert words in said.text()


@pytest.mark.logs
def test_a_task_that_cannot_be_accepted_is_left_to_the_broker(said: Said) -> None:
    class Broken(Redelivered):
        def on_accepted(self, pid: int, when: float) -> None:
            raise OSError("the broker is gone")

    ran: list[int] = []
    pool = TaskPool(1)
    pool.start()
    pool.apply_async(ran.append, [1], accept_callback=Broken().on_accepted, correlation_id="one")
    pool.apply_async(ran.append, [2], accept_callback=Redelivered().on_accepted, correlation_id="two")
    until(lambda: not pool.jobs)
    pool.stop()
    assert ran == [2]
    assert said.lines == ["accepting task 1[one] failed; it is left to the broker"]


def test_a_pool_that_was_never_started_stops() -> None:
    pool = TaskPool(2)
    pool.stop()
    pool.terminate()
    with pytest.raises(RuntimeError, match="has not been started"):
        pool.apply_async(print)
