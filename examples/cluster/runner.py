"""A whole run: its workers, its driver, its progress; what is left of it in the broker when it is broken off."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from examples._late import Late
from examples.backup.rpc import Address
from examples.backup.wire import BackupError

from .brokers import REACH_SECONDS, Broker
from .driver import TICK, Driver, Timeouts
from .fleet import Fleet
from .outcome import Outcome
from .processes import EmbeddedWorker, Workers
from .report import Progress
from .run_names import Run
from .tasks import Tasks, WorkerOptions, application

kombu: Any = Late("kombu.exceptions")


@dataclass(frozen=True)
class Plan:
    """How a run is to be done; with `workers` 0 there are some already, elsewhere."""

    broker: Broker
    server: Address
    worker_options: WorkerOptions
    workers: int
    timeouts: Timeouts
    quiet: bool = False


def conduct(plan: Plan, fleet: Fleet, kill_at: int = 0) -> Outcome:
    """Back a fleet up; `kill_at`: kill -9 the first worker when so many sources are saved.

    Raises: BackupError if it cannot begin.
    """
    plan.broker.prepare()
    app = application(plan.broker)
    check_broker(app, plan.broker)
    run = Run.of(plan.broker.folder, plan.server, fleet)
    driver = Driver(app, plan.server, run.name, fleet, plan.timeouts)
    driver.server.connect()
    progress = Progress(len(fleet.sources), quiet=plan.quiet)
    if run.goes_on:
        progress.say(f"going on with run {run.name}")
        if plan.workers:
            _clear_queue(app, plan.broker)  # of what a driver that was killed has left there
    with ExitStack() as stack:
        stack.callback(app.close)
        stack.callback(progress.close)
        workers = stack.enter_context(crew_of(plan))
        outcome = _run(driver, progress, workers, kill_at)
        outcome.restarts = workers.restarts
        workers.is_cold = bool(outcome.left)
        if outcome.left and plan.workers:
            stack.enter_context(_deaf_to_ctrl_c())
            _clear_queue(app, plan.broker)
    if outcome.left or outcome.failed:
        _recount(driver)
    if not outcome.left:
        run.finish()
    return outcome


def _run(driver: Driver, progress: Progress, workers: Any, kill_at: int) -> Outcome:
    try:
        while not workers.are_ready:
            for line in workers.check():
                progress.say(line)
            time.sleep(TICK)
    except KeyboardInterrupt:
        driver.outcome.interrupted = True
    except BackupError as error:
        driver.outcome.error = str(error)
    else:
        driver.run(_ticking(progress, workers, kill_at))
    driver.server.close()
    return driver.outcome


def _recount(driver: Driver) -> None:
    try:
        driver.recount()
    except BackupError as error:
        driver.outcome.error = driver.outcome.error or str(error)


def crew_of(plan: Plan) -> Any:
    """Give the workers of a run, as a context."""
    if plan.broker.in_one_process:
        return EmbeddedWorker(Tasks(plan.broker, plan.worker_options))
    return Workers(plan.broker, plan.worker_options, plan.workers)


def check_broker(app: Any, broker: Broker) -> None:
    """See whether the broker answers.

    Raises: BackupError.
    """
    try:
        with app.connection_for_write() as connection:
            connection.ensure_connection(max_retries=1, interval_start=0.2, timeout=REACH_SECONDS)
    except (kombu.OperationalError, OSError) as error:
        raise BackupError(f"cannot reach the broker {broker.shown} ({error}): is it running there?") from None


def _ticking(progress: Progress, workers: Any, kill_at: int) -> Any:
    def each_tick(driver: Driver) -> None:
        nonlocal kill_at
        if kill_at and len(driver.outcome.saved) >= kill_at:
            kill_at = 0
            progress.say("kill -9 of worker 1")
            workers.processes[0].process.send_signal(signal.SIGKILL)
        for line in workers.check():
            progress.say(line)
        progress.draw(driver)

    return each_tick


@contextmanager
def _deaf_to_ctrl_c() -> Iterator[None]:
    """Let the end be reached in peace: a second Ctrl-C would leave workers behind."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def forget(broker: Broker) -> None:
    """Take a queue away from its broker, with all that hangs on it."""
    app = application(broker)
    with app.connection_for_write() as connection:
        channel = connection.default_channel
        channel.queue_delete(broker.queue)
        channel.exchange_delete(broker.queue)
        if broker.scheme in ("redis", "rediss"):
            _forget_keys(channel.client, broker.queue)
    app.close()


def _forget_keys(client: Any, prefix: str) -> None:
    for key in list(client.scan_iter(f"{prefix}:*")):
        client.execute_command("UNLINK", key)


def _clear_queue(app: Any, broker: Broker) -> None:
    """Take away what no worker has taken yet: the next run sends it again."""
    try:
        with app.connection_for_write() as connection:
            app.amqp.queues[broker.queue].bind(connection.default_channel).purge()
    except (kombu.OperationalError, OSError):
        pass
