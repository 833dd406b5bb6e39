"""A broker over Redis for taskiq, tasks, and what a worker takes from here: dhagas.

    taskiq worker tests.integrations.taskiqs:broker --receiver tests.integrations.taskiqs:OnDhagas

It names where tasks are put in by DHAGA_REDIS and TASKIQ_QUEUE.
"""

from __future__ import annotations

import asyncio
import os
import pickle
from collections.abc import AsyncGenerator
from typing import Any

import redis.asyncio
from taskiq import AsyncBroker, AsyncResultBackend, BrokerMessage, TaskiqResult
from taskiq.receiver import Receiver

import dhaga
from dhaga.futures import Executor
from dhaga.threading import Event

QUEUE = os.environ.get("TASKIQ_QUEUE", "dhaga-taskiq")


class OnDhagas(Receiver):
    """Runs what is not a coroutine in dhagas of the worker's own loop."""

    def __init__(self, broker: AsyncBroker, executor: Any = None, **options: Any) -> None:
        super().__init__(broker, Executor(dhagas=2000), **options)


class Results(AsyncResultBackend[Any]):
    """Keeps results in a hash."""

    def __init__(self, client: Any) -> None:
        self.client = client

    async def set_result(self, task_id: str, result: TaskiqResult[Any]) -> None:
        await self.client.hset(f"{QUEUE}-results", task_id, pickle.dumps(result))

    async def is_result_ready(self, task_id: str) -> bool:
        return bool(await self.client.hexists(f"{QUEUE}-results", task_id))

    async def get_result(self, task_id: str, with_logs: bool = False) -> TaskiqResult[Any]:
        result: TaskiqResult[Any] = pickle.loads(await self.client.hget(f"{QUEUE}-results", task_id))
        return result


class Broker(AsyncBroker):
    """Has its tasks in a list."""

    def __init__(self) -> None:
        address = os.environ.get("DHAGA_REDIS", "redis://127.0.0.1:6379/0")
        pool = redis.asyncio.BlockingConnectionPool.from_url(address, max_connections=20, timeout=60)
        self.client = redis.asyncio.Redis(connection_pool=pool)  # its own pool refuses the 101st of 1,000 results
        super().__init__()
        self.with_result_backend(Results(self.client))

    async def kick(self, message: BrokerMessage) -> None:
        await self.client.rpush(QUEUE, message.message)

    async def listen(self) -> AsyncGenerator[bytes, None]:
        while True:
            found = await self.client.blpop([QUEUE], timeout=1)
            if found:
                assert isinstance(found[1], bytes)
                yield found[1]

    async def shutdown(self) -> None:
        await super().shutdown()
        await self.client.aclose()


broker = Broker()
gate = Event()
parked: set[int] = set()


@broker.task
def wait(number: int) -> int:
    """Park until the gate is open."""
    parked.add(number)
    try:
        gate.wait(60)
    finally:
        parked.discard(number)
    return os.getpid()


@broker.task
async def count() -> int:
    return len(parked)


@broker.task
async def open_gate() -> None:
    gate.set()


@broker.task
def divide(a: int, b: int) -> float:
    dhaga.sleep(0)
    return a / b


@broker.task
def nap(seconds: float) -> str:
    dhaga.sleep(seconds)
    return "slept"


async def done(task: Any, seconds: float = 60) -> Any:
    """Wait for the result of a task that was put in."""
    found = await task.wait_result(timeout=seconds, check_interval=0.02)
    found.raise_for_error()
    return found.return_value


async def until_parked(number: int, seconds: float = 60) -> None:
    async with asyncio.timeout(seconds):
        while await done(await count.kiq()) < number:
            await asyncio.sleep(0.02)
