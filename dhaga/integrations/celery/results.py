"""The result backend as tasks see it: a result on its way to the store holds up nobody else.

Over Redis the connections themselves park, for whatever a task asks of its backend, and results that come at the same
time share a way there (``batches.py``). What other backends store goes through further OS threads: their chords count
their parts, and are asked for results, where the task runs, as what is done there depends on who does it.
"""

from __future__ import annotations

import sys
from typing import Any

from celery.states import READY_STATES, REVOKED
from greenlet import getcurrent

from dhaga.kernel.api import sleep
from dhaga.offload import OffloadPool
from dhaga.socket import adopt

from .batches import Batches
from .jobs import Job, logger

AT_ONCE = 16
"""Results on their way at once through further OS threads; more wait their turn, and with them only their tasks."""


class Store:
    """Stand in for ``backend.store_result``."""

    def __init__(self, backend: Any, door: OffloadPool | None) -> None:
        self.store = backend.store_result
        self.door = door

    def __call__(self, task_id: str, result: Any, state: str, *args: Any, **kwargs: Any) -> Any:
        """Store a result. Parks: while it is on its way, unless that is within this process."""
        job = getattr(getcurrent(), "making", None)
        if isinstance(job, Job) and state in READY_STATES and not self.is_wanted(job, task_id, state):
            return result
        if self.door is not None:
            return self.door.offload(self.store, task_id, result, state, *args, **kwargs)
        return self.store(task_id, result, state, *args, **kwargs)

    def is_wanted(self, job: Job, task_id: str, state: str) -> bool:
        """Note that the task's own code has ended; False for what a revoked task returned all the same."""
        if job.task_id != task_id:
            return True
        revoked = job.ending is not None and job.ending.limit is None
        if revoked and state != REVOKED:
            logger.warning("task %s was revoked, but went on: what it came to is not stored", job.title)
            return False
        job.settle()
        return True


def equip(app: Any, door: OffloadPool | None) -> None:
    """Have the results of this OS thread go through a Store; Celery has a backend for each thread, or one for all."""
    backend = app.backend
    if not isinstance(backend.__dict__.get("store_result"), Store):
        parks = door is not None and not backend.thread_safe and let_redis_park(backend)
        backend.store_result = Store(backend, None if parks or in_process(backend) else door)


def let_redis_park(backend: Any) -> bool:
    """Have a backend park, and results share a way, if it is of Redis, without TLS, and has no connection yet.

    It parks while it waits to try again, too.
    """
    module = sys.modules.get("celery.backends.redis")
    if module is None or type(backend) is not module.RedisBackend or "client" in backend.__dict__:
        return False
    redis = backend.redis
    plain = backend.connparams.get("connection_class", redis.Connection)
    if plain not in (redis.Connection, redis.UnixDomainSocketConnection):
        return False

    class Parking(plain):  # type: ignore[misc, valid-type]
        def _connect(self) -> Any:
            return adopt(super()._connect())

    backend.connparams["connection_class"] = Parking
    batches = Batches(backend)
    backend.get, backend._set = batches.get, batches.set
    rest_of = backend.on_connection_error

    def rest(*about: Any) -> float:
        sleep(rest_of(*about))
        return 0.0  # seconds that kombu is still to wait, which would hold up the OS thread

    backend.on_connection_error, backend._sleep = rest, sleep
    return True


def disconnect(app: Any) -> None:
    """Close the connections of this OS thread to Redis, if they are ours."""
    backend = app.backend
    client = backend.__dict__.get("client")
    if client is not None and getattr(backend, "connparams", {}).get("connection_class", object).__name__ == "Parking":
        client.connection_pool.disconnect()


def in_process(backend: Any) -> bool:
    """Tell whether results stay in this process, where to store one never waits."""
    return type(backend).__name__ == "DisabledBackend" or getattr(backend, "backend", None) == "memory"
