"""A gevent greenlet for each request, spawned by another greenlet, all in one OS thread."""

from functools import partial

import gevent
from gevent import socket

from benchmarks.rate_model.clients import calling
from benchmarks.rate_model.run import Run, drive, recorded, sleeping


def perform(run: Run) -> None:
    """Perform a run. A hanging request ends with the program."""
    plan, sleep = run.plan, gevent.sleep
    request = recorded(run, calling(plan.ports, socket.socket) if plan.ports else sleeping(plan, sleep))
    gevent.spawn(drive, run, sleep, partial(gevent.spawn, request)).get()
