"""The app and its tasks, as a worker imports them: `celery -A benchmarks.celery_pool.app worker`, settings by environ.

Every task marks when all was done that the worker does for it in the pool: after its result was stored.
"""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from celery import Celery, Task

from benchmarks.celery_pool.completion_times import CompletionTimes


def _sleep(pool: str) -> Callable[[float], object]:
    """Return what waits in a pool; the others are to have nothing of Dhaga's in them."""
    if pool != "dhaga":
        return time.sleep
    from dhaga import sleep

    return sleep


sleep = _sleep(os.environ["CELERIES_POOL"])

marks = CompletionTimes(Path(os.environ["CELERIES_MARKS"]))
app = Celery("celeries", broker=os.environ["CELERIES_BROKER"], backend=os.environ["CELERIES_BACKEND"])
app.conf.update(
    result_expires=600,
    redis_max_connections=5000,  # for results; of redis-py itself 100, and one more fails
    # Else each greenlet of gevent's makes a backend of its own, for which an empty task takes three times as long.
    result_backend_thread_safe=os.environ["CELERIES_POOL"] == "gevent",
)


class TimedTask(Task):  # type: ignore[misc]
    """Marks its end."""

    def after_return(self, status: str, retval: Any, task_id: str, args: Any, kwargs: Any, einfo: Any) -> None:
        """Mark that a task is done, its result stored."""
        marks.set(args[0])


@app.task(base=TimedTask, name="empty", ignore_result=True)  # type: ignore[untyped-decorator]
def empty(number: int) -> None:
    """Do nothing."""


@app.task(base=TimedTask, name="kept")  # type: ignore[untyped-decorator]
def kept(number: int) -> int:
    """Do nothing, with a result that is kept."""
    return number


@app.task(base=TimedTask, name="waiting", ignore_result=True)  # type: ignore[untyped-decorator]
def waiting(number: int, seconds: float) -> None:
    """Wait, as for an answer."""
    sleep(seconds)
