"""The broker that all pools share: a new Redis that writes nothing to disk, or the broker that the user names."""

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import cast

from redis import Redis
from redis.exceptions import ConnectionError

NAMED = os.environ.get("DHAGA_REDIS", "redis://127.0.0.1:6379/0")
"""The Redis that is used if `redis-server` is not installed."""

PATIENCE = 20.0  # seconds until a Redis answers


@dataclass(frozen=True)
class Addresses:
    """The addresses of the broker, which holds the tasks, and of the Redis that stores the results."""

    broker: str
    backend: str

    @property
    def kind(self) -> str:
        """Return the kind of broker."""
        return {"redis": "Redis", "amqp": "RabbitMQ"}.get(self.broker.partition(":")[0], self.broker)


@contextmanager
def serving(broker: str | None = None) -> Iterator[Addresses]:
    """Yield the addresses of a broker and of a Redis for results. Without ``broker``, the Redis is also the broker."""
    with _own_redis() if shutil.which("redis-server") else contextlib.nullcontext(NAMED) as redis:
        _wait_for(redis)
        yield Addresses(broker or redis, redis)


@contextmanager
def _own_redis() -> Iterator[str]:
    port = _free_port()
    options = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
    with tempfile.TemporaryDirectory() as folder:
        command = ["redis-server", *options, "--dir", folder]
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as process:
            try:
                yield f"redis://127.0.0.1:{port}/0"
            finally:
                process.kill()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return cast(int, listener.getsockname()[1])


def _wait_for(url: str) -> None:
    """Wait until a Redis answers. Raises: RuntimeError."""
    deadline = time.monotonic() + PATIENCE
    with Redis.from_url(url) as redis:
        while True:
            try:
                redis.ping()
                return
            except ConnectionError as error:
                if time.monotonic() > deadline:
                    raise RuntimeError(f"no Redis answers at {url} (DHAGA_REDIS): {error}") from None
                time.sleep(0.02)


def stored(url: str, tasks: list[str]) -> int:
    """Return how many of these tasks have a stored result, and remove the results."""
    with Redis.from_url(url) as redis:
        return sum(cast(int, redis.delete(f"celery-task-meta-{task}")) for task in tasks)
