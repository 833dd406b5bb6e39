"""``python -m dhaga --version``: prints one line for a bug report."""

from __future__ import annotations

import os
import platform
import sys

import greenlet
import tornado

from .. import __version__
from .._kernel.fast import accelerator
from .._kernel.interpreter.requirements import FREE_THREADED, lock_is_on
from .._kernel.process.preemption_events import monitoring
from .._kernel.run import preemption
from .._kernel.run.scheduler import Scheduler


def text() -> str:
    """Return the versions of Dhaga, Python and dependencies, and the poller and loop that a scheduler uses here."""
    system = f"{platform.system()} {platform.release()}"
    with Scheduler() as scheduler:
        poller, loop = type(scheduler.poller).__name__, type(scheduler.loop).__name__
    return (
        f"dhaga {__version__}, Python {platform.python_version()} ({sys.implementation.name}{describe_lock()}), "
        f"greenlet {greenlet.__version__}, tornado {tornado.version}, {poller} on {loop}, {system}, "
        f"{accelerator.describe()}, {describe_preemption()}"
        f"{', DHAGA_POLLER=' + os.environ['DHAGA_POLLER'] if os.environ.get('DHAGA_POLLER') else ''}"
    )


def describe_lock() -> str:
    """Return the state of the interpreter lock if this build can run without it; otherwise, return an empty string."""
    if not FREE_THREADED:
        return ""
    return f", free-threaded, interpreter lock {'on' if lock_is_on() else 'off'}"


def describe_preemption() -> str:
    """Describe the preemption of dhagas that compute in a patched program."""
    if preemption.environment == 0:
        return f"no preemption ({preemption.VARIABLE}=0)"
    quantum = (preemption.environment or preemption.QUANTUM) * 1000
    where = "in calls of Dhaga" if monitoring is None else "anywhere"
    return f"patched programs are preempted {where} after {quantum:g} ms"
