"""A greenlet of gevent's for each request, spawned by one more, all in one OS thread."""

from functools import partial

import gevent
from gevent import socket

from benchmarks.rate_model.clients import calling
from benchmarks.rate_model.run import Run, drive, recorded, sleeping


def perform(run: Run) -> None:
    """See a run to its end; a request that hangs ends with the program."""
    plan, sleep = run.plan, gevent.sleep
    request = recorded(run, calling(plan.ports, socket.socket) if plan.ports else sleeping(plan, sleep))
    gevent.spawn(drive, run, sleep, partial(gevent.spawn, request)).get()
