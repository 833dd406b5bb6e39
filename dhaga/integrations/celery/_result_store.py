"""Stores task results. The storing dhaga parks, so that the other tasks of its OS thread keep running.

A Redis backend without TLS parks in every call, and pipelines concurrent results (``_redis_batches``). Other backends
store results in an offload pool. Only storing is offloaded. Reading results and counting the results of a chord stay in
the task's thread, because they depend on the current task.
"""

from __future__ import annotations

import sys
from typing import Any

from celery.states import READY_STATES, REVOKED
from greenlet import getcurrent

from ..._kernel.api import sleep
from ..._workers.offload import OffloadPool
from ...socket import adopt
from ._jobs import Job, logger
from ._redis_batches import CommandBatcher

MAX_OFFLOADED = 16
"""Maximum number of results that the offload pool stores at once. Further tasks that store a result wait."""


class ResultStore:
    """The replacement of ``store_result`` of a backend."""

    def __init__(self, backend: Any, offload_pool: OffloadPool | None) -> None:
        self.store = backend.store_result
        self.offload_pool = offload_pool

    def __call__(self, task_id: str, result: Any, state: str, *args: Any, **kwargs: Any) -> Any:
        """Store a result. Parks: until the result is stored, unless storing blocks or stays in this process."""
        job = getattr(getcurrent(), "_call_future", None)
        if isinstance(job, Job) and state in READY_STATES and not self.accept_result(job, task_id, state):
            return result
        if self.offload_pool is not None:
            return self.offload_pool.offload(self.store, task_id, result, state, *args, **kwargs)
        return self.store(task_id, result, state, *args, **kwargs)

    def accept_result(self, job: Job, task_id: str, state: str) -> bool:
        """Disarm the job, because the task's own code has ended.

        Returns: False if the task was revoked but continued.
        """
        if job.task_id != task_id:
            return True
        revoked = job.ending is not None and job.ending.limit is None
        if revoked and state != REVOKED:
            logger.warning("task %s was revoked, but continued: its result is not stored", job.title)
            return False
        job.disarm()
        return True


def wrap_backend(app: Any, offload_pool: OffloadPool | None) -> None:
    """Replace ``store_result`` of this OS thread's backend, which may also be the backend of all other threads."""
    backend = app.backend
    if not isinstance(backend.__dict__.get("store_result"), ResultStore):
        parks = offload_pool is not None and not backend.thread_safe and use_parking_redis(backend)
        backend.store_result = ResultStore(backend, None if parks or in_process(backend) else offload_pool)


def use_parking_redis(backend: Any) -> bool:
    """Make a Redis backend park and pipeline its commands, if the backend has no TLS and is not yet connected.

    The backend's pauses between retries also park. Returns: whether the backend parks.
    """
    module = sys.modules.get("celery.backends.redis")
    if module is None or type(backend) is not module.RedisBackend or "client" in backend.__dict__:
        return False
    redis = backend.redis
    connection_class = backend.connparams.get("connection_class", redis.Connection)
    if connection_class not in (redis.Connection, redis.UnixDomainSocketConnection):
        return False

    class ParkingConnection(connection_class):  # type: ignore[misc, valid-type]
        def _connect(self) -> Any:
            return adopt(super()._connect())

    backend.connparams["connection_class"] = ParkingConnection
    batches = CommandBatcher(backend)
    backend.get, backend._set = batches.get, batches.set
    retry_delay = backend.on_connection_error

    def sleep_and_retry(*about: Any) -> float:
        sleep(retry_delay(*about))
        return 0.0  # number of seconds for kombu's own sleep, which would block the OS thread

    backend.on_connection_error, backend._sleep = sleep_and_retry, sleep
    return True


def disconnect(app: Any) -> None:
    """Close this OS thread's Redis connections if they park."""
    backend = app.backend
    client = backend.__dict__.get("client")
    if (
        client is not None
        and getattr(backend, "connparams", {}).get("connection_class", object).__name__ == "ParkingConnection"
    ):
        client.connection_pool.disconnect()


def in_process(backend: Any) -> bool:
    """Return whether results stay in this process. Storing then never waits."""
    return type(backend).__name__ == "DisabledBackend" or getattr(backend, "backend", None) == "memory"
