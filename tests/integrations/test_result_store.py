"""Results on their way to the store park."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.kit.celery_world import PATIENCE, World, come_to, until
from tests.scenarios.test_asyncio_libraries import address_of


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
    monkeypatch.setattr("dhaga.integrations.celery._result_store.in_process", lambda backend: False)

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
