"""Worker processes that a driver has for itself: started, started again when they die, and ended with it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from examples._late import Late
from examples.backup.wire import BackupError

from .brokers import Broker
from .tasks import Tasks, WorkerOptions, host_name

signals: Any = Late("celery.signals")

ROOT: Final = Path(__file__).parents[2]
WARM_SECONDS: Final = 10.0
COLD_SECONDS: Final = 5.0
SHORT_LIFE: Final = 60.0  # seconds
SHORT_LIVES: Final = 3  # that a worker ended by itself, in a row: it is not started again
TAIL: Final = 12  # lines of a log


def environment(broker: Broker, worker_options: WorkerOptions) -> dict[str, str]:
    """Give the environment of a worker: what a list of processes need not show."""
    return {**os.environ, "CLUSTER_BROKER": broker.url, "BACKUP_TOKEN": worker_options.token, "PYTHONUNBUFFERED": "1"}


def arguments(broker: Broker, worker_options: WorkerOptions, number: int) -> list[str]:
    """Give the command line of a worker that ends with this process."""
    line = [sys.executable, "-m", "examples.cluster", "worker", "--attached"]
    line += ["--folder", str(broker.folder.absolute()), "--queue", broker.queue, "--number", str(number)]
    return line + [
        "--pool",
        worker_options.pool,
        "--concurrency",
        str(worker_options.concurrency),
        "--patience",
        f"{worker_options.patience:g}",
    ]


@dataclass
class Process:
    """One worker process and its log."""

    number: int
    log: Path
    ready: Path
    process: subprocess.Popen[bytes]
    began: float
    short_lives: int = 0


class Workers:
    """So many worker processes, as long as the context lasts."""

    def __init__(self, broker: Broker, worker_options: WorkerOptions, count: int) -> None:
        self.broker = broker
        self.worker_options = worker_options
        self.restarts = 0
        self.is_cold = False
        self.count = count
        self.processes: list[Process] = []

    def __enter__(self) -> Workers:
        for number in range(1, self.count + 1):
            log, ready = (self.broker.folder / f"worker-{number}.{kind}" for kind in ("log", "ready"))
            ready.unlink(missing_ok=True)
            self.processes.append(Process(number, log, ready, self._start(number, log), time.monotonic()))
        return self

    def __exit__(self, *error: object) -> None:
        """End them: after what they are doing, or at once where the run was broken off."""
        self._signal(signal.SIGQUIT if self.is_cold else signal.SIGTERM)
        deadline = time.monotonic() + (COLD_SECONDS if self.is_cold else WARM_SECONDS)
        for one in self.processes:
            try:
                one.process.wait(max(deadline - time.monotonic(), 0))
            except subprocess.TimeoutExpired:
                one.process.kill()
                one.process.wait()
            finally:
                assert one.process.stdin
                one.process.stdin.close()

    @property
    def are_ready(self) -> bool:
        """Return whether each has begun to take tasks."""
        return all(one.ready.exists() for one in self.processes)

    def check(self) -> list[str]:
        """Start again those that have died. Returns: what is to be said of it.

        Raises: BackupError if one does not stay alive.
        """
        said: list[str] = []
        for one in self.processes:
            status = one.process.poll()
            if status is not None:
                said.append(f"worker {one.number} {_how(status)}: started again")
                self._start_again(one, status)
        return said

    def _start_again(self, one: Process, status: int) -> None:
        is_short = status >= 0 and time.monotonic() - one.began < SHORT_LIFE
        one.short_lives = one.short_lives + 1 if is_short else 0
        if one.short_lives >= SHORT_LIVES:
            raise BackupError(f"worker {one.number} does not stay alive; the end of its log:\n{_tail(one.log)}")
        self.restarts += 1
        assert one.process.stdin
        one.process.stdin.close()
        one.process = self._start(one.number, one.log)
        one.began = time.monotonic()

    def _start(self, number: int, log: Path) -> subprocess.Popen[bytes]:
        with open(log, "ab") as file:
            return subprocess.Popen(
                arguments(self.broker, self.worker_options, number),
                cwd=ROOT,
                env=environment(self.broker, self.worker_options),
                stdin=subprocess.PIPE,  # it ends when this does: not even a driver that is killed leaves workers behind
                stdout=file,
                stderr=file,
                start_new_session=True,  # Ctrl-C is for the driver, who ends them
            )

    def _signal(self, number: int) -> None:
        for one in self.processes:
            if one.process.poll() is None:
                one.process.send_signal(number)


def _how(status: int) -> str:
    if status >= 0:
        return f"ended with status {status}"
    return f"was killed by {signal.Signals(-status).name}"


def _tail(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-TAIL:])


# ---- in the worker ----


def work(broker: Broker, worker_options: WorkerOptions, number: int, *, attached: bool) -> int:
    """Be a worker until a signal comes. Returns: the exit status."""
    if attached:
        threading.Thread(target=_end_with_parent, daemon=True).start()
    line = ["worker", "--concurrency", str(worker_options.concurrency), "--hostname", host_name(number)]
    line += ["--loglevel", "INFO", "--without-gossip", "--without-mingle", "--without-heartbeat"]
    tasks = Tasks(broker, worker_options)

    def tell(**about: object) -> None:
        (broker.folder / f"worker-{number}.ready").touch()

    signals.worker_ready.connect(tell)
    try:
        tasks.app.worker_main(line)
    except SystemExit as ended:
        return int(ended.code or 0)
    return 0


def _end_with_parent() -> None:
    while os.read(0, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(WARM_SECONDS)
    os.kill(os.getpid(), signal.SIGKILL)


class EmbeddedWorker:
    """A worker in a thread of this process: all that a broker in memory can have."""

    def __init__(self, tasks: Tasks) -> None:
        self.tasks = tasks
        self.restarts = 0
        self.is_cold = False
        self._worker: Any = None
        self._thread = threading.Thread(target=self._run, name="worker", daemon=True)

    def __enter__(self) -> EmbeddedWorker:
        app: Any = self.tasks.app
        app.finalize()
        app.set_default()  # what a pool's thread looks its tasks up in, where no worker command has set another
        self._worker = app.WorkController(
            hostname=host_name(1),
            pool=app.conf.worker_pool,
            concurrency=self.tasks.worker_options.concurrency,
            loglevel="ERROR",
            without_heartbeat=True,
            without_mingle=True,
            without_gossip=True,
        )
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        from celery.worker import state

        (state.should_terminate, state.should_stop) = (0, None) if self.is_cold else (None, 0)
        self._thread.join(WARM_SECONDS)
        state.should_terminate = state.should_stop = None
        self.tasks.connections.close()

    @property
    def are_ready(self) -> bool:
        """Return whether it has begun to take tasks: it need not be waited for."""
        return True

    def check(self) -> list[str]:
        """See whether it lives.

        Raises: BackupError if not.
        """
        if not self._thread.is_alive():
            raise BackupError("the worker has ended")
        return []

    def _run(self) -> None:
        self._worker.start()
