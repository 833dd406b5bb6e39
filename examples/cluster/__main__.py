"""The command line: python -m examples.cluster demo|run|worker.

Exit status: 0 done; 1 not done; 2 the command line is wrong; 3 done, but for the files that were reported; 130 Ctrl-C.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from examples.backup.__main__ import INTERRUPTED, REPORTED, TOKEN_VARIABLE, at_least_one, place, seconds
from examples.backup.jobs import raise_descriptor_limit
from examples.backup.rpc import Address
from examples.backup.wire import BackupError

from .brokers import KNOWN, QUEUE, Broker, default_folder
from .demo import demonstrate
from .driver import Timeouts
from .fleet import Fleet, listed
from .outcome import Outcome
from .processes import work
from .report import show
from .runner import Plan, check_broker, conduct
from .tasks import POOLS, WorkerOptions, application

BROKER_VARIABLE: Final = "CLUSTER_BROKER"
CONCURRENCY: Final = {"dhaga": 1000, "threads": 64, "prefork": 8}


def parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    top = argparse.ArgumentParser(prog="python -m examples.cluster", description="Back a fleet of directories up.")
    commands = top.add_subparsers(required=True, metavar="COMMAND")
    demo = _add_common(commands.add_parser("demo", help="make a fleet, a server and workers, and back it up"), run_demo)
    _add_driver(demo)
    demo.add_argument("--sources", metavar="N", type=at_least_one, default=2000, help="(default: %(default)s)")
    demo.add_argument("--kill", action="store_true", help="kill -9 a worker when a quarter is done")
    demo.add_argument(
        "--rtt", metavar="TIME", help="put a line of this round-trip time before the server, such as 40ms"
    )
    run = _add_common(commands.add_parser("run", help="back sources up"), run_run)
    _add_driver(run)
    run.add_argument("sources", metavar="SOURCE", nargs="*")
    run.add_argument("--from", dest="list", metavar="FILE", type=Path, help="a file with a source on each line")
    run.add_argument("--to", dest="server", metavar="HOST:PORT", type=place, required=True, help="the backup server")
    worker = _add_common(commands.add_parser("worker", help="be a worker"), run_worker)
    worker.add_argument("--number", metavar="N", type=at_least_one, default=os.getpid(), help="its name is worker-N")
    worker.add_argument("--attached", action="store_true", help="end when standard input does")
    return top


def _add_common(command: argparse.ArgumentParser, run: Any) -> argparse.ArgumentParser:
    command.set_defaults(run=run)
    url = os.environ.get(BROKER_VARIABLE, "filesystem://")
    command.add_argument("--broker", metavar="URL", default=url, help=f"{KNOWN}; or in {BROKER_VARIABLE}")
    command.add_argument("--folder", metavar="DIR", type=Path, default=default_folder(), help="(default: %(default)s)")
    command.add_argument("--queue", metavar="NAME", default=QUEUE, help="(default: %(default)s)")
    command.add_argument("--pool", choices=sorted(POOLS), default="dhaga", help="of a worker (default: %(default)s)")
    command.add_argument("--concurrency", metavar="N", type=at_least_one, help="tasks at once in a worker")
    command.add_argument("--token", default=os.environ.get(TOKEN_VARIABLE, ""), help=f"or in {TOKEN_VARIABLE}")
    command.add_argument(
        "--patience", metavar="SECONDS", type=seconds, default=60.0, help="how long a task tries to get through"
    )
    return command


def _add_driver(command: argparse.ArgumentParser) -> None:
    command.add_argument("--workers", metavar="N", type=int, default=2, help="processes; 0: they run elsewhere")
    command.add_argument(
        "--resend-after", metavar="SECONDS", type=seconds, default=10.0, help="when a source counts as lost"
    )
    command.add_argument(
        "--give-up-after", metavar="SECONDS", type=seconds, default=600.0, help="when nothing moves any more"
    )
    command.add_argument("--quiet", action="store_true", help="show no progress")
    command.add_argument("--json", action="store_true", help="print the summary as JSON")


def run_worker(options: argparse.Namespace) -> int:
    """Be a worker."""
    broker = _broker(options)
    if broker.in_one_process:
        raise BackupError("memory:// cannot be reached from another process: use `run` or `demo` alone")
    broker.prepare()
    check_broker(application(broker), broker)
    raise_descriptor_limit()
    return work(broker, _worker_options(options), options.number, attached=options.attached)


def run_run(options: argparse.Namespace) -> int:
    """Back up what was named."""
    fleet = Fleet.of([*options.sources, *(listed(options.list) if options.list else [])])
    host, number = options.server
    plan = _plan(options, Address(host, number, options.token, options.patience))
    outcome = conduct(plan, fleet)
    show(outcome, as_json=options.json)
    return status_of(outcome)


def run_demo(options: argparse.Namespace) -> int:
    """Show it."""
    plan = _plan(options, Address("", 0))
    if options.kill and (plan.broker.in_one_process or not plan.workers):
        raise BackupError("--kill needs worker processes of its own: it goes with filesystem://, redis:// and amqp://")
    outcome, found = demonstrate(plan, options.sources, kill=options.kill, rtt=options.rtt)
    show(outcome, as_json=options.json)
    print(f"\n{found}", file=sys.stderr if options.json else sys.stdout)
    return status_of(outcome)


def status_of(outcome: Outcome) -> int:
    """Give the exit status that tells how a run ended."""
    if outcome.interrupted:
        return INTERRUPTED
    if outcome.failed or outcome.left:
        return 1
    return REPORTED if outcome.problems else 0


def _plan(options: argparse.Namespace, server: Address) -> Plan:
    broker = _broker(options)
    if options.workers < 0:
        raise BackupError("--workers is a number from 0 on")
    if broker.in_one_process and options.pool == "prefork":
        raise BackupError("memory:// is in one process, --pool prefork is in several: choose another of the two")
    timeouts = Timeouts(options.resend_after, options.give_up_after)
    raise_descriptor_limit()
    return Plan(broker, server, _worker_options(options), options.workers, timeouts, options.quiet or options.json)


def _broker(options: argparse.Namespace) -> Broker:
    return Broker(options.broker, options.folder, options.queue)


def _worker_options(options: argparse.Namespace) -> WorkerOptions:
    concurrency = options.concurrency or CONCURRENCY[options.pool]
    return WorkerOptions(options.pool, concurrency, options.token, options.patience)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; give its exit status."""
    options: Any = parser().parse_args(arguments)
    try:
        return int(options.run(options))
    except BackupError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: it ends workers and tells what is left
    sys.exit(main())
