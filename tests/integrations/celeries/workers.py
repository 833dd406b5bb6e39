"""Celery workers as processes of their own, and what a test asks them over a broker that is really there.

All that is made in the broker and in Redis bears a name of its own, and is deleted at the end.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import celery
import redis
from kombu import pools

from tests.integrations.celeries.gate import PATIENCE, Gate
from tests.kit.scripts import ROOT

POOL = "dhaga.integrations.celery:TaskPool"
APP = "tests.integrations.celeries.app"
BARE = ("--without-gossip", "--without-mingle", "--without-heartbeat")
"""What one worker of its own does not need; mingle alone takes a second."""

ENVIRONMENT = {"PYTHONPATH": str(ROOT), "PYTHONFAULTHANDLER": "1"}
VISIBLE = 1
"""Seconds after which Redis may give a task that is not acknowledged to others; without this it is an hour."""


class Cluster:
    """Queues of its own on a broker, a gate for its tasks, and the workers that were started on them."""

    def __init__(self, broker: str, backend: str, folder: Path, **conf: Any) -> None:
        self.name = f"dhaga-{uuid.uuid4().hex[:12]}"
        self.broker = broker
        self.backend = backend
        self.folder = folder
        self.gate = Gate()
        self.conf = self.base_conf() | conf
        self.app = celery.Celery(self.name, set_as_current=False)
        self.app.conf.update(self.conf | {"broker_url": broker, "result_backend": backend})
        self.workers: list[Worker] = []

    def base_conf(self) -> dict[str, Any]:
        conf: dict[str, Any] = {
            "broker_url": self.broker,
            "result_backend": self.backend,
            "worker_pool": POOL,
            "task_default_queue": self.name,
            "control_exchange": self.name,
            "event_exchange": f"{self.name}.events",
            "event_queue_prefix": f"{self.name}.event",
            "result_backend_transport_options": {"global_keyprefix": f"{self.name}:"},
            "broker_connection_retry_on_startup": True,
            "result_extended": True,
        }
        if self.broker.startswith("redis"):
            conf["broker_transport_options"] = {"global_keyprefix": f"{self.name}:"}
        return conf

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for worker in self.workers:
            worker.kill()
        self.gate.__exit__()
        self.delete()
        self.disconnect()

    def worker(self, *options: str, environment: dict[str, str] | None = None, **conf: Any) -> Worker:
        """Start a worker. Returns: it, when it is ready."""
        return self.start(*options, environment=environment, **conf).ready()

    def start(self, *options: str, environment: dict[str, str] | None = None, **conf: Any) -> Worker:
        worker = Worker(self, f"w{len(self.workers) + 1}", options, environment or {}, self.conf | conf)
        self.workers.append(worker)
        return worker

    def worker_to_lose(self, *options: str) -> Worker:
        """Start a worker as others are started that take over what it leaves when it is killed."""
        if not self.broker.startswith("redis"):
            return self.worker(*options)
        return self.worker(
            *options, broker_transport_options={**self.conf["broker_transport_options"], "visibility_timeout": VISIBLE}
        )

    def take_over(self, *options: str) -> Worker:
        """Start a worker in the place of one that was killed."""
        if self.broker.startswith("redis"):
            time.sleep(VISIBLE + 0.1)  # kombu looks when a worker starts, and then every 100 s
        return self.worker_to_lose(*options)

    # ---- what to do

    def send(self, task: str, *args: Any, **options: Any) -> Any:
        return self.app.send_task(task, args, **options)

    def send_all(self, task: str, names: list[str]) -> list[Any]:
        with self.app.producer_or_acquire() as producer:
            return [self.app.send_task(task, [name], producer=producer) for name in names]

    def task(self, name: str, *args: Any) -> Any:
        """Return a signature, for chains, groups and chords."""
        return self.app.signature(name, args=args)

    # ---- what was done

    @property
    def journal(self) -> Path:
        return self.folder / f"{self.name}.journal"

    def notes(self) -> list[str]:
        """Return what the tasks have noted so far."""
        return self.journal.read_text().splitlines() if self.journal.exists() else []

    def wait_until(self, condition: Callable[[], Any], *, what: str = "") -> Any:
        """Return what a condition gives once that is true."""
        deadline = time.monotonic() + PATIENCE
        while not (result := condition()):
            assert time.monotonic() < deadline, f"{what or 'it'} does not come; noted: {self.notes()}"
            time.sleep(0.02)
        return result

    def queued(self) -> int:
        """Count the messages that lie in the queue, with no worker."""
        if self.broker.startswith("redis"):
            with redis.Redis.from_url(self.broker) as client:
                return int(client.llen(f"{self.name}:{self.name}"))
        with self.app.connection_for_read() as connection, connection.channel() as channel:
            return int(channel.queue_declare(self.name, passive=True).message_count)

    # ---- clean up

    def disconnect(self) -> None:
        """Close what Celery would leave to the garbage collector."""
        self.app.backend.result_consumer.stop()
        self.app.backend.client.connection_pool.disconnect()
        pools.reset()
        self.app.close()

    def delete(self) -> None:
        if self.broker.startswith("amqp"):
            self.delete_in_rabbitmq()
        with redis.Redis.from_url(self.backend) as client:
            if keys := list(client.scan_iter(match=f"*{self.name}*", count=1000)):
                client.delete(*keys)

    def delete_in_rabbitmq(self) -> None:
        with self.app.connection_for_write() as connection:
            channel = connection.default_channel
            channel.queue_delete(self.name)
            for exchange in (self.name, f"{self.name}.pidbox", f"reply.{self.name}.pidbox", f"{self.name}.events"):
                channel.exchange_delete(exchange)


class Worker:
    """A worker process, and its log."""

    def __init__(
        self, cluster: Cluster, node: str, options: tuple[str, ...], environment: dict[str, str], conf: dict[str, Any]
    ) -> None:
        self.node = f"{node}@{cluster.name}"
        self.path = cluster.folder / f"{self.node}.log"
        self.control = cluster.app.control
        settings = {
            "name": cluster.name,
            "conf": conf,
            "gate": cluster.gate.address,
            "journal": str(cluster.journal),
        }
        command = [sys.executable, "-m", "celery", "-A", APP, "worker", "-n", self.node, "--loglevel", "info", *options]
        with open(self.path, "wb") as log:
            self.process = subprocess.Popen(
                command,
                cwd=ROOT,
                env={**os.environ, **ENVIRONMENT, "CELERIES": json.dumps(settings), **environment},
                stdin=subprocess.PIPE,  # it ends when this is closed: see app.py
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self.process.pid

    def log(self) -> str:
        return self.path.read_text()

    def end_of_log(self) -> str:
        """Return what to read where a test fails."""
        return "\n".join(self.log().splitlines()[-80:])

    def logs(self, pattern: str) -> re.Match[str]:
        """Wait until the log has something like this."""
        deadline = time.monotonic() + PATIENCE
        while not (match := re.search(pattern, self.log())):
            assert self.process.poll() is None, f"the worker has ended without {pattern!r}:\n{self.end_of_log()}"
            assert time.monotonic() < deadline, f"{pattern!r} does not come:\n{self.end_of_log()}"
            time.sleep(0.02)
        return match

    def ready(self) -> Worker:
        self.logs(r"@\S+ ready\.")
        return self

    def inspect(self, method: str, *args: Any) -> Any:
        """Ask this worker alone; return its answer."""
        answers = getattr(self.control.inspect([self.node], limit=1, timeout=PATIENCE), method)(*args)
        assert answers, f"no answer to {method!r}:\n{self.end_of_log()}"
        return answers[self.node]

    def concurrency(self) -> int:
        return int(self.inspect("stats")["pool"]["max-concurrency"])

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def end(self) -> int:
        """Wait until the process has ended. Returns: its exit status."""
        try:
            return self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.signal(signal.SIGABRT)  # it logs where its threads are
            self.process.wait()
            raise AssertionError(f"the worker does not end:\n{self.end_of_log()}") from None

    def kill(self) -> None:
        """End all of it, whatever it does."""
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        assert self.process.stdin is not None
        self.process.stdin.close()
