"""A dhaga for each request, spawned by another dhaga, all in one OS thread."""

from functools import partial

import dhaga
from benchmarks.rate_model.clients import calling
from benchmarks.rate_model.run import Run, drive, recorded, sleeping
from dhaga import socket


def perform(run: Run) -> None:
    """Perform a run. A hanging request is cancelled at the end of the program."""
    plan, sleep = run.plan, dhaga.sleep
    request = recorded(run, calling(plan.ports, socket.socket) if plan.ports else sleeping(plan, sleep))
    dhaga.spawn(drive, run, sleep, partial(dhaga.spawn, request, daemon=True)).result()
