"""The app and its tasks, for a worker: `celery -A benchmarks.celery_pool.app worker`, with settings in the environment.

Each task marks the time at which the pool has finished it, after the worker has stored the task's result.
"""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from celery import Celery, Task

from benchmarks.celery_pool.completion_times import CompletionTimes


def _sleep(pool: str) -> Callable[[float], object]:
    """Return the pool's function for waits. Dhaga is imported only for Dhaga's own pool."""
    if pool != "dhaga":
        return time.sleep
    from dhaga import sleep

    return sleep


sleep = _sleep(os.environ["CELERIES_POOL"])

marks = CompletionTimes(Path(os.environ["CELERIES_MARKS"]))
app = Celery("celeries", broker=os.environ["CELERIES_BROKER"], backend=os.environ["CELERIES_BACKEND"])
app.conf.update(
    result_expires=600,
    redis_max_connections=5000,  # for results; redis-py's default is 100, and an additional connection fails
    # Otherwise each gevent greenlet creates its own backend, and an empty task takes three times as long.
    result_backend_thread_safe=os.environ["CELERIES_POOL"] == "gevent",
)


class TimedTask(Task):  # type: ignore[misc]
    """A task that marks the time of its end."""

    def after_return(self, status: str, retval: Any, task_id: str, args: Any, kwargs: Any, einfo: Any) -> None:
        """Mark that a task is done and its result is stored."""
        marks.set(args[0])


@app.task(base=TimedTask, name="empty", ignore_result=True)  # type: ignore[untyped-decorator]
def empty(number: int) -> None:
    """Do nothing."""


@app.task(base=TimedTask, name="kept")  # type: ignore[untyped-decorator]
def kept(number: int) -> int:
    """Do nothing and return a result that is stored."""
    return number


@app.task(base=TimedTask, name="waiting", ignore_result=True)  # type: ignore[untyped-decorator]
def waiting(number: int, seconds: float) -> None:
    """Wait, as a task that waits for an answer does."""
    sleep(seconds)
