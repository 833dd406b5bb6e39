"""Settings of Celery's pool of dhagas, and warnings about Celery's settings that do not apply to this pool."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from celery.exceptions import ImproperlyConfigured
from celery.utils import threads as celery_threads
from celery.utils.log import get_logger

logger = get_logger("celery.pool")

FOREIGN = {
    "maxtasksperchild": "worker_max_tasks_per_child (--max-tasks-per-child): there are no child processes to replace",
    "max_memory_per_child": "worker_max_memory_per_child (--max-memory-per-child): there are no child processes",
    "allow_restart": "worker_pool_restarts: there are no child processes to restart, only modules are reloaded",
}
"""Settings that have no effect on this pool. The keys are the names of the prefork pool's options."""


class Options:
    """The validated settings ``worker_dhaga_…``. Raises: ImproperlyConfigured."""

    def __init__(self, conf: Mapping[str, Any], concurrency: int | None) -> None:
        self.threads: int = count(conf, "worker_dhaga_threads", 1)
        self.blocking_results: bool = flag(conf, "worker_dhaga_blocking_results", False)
        self.watch: float = seconds(conf, "worker_dhaga_watch", 1.0)
        if celery_threads.USE_FAST_LOCALS:
            raise ImproperlyConfigured(
                "USE_FAST_LOCALS keeps current_task per OS thread, so that all tasks of a thread would share it: unset "
                "this environment variable to run tasks as dhagas"
            )
        if concurrency and concurrency < self.threads:
            raise ImproperlyConfigured(
                f"worker_dhaga_threads is {self.threads}, but only {concurrency} tasks may run at once: raise "
                "--concurrency, which counts tasks, or lower the number of OS threads"
            )


def count(conf: Mapping[str, Any], name: str, default: int) -> int:
    value = conf.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ImproperlyConfigured(f"{name} is a number of OS threads, 1 or more, not {value!r}")
    return value


def flag(conf: Mapping[str, Any], name: str, default: bool) -> bool:
    value = conf.get(name, default)
    if not isinstance(value, bool):
        raise ImproperlyConfigured(f"{name} is True or False, not {value!r}")
    return value


def seconds(conf: Mapping[str, Any], name: str, default: float) -> float:
    value = conf.get(name, default)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < float("inf"):
        raise ImproperlyConfigured(f"{name} is a number of seconds, 0 for never, not {value!r}")
    return float(value)


def refuse_unknown(conf: Mapping[str, Any]) -> None:
    """Check the names of settings. Raises: ImproperlyConfigured for an unknown setting ``worker_dhaga_…``."""
    known = ("worker_dhaga_threads", "worker_dhaga_blocking_results", "worker_dhaga_watch")
    for name in conf:
        if str(name).lower().startswith("worker_dhaga_") and str(name).lower() not in known:
            raise ImproperlyConfigured(f"there is no setting {name}; the pool of dhagas has {', '.join(known)}")


def warn_of_foreign(options: Mapping[str, Any], forking: bool) -> None:
    """Log the options of Celery that have no effect on this pool."""
    for name, words in FOREIGN.items():
        if options.get(name):
            logger.warning("the pool of dhagas does not take %s", words)
    if options.get("sched_strategy") == "fair":
        logger.warning("the pool of dhagas does not need -O fair: no task waits for another while there is room")
    if not forking:
        logger.warning("the pool of dhagas does not take worker_pool_start_method: it starts no processes")
