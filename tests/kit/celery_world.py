"""A Celery app with its worker in this process and its broker in memory."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.importorskip("celery")

from celery import Celery
from celery.contrib.testing.worker import start_worker
from celery.worker import state

import dhaga
from dhaga.integrations.celery import TaskPool

PATIENCE = 60


def until(condition: Callable[[], object]) -> None:
    """Wait until a condition holds, for at most ``PATIENCE`` seconds."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


class World:
    """An app with its worker. ``gate``: the event for which tasks wait. ``trace``: the notes of the tasks."""

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
        """Park until the test opens the gate, from another OS thread."""
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
                for _ in range(2):  # after only one message, the loop would notice only after two seconds
                    self.app.control.broadcast("heartbeat")


def come_to(result: Any) -> Any:
    """Return the result of a task, or raise its error."""
    return result.get(timeout=PATIENCE, interval=0.01)


class Said(logging.Handler):
    """Keeps the warnings that the pool and the watchdog log."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())

    def text(self) -> str:
        return "\n".join(self.lines)
