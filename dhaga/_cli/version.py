"""``python -m dhaga --version``: one line for a bug report."""

from __future__ import annotations

import os
import platform
import sys

import greenlet
import tornado

from .. import __version__
from .._kernel.fast import accelerator
from .._kernel.run.scheduler import Scheduler


def text() -> str:
    """Return the versions of Dhaga, Python and the dependencies, and the poller and loop that a scheduler uses here."""
    system = f"{platform.system()} {platform.release()}"
    with Scheduler() as scheduler:
        poller, loop = type(scheduler.poller).__name__, type(scheduler.loop).__name__
    return (
        f"dhaga {__version__}, Python {platform.python_version()} ({sys.implementation.name}), "
        f"greenlet {greenlet.__version__}, tornado {tornado.version}, {poller} on {loop}, {system}, "
        f"{accelerator.describe()}"
        f"{', DHAGA_POLLER=' + os.environ['DHAGA_POLLER'] if os.environ.get('DHAGA_POLLER') else ''}"
    )
