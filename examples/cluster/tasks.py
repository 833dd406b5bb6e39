"""The Celery application and its one task: save a source as the snapshot of a given name.

The task may be run any number of times, also at the same time in several places: it begins by asking the server, which
commits a name once. What is interrupted, by a cut or by kill -9, the server throws away with the connection.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from examples._late import Late
from examples.backup.client import Saver
from examples.backup.jobs import Tally, Worker
from examples.backup.rpc import Address, Client
from examples.backup.tree import Source, show
from examples.backup.wire import BackupError, printable
from examples.backup.workers import UNITS, Unit

from .brokers import Broker

celery: Any = Late("celery")

TASK: Final = "examples.cluster.save"
DHAGA_POOL: Final = "dhaga.integrations.celery:TaskPool"
POOLS: Final = {"dhaga": DHAGA_POOL, "threads": "threads", "prefork": "prefork"}
TRIES: Final = 3
PAUSE_SECONDS: Final = 2
SHOWN: Final = 20  # problems that a report holds


class Unsavable(BackupError):
    """A source of which no snapshot can be made: to try again would not help."""


@dataclass
class Report:
    """What became of a source, as its task tells it."""

    worker: str
    files: int = 0
    bytes: int = 0
    sent: int = 0
    deduplicated: int = 0
    seconds: float = 0.0
    retries: int = 0
    problems: list[str] = field(default_factory=list)
    problem_count: int = 0
    was_there: bool = False


class SourceBackup:
    """One source on its way to the server."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.problems: list[str] = []

    def problem(self, path: bytes, text: str) -> None:
        """Hear what went wrong with one file."""
        self.problems.append(f"{show(path)}: {printable(text)}")

    def note(self, path: bytes, text: str) -> None:
        """Hear of what is skipped on purpose, and say nothing."""

    def run(self, source: str, name: str, report: Report) -> None:
        """Save a source, and put into the report what it took.

        Raises: BackupError.
        """
        saver = Saver(self, Source(os.fsencode(source)))
        if not saver.claim(name, source):
            report.was_there = True
            return
        look_into(source)
        worker = Worker(self.client, Tally())
        for entry in saver.files():
            saver.save(worker, entry)
        while names := saver.names_of_nothing():
            for entry in names:
                saver.save(worker, entry)
        saver.commit_as(name, source)
        for part, count in asdict(worker.tally).items():
            setattr(report, part, count)
        report.problems = self.problems[:SHOWN]
        report.problem_count = len(self.problems)


def look_into(source: str) -> None:
    """See whether a directory can be listed.

    Raises: Unsavable.
    """
    try:
        os.scandir(source).close()
    except OSError as error:
        raise Unsavable(f"cannot back up {source}: {error.strerror}") from None


class Connections:
    """The connections of one worker process that have nothing to do just now.

    Each stays in the OS thread that made it: a socket of dhagas belongs to the scheduler of its thread.
    """

    def __init__(self, unit: Unit) -> None:
        self.unit = unit
        self._stop = unit.threading.Event()
        self._local = threading.local()
        self._all: list[Client] = []

    def take(self, address: Address) -> Client:
        """Give a connection to a server, be it an idle one."""
        idle: list[Client] = self._idle(address)
        if idle:
            return idle.pop()
        client = Client(self.unit, address, self._stop)
        self._all.append(client)
        return client

    def give_back(self, client: Client) -> None:
        """Keep a connection on which nothing is under way."""
        self._idle(client.address).append(client)

    def drop(self, client: Client) -> None:
        """Close a connection, and with it what was begun on it."""
        client.close()
        self._all.remove(client)

    def close(self) -> None:
        """Close all connections, when no task runs any more."""
        for client in self._all:
            client.close()

    def _idle(self, address: Address) -> list[Client]:
        found: list[Client] = self._local.__dict__.setdefault(str(address), [])
        return found


@dataclass(frozen=True)
class WorkerOptions:
    """How the tasks of a worker process are run, and what they tell the backup server."""

    pool: str = "dhaga"
    concurrency: int = 1000
    token: str = ""
    patience: float = 60.0

    def unit(self) -> Unit:
        """Give the unit of concurrency that tasks are to use."""
        return UNITS["dhagas" if self.pool == "dhaga" else "threads"]()


class Tasks:
    """The application, with the task bound to a worker's options."""

    def __init__(self, broker: Broker, worker_options: WorkerOptions) -> None:
        self.worker_options = worker_options
        self.connections = Connections(worker_options.unit())
        self.app = application(broker)
        self.app.conf.worker_pool = POOLS[worker_options.pool]

        def save(task: Any, source: str, name: str, host: str, port: int) -> dict[str, object]:
            return self.save(task, source, name, host, port)

        # Not self.save: Celery makes what it is given a method of its task, and that is one already.
        self.app.task(save, name=TASK, bind=True, throws=(BackupError,), shared=False, max_retries=TRIES - 1)

    def save(self, task: Any, source: str, name: str, host: str, port: int) -> dict[str, object]:
        """Save a source under a name.

        Raises: Unsavable or BackupError when there is no snapshot in the end, Retry when it is tried again later.
        """
        began = time.monotonic()
        report = Report(f"{task.request.hostname}", retries=task.request.retries)
        address = Address(host, port, self.worker_options.token, self.worker_options.patience)
        try:
            self._run(address, source, name, report)
        except Unsavable:
            raise
        except BackupError as error:
            raise task.retry(exc=error, countdown=PAUSE_SECONDS) from None
        report.seconds = time.monotonic() - began
        return asdict(report)

    def _run(self, address: Address, source: str, name: str, report: Report) -> None:
        client = self.connections.take(address)
        try:
            SourceBackup(client).run(source, name, report)
        except BaseException:
            self.connections.drop(client)
            raise
        self.connections.give_back(client)


def application(broker: Broker) -> Any:
    """Make a Celery application at a broker, without tasks: enough to send some."""
    app = celery.Celery("cluster", set_as_current=False)
    app.conf.update(
        task_acks_late=True,
        task_reject_on_worker_lost=True,
        task_track_started=False,
        worker_prefetch_multiplier=1,
        worker_hijack_root_logger=True,
        broker_connection_retry_on_startup=True,
        result_expires=3600,
        **broker.settings(),
    )
    return app


def host_name(number: int) -> str:
    """Name a worker process."""
    return f"worker-{number}@{socket.gethostname()}"
