"""A Celery app whose task blocks by time.sleep, set up by DOOR_NAME (its queue), DOOR_REDIS, DOOR_POOL, DOOR_LATE."""

from __future__ import annotations

import os
import threading
import time

from celery import Celery

from tests.packages.doors.meeting import meet

name, url = os.environ["DOOR_NAME"], os.environ["DOOR_REDIS"]
app = Celery(name, broker=url, backend=url)
app.conf.update(
    task_default_queue=name,
    control_exchange=name,
    event_exchange=f"{name}.events",
    worker_prefetch_multiplier=1,
    broker_transport_options={"global_keyprefix": f"{name}:"},
    result_backend_transport_options={"global_keyprefix": f"{name}:"},
)
if pool := os.environ.get("DOOR_POOL"):
    app.conf.worker_pool = pool
if os.environ.get("DOOR_LATE"):

    class Early(threading.Thread):
        """What an app has derived before the pool is imported."""


@app.task(name="meet")
def meet_by_sleep(crowd: int) -> int:
    return meet(crowd, lambda: time.sleep(0.02))
